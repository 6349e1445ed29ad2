// Puts the document together; the address holds what is shown, so that it can be shared and survives reloading.
(() => {
  const doc = JSON.parse(byId("data").textContent), root = document.documentElement, narrow = matchMedia("(max-width: 900px)");
  const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

  refill(byId("source"), el("bdi", {}, doc.source.path), ` \u00b7 ${doc.source.title} \u00b7 ${whole(doc.source.files)} ${doc.source.files === 1 ? "file" : "files"} \u00b7 rovrl ${doc.rovrl}`);
  byId("verdict").className = { findings: "bad", "to decide": "ask" }[doc.state] ?? "";
  const asked = `Nothing crosses a threshold, and ${doc.to_decide.length} ${doc.to_decide.length === 1 ? "thing" : "things"} to decide`;
  byId("verdict-title").textContent = { healthy: "Healthy: nothing is above its threshold", "to decide": asked }[doc.state] ?? `${doc.findings.length} ${doc.findings.length === 1 ? "finding" : "findings"} above threshold`;
  refill(byId("cards"), cardsOf(doc));
  refill(byId("certificate"), certificateParts(doc.certificate, doc.tolerated));
  refill(byId("notes"), el("h2", { id: "notes-title" }, "Notes on the data"),
    doc.notes.length ? el("ul", {}, doc.notes.map((n) => el("li", {}, el("code", {}, n.code), " ", el("bdi", {}, sentence(n.sentence))))) : el("p", { class: "muted" }, "Nothing to note."));

  const view = new GroupView(byId("group"), doc);
  let ready = false;
  const list = new GroupList(doc.groups, (group) => {
    view.show(group, list.query.words);
    if (ready && narrow.matches) byId("group").scrollIntoView();
  });
  const chart = new StepsChart(doc, (step) => list.set({ step }));
  if (doc.groups.length < doc.groups_total) byId("groups-title").textContent = `The ${whole(doc.groups.length)} worst of ${whole(doc.groups_total)} groups`;
  byId("steps-card").hidden = chart.empty;
  const functions = functionsTable(doc, (metric) => { chart.set(metric); byId("steps-card").scrollIntoView({ block: "nearest" }); });
  byId("functions").hidden = functions === null;
  if (functions) refill(byId("functions"), functions);

  const decisions = doc.state === "to decide" ? doc.to_decide.map((n) => el("li", {}, el("p", {}, el("code", {}, n.code), " ", el("bdi", {}, sentence(n.sentence))))) : [];
  refill(byId("findings"), decisions, doc.findings.map((f, place) => {
    const only = filterOf(f.code), usable = only !== undefined && list.options.includes(only), metric = chart.metricOf(f.code);
    const act = () => { if (usable) list.set({ only, search: "", step: null }); chart.set(metric); byId("groups").scrollIntoView({ block: "start" }); };
    const code = usable || chart.has(metric) ? el("button", { type: "button", class: "code", title: "show these groups", "data-code": f.code, onclick: act }, f.code) : el("code", {}, f.code);
    return el("li", {}, el("p", {}, code, " ", sentence(f.sentence)), el("details", { open: !narrow.matches && place === 0 }, el("summary", {}, "What to do"), el("p", { class: "muted" }, sentence(f.advice))));
  }));

  let restoring = false;
  const save = () => {
    if (!ready || restoring) return;
    const { sort, down, only, search, step } = list.state, place = new URLSearchParams();
    if (list.rows.includes(list.current)) place.set("group", list.current.id); // else the filters alone say what is shown
    if (step !== null) place.set("step", step);
    if (search) place.set("search", search);
    if (only !== "all") place.set("only", only);
    if (sort !== "lost" || !down) place.set("sort", (down ? "-" : "") + sort);
    if (!chart.empty) place.set("metric", chart.metric);
    history.replaceState(null, "", `#${place}`);
  };
  const restore = () => {
    restoring = true; // what is half restored is not written to the address: a reload in between would come back to it
    const place = new URLSearchParams(location.hash.slice(1)), sort = place.get("sort"), step = place.get("step");
    const known = step !== null && doc.steps.step.includes(Number(step));
    list.set({ only: place.get("only") ?? "all", search: place.get("search") ?? "", step: known ? Number(step) : null, sort: sort?.replace(/^-/, "") ?? "lost", down: sort === null || sort.startsWith("-") });
    if (place.has("metric")) chart.set(place.get("metric"));
    const wanted = doc.groups.find((g) => place.get("group") === String(g.id) || location.hash === `#group-${g.id}`);
    if (list.rows.includes(wanted)) list.select(wanted);
    else if (list.rows.length && !narrow.matches) list.select(list.rows[0], false); // a page opens on its verdict
    restoring = false;
    save();
  };
  list.onchange = () => {
    view.mark(list.query.words);
    chart.chosen = list.state.step;
    chart.draw();
    save();
  };
  chart.onchange = save;
  window.addEventListener("hashchange", restore);

  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = () => { root.dataset.theme = dark() ? "light" : "dark"; };
  byId("theme").addEventListener("click", theme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());

  const keys = {
    j: () => list.move(1), k: () => list.move(-1), n: () => list.turn(1), p: () => list.turn(-1), r: () => view.group && view.reset(),
    d: theme, "?": () => byId("help").showModal(), "/": () => byId("search").focus(),
    Escape: () => { byId("groups").focus({ preventScroll: !narrow.matches }); if (narrow.matches) byId("groups").scrollIntoView(); },
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
    requestAnimationFrame(() => { waiting = false; chart.draw(); if (view.group) view.draw(true); });
  });

  restore();
  ready = true;
  chart.draw();
  window.rovrlAudit = { doc, list, view, chart, Estimators };
})();
