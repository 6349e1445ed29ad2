// A picture is drawn for the width it gets, so that its words keep their size.
// The three pictures: a measure over the steps, a group's rewards, a response's token log-ratios.
const METRICS = {
  contrast_lost: ["contrast lost under GRPO", percent],
  dominated: ["groups with dominating rewards", percent],
  sign_changes: ["sign changes, GRPO against credit", percent],
  tied: ["tied groups", percent],
  nonfinite: ["rewards missing or not finite", percent],
  mean_reward: ["mean reward", number],
  spread: ["spread of the rewards within groups", number],
  clipped: ["responses clipped (GSPO mean)", percent],
  branch_moved: ["clip branches SoftRoVR would move", percent],
};

function stepsChart(steps, metric, chosen, choose, width) {
  const [title, format] = METRICS[metric];
  const values = steps[metric], n = values.length, height = 190, left = 62, bottom = 24;
  const known = values.filter((v) => v !== null);
  let low = Math.min(0, ...known), high = Math.max(...known, low + 1e-12);
  if (format === percent && high < 0.01) high = 0.01;
  const x = (i) => left + (n === 1 ? 0.5 : i / (n - 1)) * (width - left - 14);
  const y = (v) => 10 + (1 - (v - low) / (high - low)) * (height - bottom - 10);
  const points = values.map((v, i) => (v === null ? null : [x(i), y(v)])).filter(Boolean);
  const path = points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
  const peak = values.reduce((best, v, i) => (v !== null && (best < 0 || v > values[best]) ? i : best), -1);
  const label = `${title} over ${n} steps` + (peak < 0 ? "" : `; highest ${format(values[peak])} at step ${steps.step[peak]}`);
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label });
  for (const v of [low, (low + high) / 2, high]) {
    chart.append(svg("line", { class: "axis", x1: left, x2: width - 14, y1: y(v), y2: y(v) }));
    chart.append(svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, format(v)));
  }
  if (points.length > 1) {
    const floor = y(low).toFixed(1);
    chart.append(svg("path", { class: "area", d: `${path}L${points.at(-1)[0].toFixed(1)} ${floor}L${points[0][0].toFixed(1)} ${floor}Z` }));
    chart.append(svg("path", { class: "line", d: path }));
  }
  const wide = n > 1 ? (width - left - 14) / (n - 1) : 60;
  values.forEach((v, i) => {
    if (v !== null && (n <= 80 || steps.step[i] === chosen)) chart.append(svg("circle", { class: "step-dot", cx: x(i), cy: y(v), r: steps.step[i] === chosen ? 6 : 3 }));
    const say = `step ${steps.step[i]}: ${format(v)}, ${whole(steps.groups[i])} groups`;
    const hit = svg("rect", { class: "step-hit", x: x(i) - wide / 2, y: 4, width: wide, height: height - bottom, role: "button",
      tabindex: n <= 200 ? 0 : null, "aria-label": say, "aria-pressed": steps.step[i] === chosen ? "true" : "false",
      onclick: () => choose(steps.step[i]), onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(steps.step[i]); } } },
      svg("title", {}, say));
    chart.append(hit);
  });
  for (const i of new Set([0, n >> 1, n - 1])) chart.append(svg("text", { x: x(i), y: height - 4, "text-anchor": i === 0 ? "start" : i === n - 1 ? "end" : "middle" }, `step ${steps.step[i]}`));
  return chart;
}

// A symmetric logarithm once the range dwarfs the middle half: an outlier must not press all other dots into one.
function scaleFor(values) {
  const x = [...values].sort((a, b) => a - b), low = x[0], high = x.at(-1);
  const half = (x[Math.floor(0.8 * (x.length - 1))] - x[Math.ceil(0.2 * (x.length - 1))]) || (high - low) / 50 || 1;
  const middle = Estimators.median(x), far = Math.max(high - middle, middle - low);
  const bent = far > 12 * half;
  const f = bent ? (v) => Math.asinh((v - middle) / half) : (v) => v - middle;
  return { f, bent };
}

function dotPlot(rewards, original, moved, centers, dominating, width) {
  const left = 14, right = 14, row = 9;
  const shown = rewards.map((r, i) => [r, i]).filter(([r]) => r !== null);
  const all = [...shown.map(([r]) => r), ...Object.values(centers)];
  if (moved !== null) all.push(original[moved]);
  const { f, bent } = scaleFor(all);
  let low = Math.min(...all.map(f)), high = Math.max(...all.map(f));
  if (low === high) { low -= 1; high += 1; }
  const x = (v) => left + ((f(v) - low) / (high - low)) * (width - left - right);
  const stacks = new Map();
  const dots = shown.map(([r, i]) => {
    const place = Math.round(x(r) / 9), level = stacks.get(place) ?? 0;
    stacks.set(place, level + 1);
    return [r, i, level];
  });
  const tall = Math.max(4, ...stacks.values()), base = 26 + tall * row * 1.1, height = base + 26;
  const say = `${shown.length} rewards from ${number(Math.min(...shown.map(([r]) => r)))} to ${number(Math.max(...shown.map(([r]) => r)))}; mean ${number(centers.mean)}, median ${number(centers.median)}, RoVR reference ${number(centers.rovr)}`;
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say });
  plot.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: base, y2: base }));
  for (const name of ["mean", "median", "rovr"]) {
    plot.append(svg("line", { class: `mark ${name}`, x1: x(centers[name]), x2: x(centers[name]), y1: 8, y2: base + 5 }));
  }
  if (moved !== null && original[moved] !== rewards[moved]) {
    plot.append(svg("circle", { class: "dot ghost", cx: x(original[moved]), cy: base - 8, r: 5.5 }));
  }
  for (const [r, i, level] of dots) {
    const hot = i === moved || (moved === null && dominating.includes(i));
    plot.append(svg("circle", { class: hot ? "dot hot" : "dot", cx: x(r), cy: base - 8 - level * row * 1.1, r: i === moved ? 6.5 : 5 },
      svg("title", {}, `response ${i + 1}: ${number(r, 6)}`)));
  }
  const ends = [Math.min(...all), Math.max(...all)];
  plot.append(svg("text", { x: left, y: height - 6 }, number(ends[0])));
  plot.append(svg("text", { x: width - right, y: height - 6, "text-anchor": "end" }, number(ends[1])));
  if (bent) plot.append(svg("text", { x: width / 2, y: height - 6, "text-anchor": "middle" }, width > 420 ? "bent scale: far rewards are drawn nearer" : "bent scale"));
  return plot;
}

function tokenChart(row, settings, width) {
  const unit = row.unit, values = row.values, n = values.length;
  const s = Estimators.softRovr(values.map((v) => v / unit), settings);
  const band = [Math.log1p(-row.clip[0]), Math.log1p(row.clip[1])];
  const height = 170, left = 58, right = 10;
  const inner = [...values].map(Math.abs).sort((a, b) => a - b);
  const top = Math.max(1e-12, inner[Math.floor(0.98 * (n - 1))] * 1.3, Math.abs(row.mean) * 1.5, Math.abs(row.soft) * 1.5, band[1] * 1.5, -band[0] * 1.5);
  const x = (i) => left + (i / n) * (width - left - right);
  const y = (v) => 8 + (1 - (Math.max(-top, Math.min(top, v)) + top) / (2 * top)) * (height - 30);
  const cut = values.filter((v) => Math.abs(v) > top).length;
  const say = `${n} token log-ratios; mean ${number(row.mean)}, SoftRoVR ${number(row.soft)}, clip band ${number(band[0])} to ${number(band[1])}`;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say });
  chart.append(svg("rect", { class: "clip-band", x: left, width: width - left - right, y: y(band[1]), height: Math.max(1.5, y(band[0]) - y(band[1])) }));
  chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
  const wide = Math.max(0.7, ((width - left - right) / n) * 0.8);
  values.forEach((v, i) => chart.append(svg("rect", { class: "token", x: x(i), width: wide, y: Math.min(y(v), y(0)), height: Math.max(0.8, Math.abs(y(v) - y(0))) },
    n <= 400 ? svg("title", {}, `token ${i + 1}: ${number(v)}`) : null)));
  s.edges.forEach(([a, z], b) => chart.append(svg("line", { class: "block-line", x1: x(a), x2: x(z) - 1, y1: y(s.centers[b] * unit), y2: y(s.centers[b] * unit) })));
  chart.append(svg("line", { class: "mark mean", x1: left, x2: width - right, y1: y(row.mean), y2: y(row.mean) }));
  chart.append(svg("line", { class: "mark rovr", x1: left, x2: width - right, y1: y(row.soft), y2: y(row.soft) }));
  for (const v of [-top, 0, top]) chart.append(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v, 2)));
  chart.append(svg("text", { x: left, y: height - 4 }, "token 1"));
  chart.append(svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, cut ? `token ${n}; ${cut} beyond the picture` : `token ${n}`));
  return chart;
}
