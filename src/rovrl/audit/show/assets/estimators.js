// The formulas of the reward and ratio channels, as in rovrl.credit, rovrl.baselines and rovrl.weight; the tests compare both.
"use strict";
const Estimators = (() => {
  const EPS = 2.220446049250313e-16;
  const sum = (x) => x.reduce((a, b) => a + b, 0);
  const mean = (x) => sum(x.map((v) => v / x.length));

  function median(values) {
    const x = [...values].sort((a, b) => a - b);
    const lower = x[(x.length - 1) >> 1], upper = x[x.length >> 1];
    return lower === upper ? lower : 0.5 * lower + 0.5 * upper;
  }

  // The root of sum psi_c(x_i - u) = 0 (eq:block_m), as in rovrl.robust.solve: the distance from the median in units of the
  // larger of c and half the middle gap, by Newton inside a bracket that always shrinks. Of what is
  // farther than c the sides are counted and the rests 1 - |P| summed: in a wide gap the root hangs on the rests alone.
  function mCenter(x, c) {
    if (!x.length) return 0;
    const ordered = [...x].sort((a, b) => a - b), start = median(x);
    const halfGap = 0.5 * ordered[x.length >> 1] - 0.5 * ordered[(x.length - 1) >> 1];
    const unit = Math.max(c, halfGap), width = Math.max(c / unit, 1e-92);
    const z = x.map((v) => (v - start) / unit);
    let high = halfGap / unit + 0.5 * width * Math.sqrt(x.length), low = -high, u = 0;
    for (let step = 0; step < 200; step++) {
      let side = 0, rest = 0, slope = 0;
      for (const v of z) {
        const d = v - u, s = Math.sqrt(width * width + d * d);
        const sign = Math.abs(d) > width ? Math.sign(d) : 0;
        side += sign;
        rest += sign === 0 ? -d / (s * width * width) : sign / (s * (s + Math.abs(d)));
        slope += 1 / (s * s * s);
      }
      const score = side / (width * width) - rest;
      if (score === 0 || high - low <= 2 * EPS * (Math.abs(low) + Math.abs(high))) break;
      if (score > 0) low = u;
      else high = u;
      const move = score / slope, arrived = Math.abs(move) <= 1.5e-8 * slope ** (-1 / 3);
      u = arrived || (u + move > low && u + move < high) ? u + move : 0.5 * low + 0.5 * high;
      if (arrived) break;
    }
    return start + unit * u;
  }

  // nu_b (above eq:robust_sandwich_scale)
  function sandwich(x, center, width, curvatureFloor, regularizer = 0) {
    let a = 0, b = 0;
    for (const v of x) {
      const r = Math.max(-1e130, Math.min(1e130, (v - center) / width)), w = 1 / Math.sqrt(1 + r * r);
      a += (w * w * w) / x.length / width / width;
      b += ((r * w) / width) ** 2 / x.length;
    }
    return Math.sqrt(b) / (Math.max(a, curvatureFloor) + regularizer);
  }

  // What eq:rovr subtracts from the median of the centers; `step` is J_0 or H_gamma.
  function correction(centers, start, nu, sizes, grid, step, regularizer = 0) {
    let excess = 0, weight = 0;
    centers.forEach((center, b) => {
      const spread = nu / Math.sqrt(sizes[b]);
      const steps = grid.offsets.map((offset) => step(center - start - spread * offset, center));
      excess += sum(steps) - grid.offsets.length / 2;
      weight += Math.sqrt(sizes[b]);
    });
    return (nu / (grid.density * weight + regularizer)) * excess;
  }

  // The hard RoVR reference, eq:rovr.
  function rovr(x, s) {
    const blocks = s.blocks[x.length].map((members) => members.map((i) => x[i]));
    const centers = blocks.map((values) => mCenter(values, s.score_width));
    if (centers.length === 1) return centers[0];
    const start = median(centers);
    const local = blocks.map((values, b) => sandwich(values, centers[b], s.score_width, s.curvature_floor));
    const pooled = s.nu[x.length] ?? median(local);
    const nu = Math.min(Math.max(pooled, s.scale_floor), s.scale_cap);
    const least = Math.min(...centers.map(Math.abs));
    const mid = (u, center) => {
      if (Math.abs(u) <= s.tie_tolerance * nu + 4 * EPS * (Math.abs(center) + least)) return 0.5;
      return u < 0 ? 1 : 0;
    };
    return start - correction(centers, start, nu, blocks.map((b) => b.length), s.grid, mid);
  }

  const rms = (x, floor) => {
    const top = Math.max(1, ...x.map(Math.abs));
    return top * Math.sqrt(mean(x.map((v) => (v / top) ** 2)) + floor / top / top);
  };
  const residual = (x, center) => x.map((v) => Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, v - center)));

  const METHODS = {
    grpo(x, s) {
      const r = residual(x, mean(x)), scale = rms(r, 0) * Math.sqrt(x.length / (x.length - 1)) + s.grpo_epsilon;
      return r.map((v) => v / scale);
    },
    dr_grpo: (x) => residual(x, mean(x)),
    median_mad(x) {
      const r = residual(x, median(x)), scale = 1.4826 * median(r.map(Math.abs)) + 1e-6;
      return r.map((v) => v / scale);
    },
    center(x, s) {
      const r = residual(x, rovr(x, s)), scale = rms(r, s.grpo_epsilon);
      return r.map((v) => v / scale);
    },
    credit(x, s) {
      const k = s.credit_bound;
      const shaped = residual(x, rovr(x, s)).map((u) => k * (u / Math.hypot(u, k)));
      const scale = rms(shaped, s.credit_floor ** 2);
      return shaped.map((v) => v / scale);
    },
  };

  // Advantages of a group whose rewards may be null: those get 0 and are left out; tied and single groups are 0.
  function advantages(name, rewards, s) {
    const finite = rewards.filter((r) => r !== null);
    const zero = rewards.map(() => 0);
    if (finite.length < 2 || Math.min(...finite) === Math.max(...finite)) return zero;
    const values = METHODS[name](finite, s);
    let next = 0;
    return rewards.map((r) => (r === null ? 0 : values[next++]));
  }

  function centers(rewards, s) {
    const x = rewards.filter((r) => r !== null);
    if (!x.length) return { mean: null, median: null, rovr: null };
    return { mean: mean(x), median: median(x), rovr: x.length < 2 ? x[0] : rovr(x, s) };
  }

  // C_H: root mean square of the pairwise differences among the responses kept (below prop:grpo_broadcast).
  function contrast(a, keep) {
    const x = a.filter((_, i) => keep[i]);
    if (x.length < 2) return 0;
    const m = mean(x);
    return Math.sqrt((2 * sum(x.map((v) => (v - m) ** 2))) / (x.length - 1));
  }

  // SoftRoVR of token log-ratios (eq:softrovr_ratio) with its block centers.
  function softRovr(x, s) {
    const total = x.length, used = Math.max(1, Math.min(s.num_blocks, Math.floor(total / s.min_block)));
    const base = Math.floor(total / used), extra = total % used;
    const blocks = [], edges = [];
    for (let b = 0, at = 0; b < used; b++) {
      const size = base + (b < extra ? 1 : 0);
      blocks.push(x.slice(at, at + size));
      edges.push([at, at + size]);
      at += size;
    }
    const means = blocks.map((values) => mCenter(values, s.score_width));
    const out = { mean: mean(x), centers: means, edges };
    if (used === 1) return { ...out, soft: means[0] };
    const scales = blocks.map((v, b) =>
      Math.min(sandwich(v, means[b], s.score_width, s.curvature_floor, s.regularizer), s.scale_cap));
    const start = mCenter(means, s.median_width);
    const nu = Math.min(Math.max(mCenter(scales, s.median_width), s.scale_floor), s.scale_cap);
    const logistic = (u) => 1 / (1 + Math.exp(u / s.temperature));
    const sizes = blocks.map((b) => b.length);
    return { ...out, soft: start - correction(means, start, nu, sizes, s.grid, logistic, s.regularizer) };
  }

  return { mean, median, mCenter, rovr, advantages, centers, contrast, softRovr, NAMES: Object.keys(METHODS) };
})();
