// The list of groups: sorted, filtered, one page of rows at a time. Redrawing leaves the keyboard where it was.
const COLUMNS = [
  { key: "name", title: "Step, group", full: "Step and group", value: (g) => g.step * 1e7 + g.id },
  { key: "lost", title: "Lost", full: "Contrast lost: by the run's own advantages where it logged them, else under GRPO", text: (g) => percent(g.lost_own ?? g.lost), value: (g) => g.lost_own ?? g.lost ?? -1 },
  { key: "lost_credit", title: "Credit", full: "Contrast lost under bounded credit", text: (g) => percent(g.lost_credit), value: (g) => g.lost_credit ?? -1, wide: true },
  { key: "shift", title: "Shift", full: "RoVR reference minus mean", text: (g) => number(g.shift), value: (g) => Math.abs(g.shift ?? 0), wide: true },
  { key: "flips", title: "Flips", full: "Sign changes between GRPO and credit", text: (g) => whole(g.flips), value: (g) => g.flips },
  { key: "marks", title: "Marks", full: "Dominating and missing rewards", text: (g) => marks(g), value: (g) => g.dominating.length * 1000 + g.size - g.finite, left: true },
];
const ONLY = {
  all: ["all groups", () => true],
  dominated: ["dominating rewards", (g) => g.dominating.length > 0],
  flips: ["sign changes", (g) => g.flips > 0, ["sign_changes"]],
  tied: ["tied", (g) => g.tied, ["tied_groups", "stuck_grader"]],
  missing: ["missing rewards", (g) => g.finite < g.size, ["nonfinite_rewards"]],
  single: ["fewer than two rewards", (g) => g.single, ["single_groups"]],
  copies: ["equal responses", (g) => (g.copies ?? 0) > 0],
  planted: ["planted by the run", (g) => (g.planted ?? []).length > 0],
  tokens: ["with token log-ratios", (g) => (g.tokens ?? []).length > 0, ["weight_disagreement"]],
};
// Findings whose groups no statistic of the group alone tells: the document names them.
for (const code of ["out_of_range", "faulty_rewards", "dominating_rewards", "contrast_lost", "repeated_groups", "branch_moved", "ratio_bursts"]) ONLY[code] = [code, (g) => g.codes.includes(code), [code]];
const filterOf = (code) => Object.keys(ONLY).find((key) => (ONLY[key][2] ?? []).includes(code));
const PAGE = 40;
const groupName = (g) => (g.label ? `step ${g.step}, ${g.label}` : `step ${g.step}, group ${g.id}`);
const short = (label) => (label.length > 28 ? `${label.slice(0, 14)}\u2026${label.slice(-8)}` : label);
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
    this.query = parseSearch("");
    this.current = null;
    this.options = Object.keys(ONLY).filter((key) => groups.some(ONLY[key][1]));
    refill(byId("only"), this.options.map((key) => el("option", { value: key }, ONLY[key][0])));
    byId("only").addEventListener("change", (e) => this.set({ only: e.target.value }));
    byId("search").addEventListener("input", (e) => this.set({ search: e.target.value }));
    byId("clear-step").addEventListener("click", () => { this.set({ step: null }); byId("search").focus(); });
    byId("previous").addEventListener("click", () => this.turn(-1));
    byId("next").addEventListener("click", () => this.turn(1));
    this.heads = Object.fromEntries(COLUMNS.map((c) => [c.key, el("th", { scope: "col", class: kind(c) },
      el("button", { type: "button", title: c.full, "aria-label": `${c.title}: ${c.full}`, "data-sort": c.key,
        onclick: () => this.set({ sort: c.key, down: c.key === this.state.sort ? !this.state.down : c.key !== "name" }) }, c.title))]));
    refill(document.querySelector("#list thead tr"), Object.values(this.heads));
    this.update();
  }

  set(change) {
    Object.assign(this.state, { page: 0 }, change);
    if (!this.options.includes(this.state.only)) this.state.only = "all";
    if (!COLUMNS.some((c) => c.key === this.state.sort)) this.state.sort = "lost";
    this.query = parseSearch(this.state.search);
    this.update();
    this.onchange?.();
  }

  turn(by) {
    this.state.page = Math.max(0, Math.min(this.pages - 1, this.state.page + by));
    this.draw();
  }

  move(by) {
    const at = this.rows.indexOf(this.current);
    const next = this.rows[Math.max(0, Math.min(this.rows.length - 1, at < 0 ? 0 : at + by))];
    if (next) this.select(next);
  }

  // Opens the group and turns to the page it is on; filters that hide it are taken off.
  select(group, scroll = true) {
    if (!this.rows.includes(group)) this.set({ only: "all", search: "", step: null });
    this.state.page = Math.floor(this.rows.indexOf(group) / PAGE);
    this.current = group;
    this.draw();
    if (scroll) document.querySelector("#list [aria-current]")?.scrollIntoView({ block: "nearest" });
    this.open(group);
    this.onchange?.();
  }

  update() {
    const { sort, down, only, step } = this.state, test = ONLY[only][1];
    const value = COLUMNS.find((c) => c.key === sort).value;
    const keyed = this.groups.filter((g) => test(g) && (step === null || g.step === step) && fits(g, this.query)).map((g, i) => [value(g), i, g]);
    keyed.sort((a, b) => (down ? b[0] - a[0] : a[0] - b[0]) || a[1] - b[1]);
    this.rows = keyed.map((k) => k[2]);
    this.draw();
  }

  get pages() { return Math.max(1, Math.ceil(this.rows.length / PAGE)); }

  draw() {
    const { sort, down, only, search, step, page } = this.state, body = document.querySelector("#list tbody");
    const kept = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.id : null;
    for (const [key, th] of Object.entries(this.heads)) th.setAttribute("aria-sort", key === sort ? (down ? "descending" : "ascending") : "none");
    const rows = this.rows.slice(page * PAGE, page * PAGE + PAGE).map((g) => this.row(g));
    refill(body, rows.length ? rows : el("tr", {}, el("td", { colspan: COLUMNS.length, class: "left muted" }, "No group fits.")));
    byId("only").value = only;
    if (byId("search").value !== search) byId("search").value = search;
    byId("count").textContent = this.rows.length === this.groups.length ? `${whole(this.groups.length)} shown` : `${whole(this.rows.length)} of ${whole(this.groups.length)}`;
    byId("page").textContent = `page ${page + 1} of ${this.pages}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page >= this.pages - 1;
    byId("clear-step").hidden = step === null;
    byId("clear-step").textContent = step === null ? "" : `step ${step} only \u00d7`;
    if (kept !== null) (body.querySelector(`tr[data-id="${kept}"] button`) ?? body.querySelector("tr[aria-current] button") ?? byId("groups")).focus({ preventScroll: true });
  }

  row(g) {
    const line = snippet(g, this.query.words);
    const name = el("button", { type: "button", "aria-label": groupName(g), title: groupName(g).slice(0, 300), onclick: (e) => { e.stopPropagation(); this.select(g); } },
      el("span", { class: "name" }, el("b", {}, String(g.step)), " ", el("bdi", { class: "muted" }, short(g.label || `group ${g.id}`))),
      line.length ? el("bdi", { class: "snippet" }, line) : null);
    return el("tr", { "data-id": g.id, "aria-current": g === this.current ? "true" : null, onclick: () => this.select(g) },
      el("th", { scope: "row" }, name), COLUMNS.slice(1).map((c) => el("td", { class: kind(c) }, c.text(g))));
  }
}
const kind = (c) => [c.wide ? "wide" : "", c.left ? "left" : ""].join(" ").trim() || null;
