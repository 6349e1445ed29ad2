// The list of groups: sorted, filtered, one page of rows at a time.
const COLUMNS = [
  { key: "name", title: "Step", full: "Step and group", text: (g) => groupName(g), value: (g) => g.step * 1e7 + g.id },
  { key: "lost", title: "Lost", full: "Contrast lost under GRPO", text: (g) => percent(g.lost), value: (g) => g.lost ?? -1 },
  { key: "lost_credit", title: "Credit", full: "Contrast lost under bounded credit", text: (g) => percent(g.lost_credit), value: (g) => g.lost_credit ?? -1, wide: true },
  { key: "shift", title: "Shift", full: "RoVR reference minus mean", text: (g) => number(g.shift), value: (g) => Math.abs(g.shift ?? 0), wide: true },
  { key: "flips", title: "Flips", full: "Sign changes between GRPO and credit", text: (g) => whole(g.flips), value: (g) => g.flips },
  { key: "marks", title: "Marks", full: "Dominating and missing rewards", text: (g) => marks(g), value: (g) => g.dominating.length * 1000 + g.size - g.finite, left: true },
];
const ONLY = {
  all: ["all groups", () => true],
  dominated: ["dominating rewards", (g) => g.dominating.length > 0],
  flips: ["sign changes", (g) => g.flips > 0],
  tied: ["tied", (g) => g.tied],
  missing: ["missing rewards", (g) => g.finite < g.size],
  single: ["fewer than two rewards", (g) => g.single],
  planted: ["planted by the run", (g) => (g.planted ?? []).length > 0],
  tokens: ["with token log-ratios", (g) => (g.tokens ?? []).length > 0],
};
const PAGE = 40;
const groupName = (g) => (g.label ? `step ${g.step}, ${g.label}` : `step ${g.step}, group ${g.id}`);
const shortName = (g) => {
  const label = g.label || `group ${g.id}`;
  return [el("b", {}, String(g.step)), " ", el("span", { class: "muted ellipsis" }, label.length > 16 ? `${label.slice(0, 12)}\u2026` : label)];
};
function marks(g) {
  const chips = [];
  if (g.dominating.length) chips.push(el("span", { class: "chip bad", title: "rewards that dominate" }, `${g.dominating.length} out`));
  if (g.tied) chips.push(el("span", { class: "chip" }, "tied"));
  if (g.single) chips.push(el("span", { class: "chip warn" }, "single"));
  if (g.finite < g.size) chips.push(el("span", { class: "chip warn" }, `${g.size - g.finite} missing`));
  return chips;
}

class GroupList {
  constructor(groups, open) {
    this.groups = groups;
    this.open = open;
    this.state = { sort: "lost", down: true, only: "all", search: "", step: null, page: 0 };
    this.current = null;
    const options = Object.entries(ONLY).filter(([, [, test]]) => groups.some(test));
    refill(byId("only"), options.map(([key, [title]]) => el("option", { value: key }, title)));
    byId("only").addEventListener("change", (e) => this.set({ only: e.target.value }));
    byId("search").addEventListener("input", (e) => this.set({ search: e.target.value }));
    byId("clear-step").addEventListener("click", () => this.set({ step: null }));
    byId("previous").addEventListener("click", () => this.turn(-1));
    byId("next").addEventListener("click", () => this.turn(1));
    this.update();
  }

  set(change) {
    Object.assign(this.state, { page: 0 }, change);
    this.update();
    this.onstep?.(this.state.step);
  }

  turn(by) {
    this.state.page = Math.max(0, Math.min(this.pages - 1, this.state.page + by));
    this.draw();
  }

  move(by) {
    const at = this.rows.findIndex((g) => g === this.current);
    const next = this.rows[Math.max(0, Math.min(this.rows.length - 1, at < 0 ? 0 : at + by))];
    if (!next) return;
    this.state.page = Math.floor(this.rows.indexOf(next) / PAGE);
    this.select(next);
  }

  select(group) {
    this.current = group;
    this.draw();
    this.open(group);
  }

  update() {
    const { sort, down, only, search, step } = this.state;
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    const test = ONLY[only][1];
    this.rows = this.groups.filter((g) => test(g) && (step === null || g.step === step) && words.every((w) => this.haystack(g).includes(w)));
    const value = COLUMNS.find((c) => c.key === sort).value;
    const keyed = this.rows.map((g, i) => [value(g), i, g]);
    keyed.sort((a, b) => (down ? b[0] - a[0] : a[0] - b[0]) || a[1] - b[1]);
    this.rows = keyed.map((k) => k[2]);
    this.draw();
  }

  haystack(g) {
    if (g.words === undefined) {
      const words = [groupName(g), g.prompt ?? "", ...(g.completions ?? []).map((c) => c ?? "")].join("\n").toLowerCase();
      Object.defineProperty(g, "words", { value: words, enumerable: false });
    }
    return g.words;
  }

  get pages() { return Math.max(1, Math.ceil(this.rows.length / PAGE)); }

  draw() {
    const { sort, down, step, page } = this.state;
    const head = COLUMNS.map((c) => el("th", { scope: "col", class: [c.wide ? "wide" : "", c.left ? "left" : ""].join(" "), "aria-sort": c.key === sort ? (down ? "descending" : "ascending") : "none" },
      el("button", { type: "button", title: c.full, "aria-label": `${c.title}: ${c.full}`, "data-sort": c.key, onclick: () => this.set({ sort: c.key, down: c.key === sort ? !down : c.key !== "name" }) }, c.title)));
    refill(document.querySelector("#list thead tr"), head);
    const rows = this.rows.slice(page * PAGE, page * PAGE + PAGE).map((g) => this.row(g));
    refill(document.querySelector("#list tbody"), rows.length ? rows : el("tr", {}, el("td", { colspan: COLUMNS.length }, "No group fits.")));
    byId("count").textContent = this.rows.length === this.groups.length ? `${whole(this.groups.length)} shown` : `${whole(this.rows.length)} of ${whole(this.groups.length)}`;
    byId("page").textContent = `page ${page + 1} of ${this.pages}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page >= this.pages - 1;
    byId("clear-step").hidden = step === null;
    byId("clear-step").textContent = step === null ? "" : `step ${step} only \u00d7`;
  }

  row(g) {
    return el("tr", { "data-id": g.id, "aria-current": g === this.current ? "true" : null, onclick: () => this.select(g) },
      COLUMNS.map((c, i) => i === 0
        ? el("th", { scope: "row" }, el("button", { type: "button", "aria-label": groupName(g), onclick: (e) => { e.stopPropagation(); this.select(g); } }, shortName(g)))
        : el("td", { class: [c.wide ? "wide" : "", c.left ? "left" : ""].join(" ") }, c.text(g))));
  }
}
