// A response's token log-ratios: the strip, zoomed to three clip bands, and the tokens themselves under it.
const BANDS = 3;

function tokenView(row, settings, width) {
  const box = el("div", {}), unit = row.unit;
  const soft = Estimators.softRovr(row.values.map((v) => v / unit), settings);
  const band = [Math.log1p(-row.clip[0]), Math.log1p(row.clip[1])];
  const near = BANDS * Math.max(band[1], -band[0]), far = Math.max(near, ...row.values.map(Math.abs)) * 1.05;
  let top = near;
  const more = el("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => {
    top = top === near ? far : near;
    more.setAttribute("aria-pressed", String(top === far));
    more.textContent = top === far ? "Zoom to the clip band" : "Show the whole range";
    picture.replaceWith(picture = tokenChart(row, soft, band, top, width));
  } }, "Show the whole range");
  let picture = tokenChart(row, soft, band, top, width);
  build(box, {}, [picture, far > near * 1.06 ? more : null, tokenTexts(row, near)]);
  return box;
}

function tokenChart(row, soft, band, top, width) {
  const values = row.values, n = values.length, height = 170, left = 58, right = 10;
  const x = (i) => left + (i / n) * (width - left - right);
  const y = (v) => 8 + (1 - (Math.max(-top, Math.min(top, v)) + top) / (2 * top)) * (height - 30);
  const cut = values.filter((v) => Math.abs(v) > top).length;
  const say = `${n} token log-ratios; mean ${number(row.mean)}, SoftRoVR ${number(row.soft)}, clip band ${number(band[0])} to ${number(band[1])}`;
  const chart = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": say });
  chart.append(svg("rect", { class: "clip-band", x: left, width: width - left - right, y: y(band[1]), height: Math.max(1.5, y(band[0]) - y(band[1])) }));
  chart.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
  const wide = Math.max(0.7, ((width - left - right) / n) * 0.8);
  values.forEach((v, i) => chart.append(svg("rect", { class: Math.abs(v) > top ? "token cut" : "token", x: x(i), width: wide, y: Math.min(y(v), y(0)), height: Math.max(0.8, Math.abs(y(v) - y(0))) },
    n <= 400 ? svg("title", {}, `token ${i + 1}${row.texts ? ` ${visible(row.texts[i])}` : ""}: ${number(v)}`) : null)));
  soft.edges.forEach(([a, z], b) => chart.append(svg("line", { class: "block-line", x1: x(a), x2: x(z) - 1, y1: y(soft.centers[b] * row.unit), y2: y(soft.centers[b] * row.unit) })));
  for (const [kind, v] of [["mean", row.mean], ["rovr", row.soft]]) chart.append(svg("line", { class: `mark ${kind}${Math.abs(v) > top ? " beyond" : ""}`, x1: left, x2: width - right, y1: y(v), y2: y(v) }));
  for (const v of [-top, 0, top]) chart.append(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v, 2)));
  chart.append(svg("text", { x: left, y: height - 4 }, "token 1"));
  chart.append(svg("text", { x: width - right, y: height - 4, "text-anchor": "end" }, `token ${n}`));
  const beyond = [cut ? `${whole(cut)} ${cut === 1 ? "token" : "tokens"}` : null, Math.abs(row.mean) > top ? "the mean" : null, Math.abs(row.soft) > top ? "SoftRoVR" : null].filter(Boolean);
  const names = beyond.length > 1 ? `${beyond.slice(0, -1).join(", ")} and ${beyond.at(-1)}` : beyond[0];
  return el("div", {}, chart, names ? el("p", { class: "muted small beyond-note" }, `Beyond the picture: ${names}.`) : null);
}

const visible = (text) => text.replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/ /g, "\u00b7") || "\u2205";

// Each token on a tint of its log-ratio: three steps up to three clip bands, and one beyond.
function tokenTexts(row, near) {
  if (!row.texts) return el("p", { class: "muted small" }, "The dump holds no token texts, and no tokenizer beside it cuts this response into as many tokens.");
  const level = (v) => Math.min(4, Math.ceil((3 * Math.abs(v)) / near));
  return el("div", { class: "untrusted token-texts", dir: "auto", tabindex: 0, role: "group", "aria-label": "Tokens, tinted by their log-ratio" },
    row.texts.map((text, i) => el("bdi", { class: `t${row.values[i] < 0 ? "d" : "u"}${level(row.values[i])}`, title: `token ${i + 1}: ${number(row.values[i])}` }, visible(text))));
}
