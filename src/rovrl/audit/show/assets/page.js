// Puts the document together.
(() => {
  const doc = JSON.parse(byId("data").textContent), s = doc.summary;
  const root = document.documentElement;

  byId("source").textContent = `${doc.source.path} \u00b7 ${doc.source.title} \u00b7 ${whole(doc.source.files)} ${doc.source.files === 1 ? "file" : "files"} \u00b7 rovrl ${doc.rovrl}`;
  byId("verdict").classList.toggle("bad", doc.status !== 0);
  byId("verdict-title").textContent = doc.status === 0 ? "Healthy: nothing is above its threshold" : `${doc.findings.length} ${doc.findings.length === 1 ? "finding" : "findings"} above threshold`;
  refill(byId("findings"), doc.findings.map((f) => el("li", {}, el("p", {}, el("code", {}, f.code), " ", f.sentence[0].toUpperCase() + f.sentence.slice(1), "."), el("p", { class: "muted" }, f.advice[0].toUpperCase() + f.advice.slice(1), "."))));

  const sizes = Object.entries(s.group_sizes).sort((a, b) => b[1] - a[1]);
  const cards = [
    ["Groups", whole(s.groups), sizes.length === 1 ? `of ${sizes[0][0]} responses` : `most of ${sizes[0][0]} responses`],
    ["Responses", whole(s.responses), `${whole(s.steps)} ${s.steps === 1 ? "step" : "steps"}, ${s.first_step} to ${s.last_step}`],
    ["Contrast lost", percent(s.contrast_lost), `under GRPO; credit ${percent(s.contrast_lost_credit)}`],
    ["Dominated groups", whole(s.dominated_groups), `${whole(s.dominating_rewards)} rewards; ${whole(s.halved_groups)} groups lost half`],
    ["Sign changes", percent(s.sign_change_share), `${whole(s.sign_changes)} responses, GRPO against credit`],
    ["Tied groups", percent(s.tied_groups / s.groups), `${whole(s.tied_groups)} carry no signal`],
    ["Missing rewards", whole(s.nonfinite_rewards), `in ${whole(s.nonfinite_groups)} groups; ${whole(s.single_groups)} single`],
  ];
  if (s.ratios) cards.push(["Clipped", percent(s.ratios.clipped_upper + s.ratios.clipped_lower), `SoftRoVR ${percent(s.ratios.soft_clipped_upper + s.ratios.soft_clipped_lower)}; ${percent(s.ratios.moved)} change branch`]);
  if (s.trained_with) cards.push(["Trained with", { grpo: "GRPO", dr_grpo: "Dr. GRPO", rloo: "RLOO", credit: "credit", median_mad: "median-MAD", other: "another" }[s.trained_with] ?? s.trained_with, doc.source.names_method ? "as the records say" : "what the logged advantages agree with"]);
  refill(byId("cards"), cards.map(([title, value, more]) => el("div", {}, el("dt", {}, title), el("dd", {}, value, el("small", {}, more)))));

  const view = new GroupView(byId("group"), doc);
  const narrow = matchMedia("(max-width: 900px)");
  const list = new GroupList(doc.groups, (group) => {
    view.show(group);
    history.replaceState(null, "", `#group-${group.id}`);
    if (narrow.matches) byId("group").scrollIntoView();
  });
  if (doc.groups.length < doc.groups_total) byId("groups-title").textContent = `The ${whole(doc.groups.length)} worst of ${whole(doc.groups_total)} groups`;

  const metrics = Object.keys(METRICS).filter((key) => (doc.steps[key] ?? []).some((v) => v !== null));
  refill(byId("metric"), metrics.map((key) => el("option", { value: key }, METRICS[key][0])));
  const drawSteps = () => refill(byId("steps"), stepsChart(doc.steps, byId("metric").value, list.state.step, (step) => list.set({ step: list.state.step === step ? null : step }), pictureWidth(byId("steps"), 1000)));
  byId("metric").addEventListener("change", drawSteps);
  list.onstep = drawSteps;
  if (metrics.length) drawSteps();

  const c = doc.certificate, words = { holds: "good", unknown: "warn", violated: "bad" };
  refill(byId("certificate"), el("h2", { id: "certificate-title" }, "What this group size can certify"),
    c === null ? el("p", { class: "muted" }, "No group has two finite rewards.") : [
      el("p", {}, c.sentence),
      el("p", { class: "muted" }, `Largest advantage of one response: ${number(c.grpo_bound)} under GRPO` + (c.credit_bound === null ? "." : `, ${number(c.credit_bound)} under bounded credit.`) + " Both are bounded; what one reward can destroy under GRPO is the contrast of the others."),
      el("ul", { class: "premises" }, c.premises.map((p) => el("li", {}, el("span", { class: `chip ${words[p.status]}` }, p.status), " ", p.statement, el("br", {}), el("span", { class: "muted small" }, p.why)))),
    ]);
  refill(byId("notes"), el("h2", { id: "notes-title" }, "Notes on the data"),
    doc.notes.length ? el("ul", {}, doc.notes.map((n) => el("li", {}, el("code", {}, n.code), " ", n.sentence, "."))) : el("p", { class: "muted" }, "Nothing to note."));

  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = () => { root.dataset.theme = dark() ? "light" : "dark"; };
  byId("theme").addEventListener("click", theme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());

  const keys = {
    j: () => list.move(1), k: () => list.move(-1), n: () => list.turn(1), p: () => list.turn(-1), r: () => view.group && view.reset(),
    d: theme, "?": () => byId("help").showModal(), "/": () => byId("search").focus(),
    Escape: () => { byId("groups").focus(); if (narrow.matches) byId("groups").scrollIntoView(); },
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const typing = event.target.matches("input, select, textarea");
    if (typing && event.key !== "Escape") return;
    if (event.key in keys) { event.preventDefault(); keys[event.key](); }
  });

  let waiting = false;
  window.addEventListener("resize", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (metrics.length) drawSteps(); if (view.group) view.draw(true); });
  });

  const wanted = doc.groups.find((g) => location.hash === `#group-${g.id}`);
  if (wanted) list.select(wanted);
  else if (list.rows.length && !narrow.matches) { list.current = list.rows[0]; list.draw(); view.show(list.rows[0]); }
  window.rovrlAudit = { doc, list, view, Estimators };
})();
