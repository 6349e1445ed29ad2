// The run in numbers, its reward functions, the certificate and the notes.
const TRAINED = { grpo: "GRPO", dr_grpo: "Dr. GRPO", rloo: "RLOO", credit: "credit", median_mad: "median-MAD", other: "another" };

function cardsOf(doc) {
  const s = doc.summary, t = doc.description.totals, sizes = Object.entries(s.group_sizes).sort((a, b) => b[1] - a[1]);
  const cards = [
    ["Groups", whole(s.groups), sizes.length === 1 ? `of ${sizes[0][0]} responses` : `most of ${sizes[0][0]} responses`],
    ["Responses", whole(s.responses), `${whole(s.steps)} ${s.steps === 1 ? "step" : "steps"}, ${s.first_step} to ${s.last_step}`],
    ["Mean reward", s.nonfinite_rewards < s.responses ? number(s.mean_reward) : "\u2013", "of the finite rewards"],
    s.contrast_lost_own === null ? ["Contrast lost", percent(s.contrast_lost), `under GRPO; credit ${percent(s.contrast_lost_credit)}`]
      : ["Contrast lost", percent(s.contrast_lost_own), `by the run; GRPO ${percent(s.contrast_lost)}, credit ${percent(s.contrast_lost_credit)}`],
    ["Dominated groups", whole(s.dominated_groups), `${whole(s.dominant_rewards)} rewards; ${whole(s.suspect_groups)} groups hold suspects`],
    ["Sign changes", percent(s.sign_change_share), `${whole(s.sign_changes)} responses, GRPO against credit`],
    ["Tied groups", percent(s.tied_groups / s.groups), `${whole(s.tied_groups)} carry no signal`],
    ["Missing rewards", whole(s.nonfinite_rewards), `in ${whole(s.nonfinite_groups)} groups; ${whole(s.single_groups)} single`],
  ];
  if (t.accuracy !== null) cards.push(["Accuracy", percent(t.accuracy), `by the column ${t.verdict}`]);
  if (t.length !== null) cards.push(["Length", number(t.length), `${t.unit}, median; 90 % below ${number(t.length_high)}`]);
  if (t.length_reward !== null) cards.push(["Length and reward", number(t.length_reward, 2), "rank correlation within groups"]);
  if (t.truncated !== null) cards.push(["Truncated", percent(t.truncated), t.truncated_by]);
  if (t.copies !== null) cards.push(["Equal texts", percent(t.copies), "of responses, within their group"]);
  if (t.distinct !== null) cards.push(["Distinct pairs", percent(t.distinct), "of neighbouring words, within groups"]);
  if (s.ratios) cards.push(["Clipped", percent(s.ratios.clipped_upper + s.ratios.clipped_lower), `SoftRoVR ${percent(s.ratios.soft_clipped_upper + s.ratios.soft_clipped_lower)}; ${percent(s.ratios.moved)} change branch`]);
  if (s.trained_with) cards.push(["Trained with", TRAINED[s.trained_with] ?? s.trained_with, doc.source.names_method ? "as the records say" : "what the logged advantages agree with"]);
  return cards.map(([title, value, more]) => el("div", {}, el("dt", {}, title), el("dd", {}, el("bdi", {}, value), el("small", {}, more))));
}

function trend(values) {
  const known = values.map((v, i) => [i, v]).filter(([, v]) => v !== null), y = known.map(([, v]) => v);
  if (known.length < 2) return null;
  const low = Math.min(...y), high = Math.max(...y), size = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const points = known.map(([i, v]) => `${((i / (values.length - 1)) * 96 + 2).toFixed(1)},${(high === low ? 10 : 18 - ((v / size - low / size) / (high / size - low / size)) * 16).toFixed(1)}`);
  return svg("svg", { class: "trend", viewBox: "0 0 100 20", role: "img", "aria-label": `from ${number(y[0])} to ${number(y.at(-1))}` }, svg("polyline", { points: points.join(" ") }));
}

function functionsTable(doc, show) {
  const functions = doc.description.functions;
  if (!functions.length) return null;
  const weighted = functions.some((f) => f.weight !== null);
  const columns = [
    weighted ? ["weight", (f) => number(f.weight), "in the reward that is audited"] : null,
    ["mean", (f) => number(f.mean), "over all responses"],
    ["over the steps", (f) => trend(f.by_step), "mean of each step"],
    weighted ? ["share of variance", (f) => percent(f.variance), "of the reward within groups; all functions add up to 100 %"] : null,
    ["tied groups", (f) => percent(f.tied), "groups in which it gives every response the same"],
    [weighted ? "agrees with the others" : "agrees with the reward", (f) => number(f.agreement, 2), "rank correlation within groups, from -1 to 1"],
    ["against", (f) => percent(f.opposed), "share of groups in which that correlation is negative"],
    ["dominated groups", (f) => whole(f.dominated), "groups in which a few of its own values dominate"],
    ["missing", (f) => percent(f.missing), "responses it gave no finite value"],
  ].filter(Boolean);
  return [
    el("h2", { id: "functions-title" }, "Reward functions"),
    el("div", { class: "scroll", tabindex: 0, role: "group", "aria-labelledby": "functions-title" }, el("table", {},
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "function"), columns.map(([title, , full]) => el("th", { scope: "col", title: full }, title)))),
      el("tbody", {}, functions.map((f) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", title: "show it over the steps", onclick: () => show(`function:${f.name}`) }, el("bdi", {}, f.name))), columns.map(([, value]) => el("td", {}, value(f)))))))),
    el("p", { class: "muted small" }, weighted ? "The reward is the weighted sum of these. A function with a small share of the variance hardly moves the policy, whatever its mean does." : "The reward is not a weighted sum of these columns, so no shares of its variance are given."),
  ];
}

function certificateParts(c, tolerated) {
  const words = { holds: "good", unknown: "warn", violated: "bad" };
  return [el("h2", { id: "certificate-title" }, "What this group size can certify"),
    c === null ? el("p", { class: "muted" }, "No group has two finite rewards.") : [
      el("p", {}, c.sentence),
      tolerated === null ? null : el("p", { id: "tolerated" }, tolerated),
      el("p", { class: "muted" }, `Largest advantage of one response: ${number(c.grpo_bound)} under GRPO` + (c.credit_bound === null ? "." : `, ${number(c.credit_bound)} under bounded credit.`) + " Both are bounded; what one reward can destroy under GRPO is the contrast of the others."),
      el("details", { class: "premises-box" }, el("summary", {}, `What that rests on: ${c.premises.length} assumptions`),
        el("ul", { class: "premises" }, c.premises.map((p) => el("li", {}, el("span", { class: `chip ${words[p.status]}` }, p.status), " ", p.statement, el("br", {}), el("span", { class: "muted small" }, p.why))))),
    ]];
}
