// One group: its rewards, what each method makes of them, and a control that moves one reward.
const TITLES = { grpo: "GRPO", dr_grpo: "Dr. GRPO", median_mad: "median-MAD", center: "center", credit: "credit" };

class GroupView {
  constructor(root, document_) {
    this.root = root;
    this.doc = document_;
    this.words = [];
    refill(root, el("h2", { id: "group-title" }, "One group"), el("p", { class: "muted" }, "Choose a group in the list."));
  }

  show(group, words = []) {
    this.group = group;
    this.words = words;
    this.settings = this.doc.settings[group.settings];
    this.rewards = [...group.rewards];
    const first = group.dominating[0] ?? group.rewards.findIndex((r) => r !== null);
    this.moved = first < 0 ? null : first;
    this.touched = false;
    this.plot = el("div", {});
    this.legend = el("ul", { class: "legend" });
    this.table = el("div", { class: "scroll" });
    this.kept = el("div", { class: "scroll" });
    refill(this.root,
      el("button", { id: "back", type: "button", onclick: () => byId("groups").scrollIntoView() }, "\u2190 to the list"),
      el("h2", { id: "group-title", title: groupName(group) }, `step ${group.step}, `, el("bdi", {}, short(group.label || `group ${group.id}`))),
      this.facts(), el("h3", {}, "Rewards"), this.plot, this.legend,
      this.moved === null ? null : this.control(),
      el("h3", {}, "What each method makes of them"), this.kept, el("p", { class: "muted small", id: "kept-note" }),
      el("h3", {}, "Advantages, by reward"), this.table,
      this.said = el("div", {}, this.texts()), this.tokens());
    this.root.scrollTop = 0;
    this.draw();
  }

  // What is searched for, marked in the texts; the rest of the view stays as it is.
  mark(words) {
    if (!this.group || words.join("\n") === this.words.join("\n")) return;
    this.words = words;
    refill(this.said, this.texts());
  }

  all(rewards) {
    const spared = this.group.named["left out by the run itself (advantage 0)"] ?? []; // and so out of its credit, if another reward is moved
    const counted = rewards.map((r, i) => (spared.includes(i) && i !== this.moved ? null : r));
    const found = Object.fromEntries(Estimators.NAMES.map((name) => [name, Estimators.advantages(name, name === "credit" ? counted : rewards, this.settings)]));
    if (this.doc.source.logs_credit && !this.touched) found.credit = this.group.logged.map((v) => v ?? 0); // the run's own, blocks and faults and all
    return found;
  }

  facts() {
    const g = this.group, parts = [`${g.size} ${g.size === 1 ? "response" : "responses"}`];
    if (g.finite < g.size) parts.push(`${g.size - g.finite} without a finite reward`);
    if (g.tied) parts.push("all rewards equal: no signal under any method");
    if (g.dominating.length) parts.push(`GRPO lost ${percent(g.lost)} of the others' contrast, credit ${percent(g.lost_credit)}${g.lost_own === null ? "" : `, the run's own advantages ${percent(g.lost_own)}`}`);
    if (g.flips) parts.push(`${g.flips} ${g.flips === 1 ? "sign change" : "sign changes"} between GRPO and credit`);
    if (g.copies) parts.push(`${g.copies} responses share their text with another`);
    if (g.fallback && !g.single) parts.push("too small for the declared budget: the reference is the global M-center");
    for (const [why, places] of Object.entries(g.named)) parts.push(`${why}: ${places.map((i) => i + 1).join(", ")}`);
    if ((g.planted ?? []).length) parts.push(`planted by the run itself: ${g.planted.map((i) => i + 1).join(", ")}`);
    return el("p", { class: "muted" }, parts.join(" \u00b7 "));
  }

  control() {
    const finite = this.group.rewards.filter((r) => r !== null);
    const low = Math.min(...finite), high = Math.max(...finite), reach = Math.max(Math.min(high - low, 1e300), 1e-6, Math.abs(high) * 1e-3);
    this.range = [low - 1.5 * reach, high + 1.5 * reach].map((v) => Math.max(-1e308, Math.min(1e308, v)));
    const [a, z] = this.range, at = (t) => a * (1 - t) + z * t;
    this.choice = el("select", { id: "which", "aria-label": "Response to move", onchange: (e) => this.choose(Number(e.target.value)) },
      this.group.rewards.map((r, i) => (r === null ? null : el("option", { value: i }, `response ${i + 1}`))));
    this.slider = el("input", { id: "slider", class: "slider", type: "range", min: 0, max: 1000, "aria-label": "Its reward, by slider", oninput: () => this.set(at(this.slider.value / 1000)) });
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
    this.slider.focus({ preventScroll: true });
  }

  draw(typed = false) {
    const centers = Estimators.centers(this.rewards, this.settings), now = this.all(this.rewards);
    this.now = now;
    this.centers = centers;
    const known = this.rewards.some((r) => r !== null);
    refill(this.plot, known ? dotPlot(this.rewards, this.group.rewards, this.touched ? this.moved : null, centers, this.group.dominating, pictureWidth(this.plot)) : el("p", { class: "muted" }, "No reward of this group is a finite number."));
    refill(this.legend, known ? [["mean", "mean"], ["median", "median"], ["rovr", "RoVR reference"]].map(([key, title]) => el("li", { class: key }, el("i", { "aria-hidden": "true" }), `${title} ${number(centers[key], 4)}`)) : []);
    if (this.moved !== null) {
      const value = this.rewards[this.moved], [a, z] = this.range;
      this.choice.value = this.moved;
      this.slider.value = Math.round((1000 * (value / 2 - a / 2)) / (z / 2 - a / 2));
      this.slider.setAttribute("aria-valuetext", number(value));
      if (!typed) this.exact.value = Number(value.toPrecision(12));
      this.resetButton.disabled = !this.touched;
    }
    this.drawTable(now);
    this.drawKept(now);
  }

  out() { return this.touched ? [this.moved] : this.group.dominating; }

  // Bars end where the other responses end: what dominates is cut off there and marked, so that the rest can be seen.
  drawTable(now) {
    const g = this.group, names = Estimators.NAMES, logged = g.logged, out = this.out(), parts = Object.entries(g.parts ?? {});
    const level = (name) => {
      const sizes = now[name].map(Math.abs), others = sizes.filter((_, i) => !out.includes(i));
      return Math.max(1e-12, others.some((v) => v > 0) ? Math.max(...others) : Math.max(...sizes));
    };
    const top = Object.fromEntries(names.map((name) => [name, level(name)]));
    const head = (text, kind) => el("th", { scope: "col", class: kind ?? null }, text);
    const right = g.right, lengths = g.lengths;
    const order = this.rewards.map((_, i) => i).sort((a, b) => (this.rewards[b] ?? -Infinity) - (this.rewards[a] ?? -Infinity) || a - b);
    const rows = order.map((i) => el("tr", { class: this.touched && i === this.moved ? "moved" : null },
      el("th", { scope: "row" }, i + 1, g.dominating.includes(i) ? [" ", el("span", { class: "out", role: "img", "aria-label": "dominates", title: "dominates the group" }, "\u25cf")] : null),
      el("td", {}, this.rewards[i] === null ? "none" : number(this.rewards[i], 4)),
      names.map((name) => this.cell(now[name][i], top[name], name, i)),
      logged ? el("td", { class: "wide muted" }, number(logged[i], 3)) : null,
      right ? el("td", { class: "wide" }, right[i] === null ? "\u2013" : right[i] ? "right" : "wrong") : null,
      lengths ? el("td", { class: "wide muted" }, number(lengths[i], 4)) : null,
      parts.map(([, values]) => el("td", { class: "wide muted" }, number(values[i], 3)))));
    refill(this.table, el("table", { class: "advantages", "aria-label": "Advantages by method, the highest reward first" },
      el("thead", {}, el("tr", {}, head("#"), head("reward"), names.map((name) => head(TITLES[name])), logged ? head("logged", "wide") : null,
        right ? head("verdict", "wide") : null, lengths ? head(this.doc.description.totals.unit, "wide") : null,
        parts.map(([name]) => el("th", { scope: "col", class: "wide part", title: name }, el("bdi", {}, name))))),
      el("tbody", {}, rows)));
  }

  cell(value, top, name, i) {
    const cut = Math.abs(value) > top * 1.000001, share = 50 * Math.min(1, Math.abs(value) / top), side = value < 0 ? "down" : "up";
    const bar = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: side, x: value < 0 ? 50 - share : 50, y: 0, width: share, height: 10 }),
      cut ? svg("rect", { class: "bar-cut", x: value < 0 ? 3 : 94, y: 0, width: 3, height: 10 }) : null);
    return el("td", { class: "cell", "data-method": name, "data-response": i, title: cut ? "the bar is cut: it goes on" : null }, bar, el("span", {}, number(value)));
  }

  // Against the group without the rewards in question: the dominating ones as saved, or the one that was moved.
  drawKept(now) {
    const out = this.out();
    const keep = this.rewards.map((r, i) => r !== null && !out.includes(i));
    const without = this.rewards.map((r, i) => (keep[i] ? r : null));
    const one = out.length === 1, which = out.map((i) => i + 1).join(", ");
    byId("kept-note").textContent = out.length
      ? `"Kept" compares with the same group without response ${which}. "On ${one ? "it" : "them"}" is ${one ? "its" : "their"} share of the sum of |advantage|; an even share would be ${percent(out.length / Math.max(1, keep.filter(Boolean).length + out.length))}.`
      : "No reward dominates this group; move one to see what it would do.";
    const known = keep.filter(Boolean).length in this.settings.blocks;
    const meter = (share, name, say) => [el("td", { class: "meter" }, share === null ? el("span", { class: "muted" }, "\u2013") : el("progress", { max: 1, value: Math.min(1, share), "aria-label": `${TITLES[name]}, ${say}` })), el("td", {}, share === null ? "\u2013" : percent(share))];
    const rows = Estimators.NAMES.map((name) => {
      const alone = known ? Estimators.advantages(name, without, this.settings) : without.map(() => 0);
      const unit = Math.max(...now[name].map(Math.abs), ...alone.map(Math.abs)) || 1; // squares of 1e200 would overflow
      const own = now[name].map((v) => v / unit), before = Estimators.contrast(alone.map((v) => v / unit), keep);
      const finite = (share) => (Number.isFinite(share) ? share : null);
      const kept = before > 0 ? finite(Estimators.contrast(own, keep) / before) : null;
      const total = own.reduce((sum, v) => sum + Math.abs(v), 0);
      const taken = out.length && total > 0 ? finite(out.reduce((sum, i) => sum + Math.abs(own[i]), 0) / total) : null;
      return el("tr", { "data-kept": name, "data-taken": taken }, el("th", { scope: "row" }, TITLES[name]), meter(kept, name, "contrast kept"), meter(taken, name, "share of advantage on the dominating rewards"));
    });
    refill(this.kept, el("table", { class: "kept" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "method"), el("th", { scope: "col", colspan: 2, class: "left" }, "contrast of the others kept"), el("th", { scope: "col", colspan: 2, class: "left" }, `|advantage| on ${one ? "it" : "them"}`))), el("tbody", {}, rows)));
  }

  texts() {
    const g = this.group;
    if (g.completions === undefined) return el("p", { class: "muted small" }, "The texts of this group are not in the page: only those of the worst groups are.");
    const fold = (title, text) => el("details", { open: holds(text, this.words) }, el("summary", {}, title, holds(text, this.words) ? el("span", { class: "chip warn" }, "found") : null),
      el("div", { class: "untrusted", dir: "auto", tabindex: 0, role: "group", "aria-label": title }, text === null ? "(none saved)" : highlighted(text, this.words)));
    const order = g.rewards.map((_, i) => i).sort((a, b) => (g.rewards[b] ?? -Infinity) - (g.rewards[a] ?? -Infinity) || a - b);
    const more = (i) => [g.lengths?.[i] != null ? `, ${number(g.lengths[i], 5)} ${this.doc.description.totals.unit}` : "", g.right?.[i] != null ? (g.right[i] ? ", right" : ", wrong") : ""].join("");
    return el("section", { "aria-label": "Prompt and responses" }, el("h3", {}, "Prompt and responses, the highest reward first"), fold("Prompt", g.prompt),
      order.map((i) => fold(`Response ${i + 1}: reward ${number(g.rewards[i], 4)}${more(i)}`, g.completions[i])));
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
        box.addEventListener("toggle", () => { if (box.open && !box.querySelector("svg")) box.append(tokenView(row, this.doc.ratio_settings, pictureWidth(box))); });
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
