// A measure over the steps. The picture is one tab stop: arrows move the cursor, Enter keeps only the groups of its step.
const MEASURES = {
  contrast_lost: { title: "contrast lost under GRPO", format: percent, code: "contrast_lost" },
  dominated: { title: "groups with dominating rewards", format: percent, code: "dominating_rewards" },
  sign_changes: { title: "sign changes, GRPO against credit", format: percent, code: "sign_changes" },
  tied: { title: "tied groups", format: percent, code: "tied_groups" },
  nonfinite: { title: "rewards missing or not finite", format: percent, code: "nonfinite_rewards" },
  spread: { title: "spread of the rewards within groups", format: number, code: "scale_jump" },
  clipped: { title: "responses clipped (GSPO mean)", format: percent },
  branch_moved: { title: "clip branches SoftRoVR would move", format: percent, code: "branch_moved" },
  mean_reward: { title: "mean reward", format: number },
  reward: { title: "reward: median, 10 % to 90 %", format: number, band: true },
  accuracy: { title: "accuracy", format: percent },
  length: { title: "length: median, 10 % to 90 %", format: number, band: true },
  length_reward: { title: "correlation of length and reward within groups", format: number },
  truncated: { title: "truncated responses", format: percent },
  copies: { title: "responses whose text comes twice in the group", format: percent },
  distinct: { title: "distinct word pairs within groups", format: percent },
};
const METRIC_OF = { weight_disagreement: "branch_moved", dominating_rewards: "dominated", tied_groups: "tied", stuck_grader: "tied", nonfinite_rewards: "nonfinite", scale_jump: "spread" };

class StepsChart {
  constructor(doc, choose) {
    this.doc = doc;
    this.choose = choose;
    this.series = {};
    for (const [key, measure] of Object.entries(MEASURES)) {
      const middle = doc.steps[measure.band ? `${key}_middle` : key] ?? [];
      if (!middle.some((v) => v !== null)) continue;
      if (key === "contrast_lost" && doc.summary.contrast_lost_own !== null) measure.title = "contrast lost by the run's own advantages";
      this.series[key] = { ...measure, middle, low: doc.steps[`${key}_low`], high: doc.steps[`${key}_high`] };
    }
    for (const f of doc.findings) {
      if (f.by_step && !METRIC_OF[f.code] && !this.has(f.code)) this.series[`finding:${f.code}`] = { title: `groups of ${f.code}`, format: percent, middle: f.by_step };
    }
    for (const f of doc.description.functions) {
      if (f.by_step.some((v) => v !== null)) this.series[`function:${f.name}`] = { title: f.name, format: number, middle: f.by_step, part: true };
    }
    const option = (key) => el("option", { value: key }, this.series[key].title);
    const keys = Object.keys(this.series), parts = keys.filter((key) => this.series[key].part);
    refill(byId("metric"), keys.filter((key) => !this.series[key].part).map(option),
      parts.length ? el("optgroup", { label: "reward functions" }, parts.map(option)) : null);
    byId("metric").addEventListener("change", () => this.set(byId("metric").value));
    const top = doc.findings.map((f) => this.metricOf(f.code)).find((key) => this.has(key));
    this.metric = top ?? (this.has("mean_reward") ? "mean_reward" : keys[0]);
    this.chosen = null;
    this.cursor = null;
  }

  get empty() { return this.metric === undefined; }

  // The measure that shows a finding: its own, one that is near, or the share of each step's groups it is about.
  metricOf(code) { return METRIC_OF[code] ?? (this.has(code) ? code : `finding:${code}`); }

  has(metric) { return Object.hasOwn(this.series, metric); }

  set(metric) {
    if (!this.has(metric)) return;
    this.metric = metric;
    this.draw();
    this.onchange?.();
  }

  // The finding about this measure, with the step it names or the worst one.
  finding() {
    const s = this.series[this.metric];
    const about = this.doc.findings.filter((f) => this.metricOf(f.code) === this.metric), found = about.find((f) => f.code === s.code) ?? about[0];
    if (!found) return null;
    const peak = s.middle.reduce((best, v, i) => (v !== null && (best < 0 || v > s.middle[best]) ? i : best), -1);
    const named = this.doc.steps.step.indexOf(found.step ?? null);
    return { threshold: s.format === percent && found.code === s.code ? found.threshold : null, at: named >= 0 ? named : peak }; // a near measure has another threshold
  }

  say(i) {
    const s = this.series[this.metric], step = this.doc.steps;
    const band = s.low ? ` (${s.format(s.low[i])} to ${s.format(s.high[i])})` : "";
    return `step ${step.step[i]}: ${s.format(s.middle[i])}${band}, ${whole(step.groups[i])} ${step.groups[i] === 1 ? "group" : "groups"}`;
  }

  draw() {
    if (this.empty) return;
    byId("metric").value = this.metric;
    const root = byId("steps"), focused = root.contains(document.activeElement), s = this.series[this.metric], steps = this.doc.steps;
    const n = s.middle.length, width = pictureWidth(root, 1000), height = 200, left = 62, right = 14, bottom = 24;
    const found = this.finding(), limit = found?.threshold ?? null;
    const known = [...s.middle, ...(s.low ?? []), ...(s.high ?? []), limit].filter((v) => v !== null && v !== undefined);
    let low = Math.min(0, ...known), high = Math.max(...known);
    if (s.format === percent && high < 0.01) high = 0.01;
    if (high <= low) high = low + (Math.abs(low) || 1);
    const scale = Math.max(Math.abs(low), Math.abs(high));
    const y = (v) => 10 + (high / scale - v / scale) / (high / scale - low / scale) * (height - bottom - 10);
    const x = (i) => left + (n === 1 ? 0.5 : i / (n - 1)) * (width - left - right);
    const line = (values) => values.map((v, i) => (v === null ? null : [x(i), y(v)])).filter(Boolean);
    const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    const at = this.cursor ?? (this.chosen === null ? found?.at ?? n - 1 : steps.step.indexOf(this.chosen));
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "slider", tabindex: 0, "aria-label": `${s.title} over ${n} ${n === 1 ? "step" : "steps"}; arrows move, Enter keeps one step`,
      "aria-valuemin": 0, "aria-valuemax": n - 1, "aria-valuenow": at, "aria-valuetext": this.say(at), onkeydown: (e) => this.key(e, n) });
    for (const v of [low, low / 2 + high / 2, high]) {
      chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
      chart.append(svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, s.format(v)));
    }
    const points = line(s.middle), floor = y(Math.max(low, 0)).toFixed(1);
    if (s.low) chart.append(svg("path", { class: "area", d: `${path(line(s.high))}${path(line(s.low).reverse()).replace("M", "L")}Z` }));
    else if (points.length > 1) chart.append(svg("path", { class: "area", d: `${path(points)}L${points.at(-1)[0].toFixed(1)} ${floor}L${points[0][0].toFixed(1)} ${floor}Z` }));
    if (points.length > 1) chart.append(svg("path", { class: "line", d: path(points) }));
    if (limit !== null) {
      chart.append(svg("line", { class: "limit", x1: left, x2: width - right, y1: y(limit), y2: y(limit) }));
      chart.append(svg("text", { class: "limit-name", x: left + 4, y: y(limit) - 4 }, `threshold of the run, ${s.format(limit)}`));
    }
    s.middle.forEach((v, i) => { if (v !== null && n <= 80) chart.append(svg("circle", { class: "step-dot", cx: x(i), cy: y(v), r: 3 })); });
    const mark = (i, kind, radius) => {
      if (i < 0 || i >= n) return;
      chart.append(svg("line", { class: kind, x1: x(i), x2: x(i), y1: 8, y2: height - bottom }));
      if (s.middle[i] !== null) chart.append(svg("circle", { class: `${kind}-dot`, cx: x(i), cy: y(s.middle[i]), r: radius }));
    };
    if (found) mark(found.at, "worst", 5);
    if (this.chosen !== null) mark(steps.step.indexOf(this.chosen), "chosen", 6);
    if (this.cursor !== null) mark(this.cursor, "cursor", 5);
    for (const i of new Set([0, n >> 1, n - 1])) chart.append(svg("text", { x: x(i), y: height - 4, "text-anchor": n === 1 ? "middle" : i === 0 ? "start" : i === n - 1 ? "end" : "middle" }, `step ${steps.step[i]}`));
    const near = (e) => { const box = chart.getBoundingClientRect(), u = ((e.clientX - box.left) / box.width) * width; return Math.max(0, Math.min(n - 1, n === 1 ? 0 : Math.round(((u - left) / (width - left - right)) * (n - 1)))); };
    chart.addEventListener("pointermove", (e) => { byId("step-readout").textContent = this.say(near(e)); });
    chart.addEventListener("click", (e) => this.pick(near(e)));
    refill(root, chart);
    byId("step-readout").textContent = found && this.cursor === null && this.chosen === null ? `${this.say(found.at)} (the worst)` : this.say(at);
    if (focused) chart.focus({ preventScroll: true });
  }

  key(event, n) {
    const from = this.cursor ?? this.finding()?.at ?? 0;
    const to = { ArrowRight: from + 1, ArrowUp: from + 1, ArrowLeft: from - 1, ArrowDown: from - 1, Home: 0, End: n - 1, PageUp: from + 10, PageDown: from - 10 }[event.key];
    if (to !== undefined) { this.cursor = Math.max(0, Math.min(n - 1, to)); this.draw(); }
    else if (event.key === "Enter" || event.key === " ") this.pick(from);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  pick(i) {
    const step = this.doc.steps.step[i];
    this.choose(this.chosen === step ? null : step);
  }
}
