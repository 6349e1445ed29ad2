// A group's rewards on a line, drawn for the width they get, so that words keep their size.
// The scale bends once the range dwarfs the middle half: an outlier must not press all other dots into one.
function scaleFor(values) {
  const x = [...values].sort((a, b) => a - b), low = x[0], high = x.at(-1);
  const half = (x[Math.floor(0.8 * (x.length - 1))] - x[Math.ceil(0.2 * (x.length - 1))]) || (high / 2 - low / 2) / 25 || 1;
  const middle = Estimators.median(x), far = Math.max(high / 2 - middle / 2, middle / 2 - low / 2);
  const bent = far > 6 * half;
  const f = bent ? (v) => Math.asinh(Math.max(-1e300, Math.min(1e300, (v - middle) / half))) : (v) => v - middle;
  return { f, bent, inner: [middle - 2 * half, middle + 2 * half] };
}

// Round numbers inside [low, high]: evenly spaced, or of every power of ten on a bent scale.
function ticksFor(low, high, bent) {
  if (bent) {
    const top = Math.max(Math.abs(low), Math.abs(high)), found = new Set([0]);
    for (let power = Math.floor(Math.log10(top)); power >= Math.floor(Math.log10(top)) - 8; power--)
      for (const m of [5, 2, 1]) for (const sign of [1, -1]) found.add(sign * Number(`${m}e${power}`));
    return [...found].filter((v) => v >= low && v <= high);
  }
  const raw = (high - low) / 5;
  if (!(raw > 0) || !Number.isFinite(raw)) return [];
  const power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((m) => m * power).find((v) => v >= raw);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high && out.length < 12; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

function dotPlot(rewards, original, moved, centers, dominating, width) {
  const left = 16, right = 16, row = 10;
  const shown = rewards.map((r, i) => [r, i]).filter(([r]) => r !== null);
  const all = [...shown.map(([r]) => r), ...Object.values(centers)];
  if (moved !== null) all.push(original[moved]);
  const { f, bent, inner } = scaleFor(all);
  let low = Math.min(...all.map(f)), high = Math.max(...all.map(f));
  if (low === high) { low -= 1; high += 1; }
  const size = Math.max(Math.abs(low), Math.abs(high));
  const x = (v) => left + ((f(v) / size - low / size) / (high / size - low / size)) * (width - left - right);
  const stacks = new Map();
  const dots = shown.map(([r, i]) => {
    const place = Math.round(x(r) / 9), level = stacks.get(place) ?? 0;
    stacks.set(place, level + 1);
    return [r, i, level];
  });
  const tall = Math.max(4, ...stacks.values()), base = 26 + tall * row, height = base + 38;
  const say = `${shown.length} rewards from ${number(Math.min(...shown.map(([r]) => r)))} to ${number(Math.max(...shown.map(([r]) => r)))}; mean ${number(centers.mean)}, median ${number(centers.median)}, RoVR reference ${number(centers.rovr)}`;
  const plot = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say });
  plot.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: base, y2: base }));
  const ends = [Math.min(...all), Math.max(...all)], taken = [];
  const near = bent ? ticksFor(Math.max(ends[0], inner[0]), Math.min(ends[1], inner[1]), false) : [];
  for (const v of [...ends, ...near, ...ticksFor(...ends, bent)]) {
    const at = x(v), words = number(v), edge = ends.includes(v);
    const anchor = at < left + 24 ? "start" : at > width - right - 24 ? "end" : "middle";
    const half = words.length * 3.6 + 5, span = anchor === "start" ? [at, at + 2 * half] : anchor === "end" ? [at - 2 * half, at] : [at - half, at + half];
    if (taken.some(([a, z]) => span[0] < z && span[1] > a)) continue;
    taken.push(span);
    plot.append(svg("line", { class: "tick", x1: at, x2: at, y1: base, y2: base + (edge ? 7 : 5) }));
    plot.append(svg("text", { x: at, y: base + 19, "text-anchor": anchor }, words));
  }
  for (const name of ["mean", "median", "rovr"]) {
    plot.append(svg("line", { class: `mark ${name}`, x1: x(centers[name]), x2: x(centers[name]), y1: 8, y2: base + 5 }));
  }
  if (moved !== null && original[moved] !== rewards[moved]) {
    plot.append(svg("circle", { class: "dot ghost", cx: x(original[moved]), cy: base - 8, r: 5.5 }));
  }
  for (const [r, i, level] of dots) {
    const hot = i === moved || (moved === null && dominating.includes(i));
    plot.append(svg("circle", { class: hot ? "dot hot" : "dot", cx: x(r), cy: base - 8 - level * row, r: i === moved ? 6.5 : 5 },
      svg("title", {}, `response ${i + 1}: ${number(r, 6)}`)));
  }
  if (bent) plot.append(svg("text", { class: "bent", x: width / 2, y: height - 4, "text-anchor": "middle" }, "the scale is bent: far rewards are drawn nearer"));
  return plot;
}
