// Building blocks of the document. Text enters through textContent alone: nothing that was read can become markup.
const SVG = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}
const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);
const refill = (node, ...children) => { node.replaceChildren(); build(node, {}, children); return node; };

function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  const fixed = value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1e-12))));
  return String(Number(fixed));
}
const whole = (value) => value.toLocaleString("en-US");
function percent(share) {
  if (share === null || share === undefined) return "\u2013";
  const value = 100 * share;
  return value === 0 || value >= 9.95 ? `${value.toFixed(0)} %` : `${Number(value.toPrecision(2))} %`;
}
// The width of the place a picture goes to, in the units of its viewBox.
const pictureWidth = (node, otherwise = 640) => Math.max(280, Math.min(1400, Math.round(node.clientWidth || otherwise)));
