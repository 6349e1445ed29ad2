// What is typed into the search field: `step:12`, `step:10-20`, `group:7`, "a phrase", words. All must fit.
function parseSearch(text) {
  const query = { steps: [], labels: [], words: [] };
  for (const [, quoted, word] of text.matchAll(/"([^"]+)"|(\S+)/g)) {
    const step = word?.match(/^step:(\d+)(?:-(\d+))?$/i), label = word?.match(/^(?:group|id):(.+)$/i);
    if (step) query.steps.push([Number(step[1]), Number(step[2] ?? step[1])]);
    else if (label) query.labels.push(label[1].toLowerCase());
    else query.words.push((quoted ?? word).toLowerCase());
  }
  return query;
}

const lowered = new WeakMap();
function haystack(g) {
  if (!lowered.has(g)) lowered.set(g, [groupName(g), g.prompt ?? "", ...(g.completions ?? []).map((c) => c ?? "")].join("\n").toLowerCase());
  return lowered.get(g);
}

function fits(g, query) {
  const label = `${g.label || ""} ${g.id}`.toLowerCase().split(" ");
  return query.steps.every(([a, z]) => g.step >= a && g.step <= z)
    && query.labels.every((name) => label.some((part) => part === name || part.startsWith(name)))
    && query.words.every((w) => haystack(g).includes(w));
}

// The text as nodes, with every hit in a <mark>. Case is folded letter by letter, so that places stay places.
function highlighted(text, words) {
  if (!words.length) return [text];
  const folded = [...text].map((c) => { const l = c.toLowerCase(); return l.length === c.length ? l : c; }).join("");
  const hits = [];
  for (const word of words) for (let at = folded.indexOf(word); at >= 0 && hits.length < 2000; at = folded.indexOf(word, at + word.length)) hits.push([at, at + word.length]);
  hits.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const nodes = [];
  let done = 0;
  for (const [a, z] of hits) {
    if (a < done) continue;
    nodes.push(text.slice(done, a), el("mark", {}, text.slice(a, z)));
    done = z;
  }
  nodes.push(text.slice(done));
  return nodes;
}

const holds = (text, words) => words.length > 0 && words.some((w) => (text ?? "").toLowerCase().includes(w));

// One line of a group's text for the list: where the first hit is, else how the prompt begins.
function snippet(g, words) {
  const flat = (text) => text.replace(/\s+/g, " ").trim();
  for (const text of [g.prompt, ...(g.completions ?? [])]) {
    if (!holds(text, words)) continue;
    const line = flat(text), at = Math.max(0, ...words.map((w) => line.toLowerCase().indexOf(w)));
    return highlighted(`${at > 24 ? "\u2026" : ""}${line.slice(Math.max(0, at - 24), at + 90)}`, words);
  }
  return g.prompt ? [flat(g.prompt.slice(0, 400)).slice(0, 120)] : [];
}
