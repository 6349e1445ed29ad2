// One group: its rewards, what each method makes of them, and a control that moves one reward.
const TITLES = { grpo: "GRPO", dr_grpo: "Dr. GRPO", median_mad: "median-MAD", center: "center", credit: "credit" };

class GroupView {
  constructor(root, document_) {
    this.root = root;
    this.doc = document_;
    refill(root, el("h2", { id: "group-title" }, "One group"), el("p", { class: "muted" }, "Choose a group in the list."));
  }

  show(group) {
    this.group = group;
    this.settings = this.doc.settings[group.settings];
    this.rewards = [...group.rewards];
    this.before = this.all(group.rewards);
    const first = group.dominating[0] ?? group.rewards.findIndex((r) => r !== null);
    this.moved = first < 0 ? null : first;
    this.touched = false;
    this.plot = el("div", {});
    this.legend = el("ul", { class: "legend" });
    this.table = el("div", { class: "scroll" });
    this.kept = el("div", { class: "kept" });
    refill(this.root,
      el("button", { id: "back", type: "button", onclick: () => byId("groups").scrollIntoView() }, "\u2190 to the list"),
      el("h2", { id: "group-title" }, groupName(group)),
      this.facts(), el("h3", {}, "Rewards"), this.plot, this.legend,
      this.moved === null ? null : this.control(),
      el("h3", {}, "Advantages"), this.table,
      el("h3", {}, "Contrast among the other responses that each method keeps"), this.kept,
      el("p", { class: "muted small", id: "kept-note" }),
      this.texts(), this.tokens());
    this.root.scrollTop = 0;
    this.draw();
  }

  all(rewards) {
    return Object.fromEntries(Estimators.NAMES.map((name) => [name, Estimators.advantages(name, rewards, this.settings)]));
  }

  facts() {
    const g = this.group, parts = [`${g.size} responses`];
    if (g.finite < g.size) parts.push(`${g.size - g.finite} without a finite reward`);
    if (g.tied) parts.push("all rewards equal: no signal under any method");
    if (g.dominating.length) parts.push(`GRPO lost ${percent(g.lost)} of the others' contrast, credit ${percent(g.lost_credit)}`);
    if (g.flips) parts.push(`${g.flips} sign changes between GRPO and credit`);
    if (g.fallback && !g.single) parts.push("too small for the declared budget: the reference is the global M-center");
    if ((g.planted ?? []).length) parts.push(`the run itself planted ${g.planted.length} rewards: ${g.planted.map((i) => i + 1).join(", ")}`);
    return el("p", { class: "muted" }, parts.join(" \u00b7 "));
  }

  control() {
    const finite = this.group.rewards.filter((r) => r !== null);
    const low = Math.min(...finite), high = Math.max(...finite), reach = Math.max(high - low, 1e-6, Math.abs(high) * 1e-3);
    this.range = [low - 1.5 * reach, high + 1.5 * reach];
    this.choice = el("select", { id: "which", "aria-label": "Response to move", onchange: (e) => this.choose(Number(e.target.value)) },
      this.group.rewards.map((r, i) => (r === null ? null : el("option", { value: i }, `response ${i + 1}`))));
    this.slider = el("input", { id: "slider", class: "slider", type: "range", min: 0, max: 1000, "aria-label": "Its reward, by slider", oninput: () => this.set(this.range[0] + (this.slider.value / 1000) * (this.range[1] - this.range[0])) });
    this.exact = el("input", { id: "exact", type: "number", step: "any", "aria-label": "Its reward, exactly", oninput: () => { if (this.exact.value !== "" && Number.isFinite(Number(this.exact.value))) this.set(Number(this.exact.value), true); } });
    this.resetButton = el("button", { id: "reset", type: "button", onclick: () => this.reset() }, "Put back");
    return el("div", { class: "control", role: "group", "aria-label": "Move one reward and see what each method does to the others" }, this.choice, this.slider, this.exact, this.resetButton);
  }

  choose(index) {
    this.rewards = [...this.group.rewards];
    this.moved = index;
    this.touched = false;
    this.draw();
  }

  set(value, typed = false) {
    this.rewards[this.moved] = value;
    this.touched = value !== this.group.rewards[this.moved];
    this.draw(typed);
  }

  reset() {
    if (this.moved === null) return;
    this.set(this.group.rewards[this.moved]);
  }

  draw(typed = false) {
    const centers = Estimators.centers(this.rewards, this.settings), now = this.all(this.rewards);
    this.now = now;
    this.centers = centers;
    const known = this.rewards.some((r) => r !== null);
    refill(this.plot, known ? dotPlot(this.rewards, this.group.rewards, this.touched ? this.moved : null, centers, this.group.dominating, pictureWidth(this.plot)) : "no finite reward");
    refill(this.legend, [["mean", "mean"], ["median", "median"], ["rovr", "RoVR reference"]].map(([key, title]) => el("li", { class: key }, el("i", { "aria-hidden": "true" }), `${title} ${number(centers[key], 4)}`)));
    if (this.moved !== null) {
      const value = this.rewards[this.moved];
      this.choice.value = this.moved;
      this.slider.value = Math.round((1000 * (value - this.range[0])) / (this.range[1] - this.range[0]));
      this.slider.setAttribute("aria-valuetext", number(value));
      if (!typed) this.exact.value = Number(value.toPrecision(12));
      this.resetButton.disabled = !this.touched;
    }
    this.drawTable(now);
    this.drawKept(now);
  }

  drawTable(now) {
    const names = Estimators.NAMES, logged = this.group.logged;
    const top = Object.fromEntries(names.map((name) => [name, Math.max(1e-12, ...now[name].map(Math.abs))]));
    const head = el("tr", {}, el("th", { scope: "col" }, "#"), el("th", { scope: "col" }, "reward"),
      names.map((name) => el("th", { scope: "col" }, TITLES[name])), logged ? el("th", { scope: "col", class: "wide" }, "logged") : null);
    const rows = this.rewards.map((r, i) => el("tr", { class: this.touched && i === this.moved ? "moved" : null },
      el("th", { scope: "row" }, i + 1, this.group.dominating.includes(i) ? [" ", el("span", { class: "out", role: "img", "aria-label": "dominates", title: "dominates the group" }, "\u25cf")] : null),
      el("td", {}, r === null ? "none" : number(r, 4)),
      names.map((name) => this.cell(now[name][i], top[name], name, i)),
      logged ? el("td", { class: "wide muted" }, number(logged[i], 3)) : null));
    refill(this.table, el("table", { class: "advantages", "aria-label": "Advantages by method" }, el("thead", {}, head), el("tbody", {}, rows)));
  }

  cell(value, top, name, i) {
    const share = (50 * Math.abs(value)) / top;
    const bar = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: value < 0 ? "down" : "up", x: value < 0 ? 50 - share : 50, y: 0, width: share, height: 10 }));
    return el("td", { class: "cell", "data-method": name, "data-response": i }, bar, el("span", {}, number(value)));
  }

  // Against the group without the rewards in question: the dominating ones as saved, or the one that was moved.
  drawKept(now) {
    const out = this.touched ? [this.moved] : this.group.dominating;
    const keep = this.rewards.map((r, i) => r !== null && !out.includes(i));
    const without = this.rewards.map((r, i) => (keep[i] ? r : null));
    byId("kept-note").textContent = out.length
      ? `Compared with the same group without response ${out.map((i) => i + 1).join(", ")}.`
      : "No reward dominates this group; move one to see what it would do.";
    const known = keep.filter(Boolean).length in this.settings.blocks;
    refill(this.kept, Estimators.NAMES.map((name) => {
      const before = known ? Estimators.contrast(Estimators.advantages(name, without, this.settings), keep) : 0;
      const share = before > 0 ? Estimators.contrast(now[name], keep) / before : null;
      return el("div", { "data-kept": name }, el("span", {}, TITLES[name]),
        share === null ? el("span", { class: "muted" }, "no contrast to keep") : el("progress", { max: 1, value: Math.min(1, share), "aria-label": `${TITLES[name]} keeps` }),
        el("b", {}, share === null ? "\u2013" : percent(share)));
    }));
  }

  texts() {
    const g = this.group;
    if (g.completions === undefined) return el("p", { class: "muted small" }, "The texts of this group are not in the page: only those of the worst groups are.");
    const fold = (title, text) => el("details", {}, el("summary", {}, title), el("div", { class: "untrusted", dir: "auto", tabindex: 0, role: "group", "aria-label": title }, text ?? "(none saved)"));
    return el("section", { "aria-label": "Prompt and responses" }, el("h3", {}, "Prompt and responses"), fold("Prompt", g.prompt),
      g.completions.map((text, i) => fold(`Response ${i + 1}, reward ${number(g.rewards[i], 4)}`, text)));
  }

  tokens() {
    const rows = [...(this.group.tokens ?? [])].sort((a, b) => Math.abs(b.mean) - Math.abs(a.mean));
    if (!rows.length) return null;
    const seen = new Map();
    const title = (row) => {
      seen.set(row.response, (seen.get(row.response) ?? 0) + 1);
      const again = seen.get(row.response) > 1 ? `, update ${seen.get(row.response)}` : "";
      return `Response ${row.response + 1}${again}: mean ${number(row.mean)}, SoftRoVR ${number(row.soft)}`;
    };
    return el("section", { "aria-label": "Token log-ratios" }, el("h3", {}, "Token log-ratios, the largest weight first"),
      el("ul", { class: "legend" }, [["mean", "mean (GSPO)"], ["soft", "SoftRoVR"], ["block", "block centers"], ["clip", "clip band"]].map(([key, text]) => el("li", { class: key }, el("i", { "aria-hidden": "true" }), text))),
      rows.map((row) => {
        const box = el("details", {}, el("summary", {}, title(row), this.branches(row)));
        box.addEventListener("toggle", () => { if (box.open && !box.querySelector("svg")) box.append(tokenChart(row, this.doc.ratio_settings, pictureWidth(box))); });
        return box;
      }));
  }

  branches(row) {
    const branch = (m) => {
      const q = Math.exp(Math.min(m, 20));
      return row.advantage > 0 && q > 1 + row.clip[1] ? "upper-clipped" : row.advantage < 0 && q < 1 - row.clip[0] ? "lower-clipped" : "active";
    };
    if (row.advantage === null) return null;
    const a = branch(row.mean), b = branch(row.soft);
    return a === b ? el("span", { class: "chip" }, a) : el("span", { class: "chip bad" }, `${a} \u2192 ${b}`);
  }
}
