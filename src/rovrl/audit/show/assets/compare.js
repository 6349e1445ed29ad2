// Several runs side by side: differences from the first, curves, and the same prompt in each.
(() => {
  const doc = JSON.parse(byId("data").textContent), root = document.documentElement;
  const format = (name) => (doc.measures[name].share ? percent : number);
  const worse = doc.differences.filter((d) => d.worse);

  refill(byId("source"), `${doc.runs.length} runs \u00b7 ${whole(doc.matched)} prompts in ${doc.runs.length === 2 ? "both" : "all"} \u00b7 rovrl ${doc.rovrl}`);
  byId("verdict").classList.toggle("bad", doc.status !== 0);
  byId("verdict-title").textContent = worse.length ? `Clearly worse than A: ${worse.map((d) => `${doc.measures[d.measure].title} in ${doc.runs[d.run].letter}`).join(", ")}` : "Nothing is clearly worse than in A";
  refill(byId("runs"), doc.runs.map((r, k) => el("li", {}, el("b", { class: `run${k % 6}` }, r.letter), " ", el("bdi", {}, r.path), el("span", { class: "muted" }, ` \u00b7 ${r.title} \u00b7 ${whole(r.summary.groups)} groups, ${whole(r.summary.steps)} steps \u00b7 ${r.verdict}`))));

  const interval = (d) => {
    const reach = Math.max(Math.abs(d.low), Math.abs(d.high), 1e-300), x = (v) => 50 + (46 * v) / reach;
    return svg("svg", { class: "interval", viewBox: "0 0 100 16", role: "img", "aria-label": `from ${number(d.low)} to ${number(d.high)}` },
      svg("line", { class: "axis", x1: 50, x2: 50, y1: 0, y2: 16 }), svg("line", { class: d.worse ? "bad-line" : "line", x1: x(d.low), x2: x(d.high), y1: 8, y2: 8 }), svg("circle", { class: d.worse ? "dot hot" : "step-dot", cx: x(d.difference), cy: 8, r: 3.5 }));
  };
  const signed = (name, v) => (v > 0 ? "+" : "") + format(name)(v).replace("\u2013", "");
  const difference = (name, v) => (doc.measures[name].share ? `${v > 0 ? "+" : ""}${Number((100 * v).toPrecision(3))} points` : signed(name, v));
  refill(byId("differences"), doc.runs.slice(1).map((run, k) => el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `${run.letter} against A` }, el("table", {},
    el("thead", {}, el("tr", {}, ["measure", "A", run.letter, `${run.letter} - A`, "95 % interval", "", "over"].map((t) => el("th", { scope: "col" }, t)))),
    el("tbody", {}, doc.differences.filter((d) => d.run === k + 1).map((d) => el("tr", { "data-measure": d.measure, class: d.clear ? "clear" : null },
      el("th", { scope: "row" }, doc.measures[d.measure].title), el("td", { "data-title": "A" }, format(d.measure)(d.a)), el("td", { "data-title": run.letter }, format(d.measure)(d.b)),
      el("td", { "data-title": `${run.letter} - A` }, difference(d.measure, d.difference)),
      el("td", { class: "range", "data-title": "95 % interval" }, `${difference(d.measure, d.low)} to ${difference(d.measure, d.high)}`), el("td", { class: "drawn" }, interval(d)),
      el("td", { class: "muted" }, `${whole(d.units)} ${d.paired ? "prompts, paired" : "groups"}`))))))));

  const names = Object.keys(doc.measures).filter((name) => doc.runs.some((r) => (r.curves[name]?.mean ?? []).some((v) => v !== null)));
  refill(byId("metric"), names.map((name) => el("option", { value: name }, doc.measures[name].title)));
  refill(byId("legend"), doc.runs.map((r, k) => el("li", { class: `run${k % 6}` }, el("i", { "aria-hidden": "true" }), r.letter)));
  const drawCurves = () => {
    const name = byId("metric").value, show = format(name), width = pictureWidth(byId("curves"), 1000), height = 240, left = 62, right = 14, bottom = 24;
    const lines = doc.runs.map((r) => ({ step: r.curves.step, ...(r.curves[name] ?? { mean: [], low: [], high: [] }) }));
    const every = lines.flatMap((l) => [...l.mean, ...l.low, ...l.high]).filter((v) => v !== null && v !== undefined), steps = lines.flatMap((l) => l.step);
    let low = Math.min(...every), high = Math.max(...every);
    if (low === high) { low -= Math.abs(low) || 1; high += Math.abs(high) || 1; }
    const first = Math.min(...steps), last = Math.max(...steps), size = Math.max(Math.abs(low), Math.abs(high));
    const x = (s) => left + (last === first ? 0.5 : (s - first) / (last - first)) * (width - left - right);
    const y = (v) => 10 + ((high / size - v / size) / (high / size - low / size)) * (height - bottom - 10);
    const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${doc.measures[name].title} over the steps` });
    for (const v of [low, low / 2 + high / 2, high]) chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }), svg("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, show(v)));
    lines.forEach((l, k) => {
      const at = (values, i) => `${x(l.step[i]).toFixed(1)},${y(values[i]).toFixed(1)}`, all = l.mean.map((_, i) => i);
      const band = all.filter((i) => l.low[i] !== null), line = all.filter((i) => l.mean[i] !== null);
      if (band.length > 1) chart.append(svg("polygon", { class: `run-band run${k % 6}`, points: [...band.map((i) => at(l.high, i)), ...band.reverse().map((i) => at(l.low, i))].join(" ") }));
      chart.append(svg("polyline", { class: `run-line run${k % 6}`, points: line.map((i) => at(l.mean, i)).join(" ") }));
      if (line.length < 2) for (const i of line) chart.append(svg("circle", { class: `run-dot run${k % 6}`, cx: x(l.step[i]), cy: y(l.mean[i]), r: 4 }));
    });
    for (const [s, anchor] of [[first, "start"], [last, "end"]]) chart.append(svg("text", { x: x(s), y: height - 4, "text-anchor": anchor }, `step ${s}`));
    refill(byId("curves"), chart);
  };
  byId("metric").addEventListener("change", drawCurves);
  if (names.length) drawCurves();

  const fold = (title, text) => el("details", {}, el("summary", {}, title), el("div", { class: "untrusted", dir: "auto", tabindex: 0, role: "group", "aria-label": title }, text ?? "(none saved)"));
  const side = (group, run) => el("div", { class: "side" }, el("h3", {}, `${run.letter}, step ${group.step}: mean ${number(group.centers?.mean ?? null)}`),
    group.centers ? dotPlot(group.rewards, group.rewards, null, group.centers, group.dominating, 460) : el("p", { class: "muted" }, "Fewer than two finite rewards."),
    (group.completions ?? []).map((text, i) => [group.rewards[i], i, text]).sort((a, b) => (b[0] ?? -Infinity) - (a[0] ?? -Infinity)).map(([r, i, text]) => fold(`Response ${i + 1}: reward ${number(r, 4)}`, text)));
  refill(byId("prompts"), doc.pairs.length ? doc.pairs.map((pair) => {
    const title = `${pair.means.map((m, k) => `${doc.runs[k].letter} ${number(m)}`).join(", ")} \u00b7 `;
    const box = el("details", { class: "pair-box" }, el("summary", {}, title, el("bdi", { class: "muted" }, pair.prompt.replace(/\s+/g, " ").slice(0, 120))));
    box.addEventListener("toggle", () => {
      if (box.open && box.children.length === 1) build(box, {}, [el("div", { class: "untrusted", dir: "auto", tabindex: 0, role: "group", "aria-label": "Prompt" }, pair.prompt), el("div", { class: "sides" }, pair.runs.map((g, k) => side(g, doc.runs[k])))]);
    });
    return box;
  }) : el("p", { class: "muted" }, "No prompt is in all runs, or no prompts were saved."));

  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  window.addEventListener("resize", () => requestAnimationFrame(() => { if (names.length) drawCurves(); }));
  window.rovrlAudit = { doc };
})();
