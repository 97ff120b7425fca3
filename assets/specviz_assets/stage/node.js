// One node of the tree: its box, its bars, its line; and how it looks at a moment.

import { CLOSING, MONO, PHASE, ROOT, put, svg, textWidth } from "./dom.js";

// Boxes while the whole tree can be read in them, and smaller ones.
export const ROOMY = { row: 92, high: 66, gap: 30, size: 15.5, smallest: 11, least: 96, letters: 16 };
export const BADGE = 11; // pixels of the letters that say where a node came from
export const DENSE = { row: 37, high: 30, gap: 34, size: 13, smallest: 12, least: 58, letters: 14 };

// A node where it stands, nothing of it seen yet; `edge` is its line from its parent.
export function makeNode(tree, node) {
  const { high, size } = tree.shape;
  const { x, y, w, line } = tree.at.get(node.id);
  const dense = tree.shape === DENSE;
  const group = svg("g", { class: "node", role: "treeitem", tabindex: -1, "data-node": node.id,
    style: `transform: translate(${x}px, ${y}px)` });
  const glyph = svg("text", { class: "glyph", x: 10 });
  const word = svg("text", { class: "word", x: dense ? 25 : 29, "font-size": size, "font-family": MONO });
  word.textContent = tree.words.get(node.id);
  const tall = node.id === ROOT && !dense ? 40 : high; // the root has no bars
  const baseline = dense ? 4 : node.id === ROOT ? 5 : -high / 2 + 21;
  glyph.setAttribute("y", baseline);
  word.setAttribute("y", baseline);
  group.append(svg("rect", { class: "card", y: -tall / 2, width: w, height: tall, rx: dense ? 7 : 11 }), glyph, word);
  if (node.id !== ROOT) group.append(...bars(node.id === CLOSING ? ["p"] : ["q", "p"], w, high, dense));
  const note = svg("text", { class: "note", x: w - 9, y: baseline, "text-anchor": "end" });
  if (!dense) group.append(note);
  if (tree.badge(node.id)) group.append(svg("text", { class: "badge-text", text: tree.value ? "" : tree.badge(node.id), "font-size": BADGE,
    ...(dense ? { x: w - 8, y: baseline, "text-anchor": "end" } : { x: 4, y: -tall / 2 - (tree.value ? 9 : 5) }) }));
  group.append(svg("rect", { class: "ring", x: -4, y: -tall / 2 - 4, width: w + 8, height: tall + 8, rx: dense ? 10 : 14 }));
  group.onclick = () => tree.choose(node.id);
  const parent = node.id === ROOT ? null : tree.at.get(node.parent);
  if (parent) {
    group.edge = svg("path", { "data-edge": node.id, d: edgeLine(parent, { x, y, line }, (node.row + 0.65) * tree.shape.row) });
    tree.edges.append(group.edge);
  }
  return group;
}

// From a parent to its child; a chain goes on in another line through the gap that is `above` the child.
export function edgeLine(parent, { x, y, line }, above) {
  const x0 = parent.x + parent.w, bend = Math.max(18, (x - x0) * 0.55);
  return line > parent.line ? `M${x0} ${parent.y}h14V${y - above}H${x - 14}V${y}h14`
    : `M${x0} ${parent.y}C${x0 + bend} ${parent.y} ${x - bend} ${y} ${x} ${y}`;
}

// What the draft said above what the target says.
function bars(names, w, high, dense) {
  const left = dense ? 8 : 24, right = dense ? 8 : 46, tall = dense ? 2.5 : 6;
  const rows = dense ? [high / 2 - 8, high / 2 - 4.5] : [high / 2 - 31, high / 2 - 16];
  return names.flatMap((name, k) => {
    const y = rows[k];
    const shapes = [
      svg("rect", { class: `track ${name}`, x: left, y, width: w - left - right, height: tall, rx: tall / 2 }),
      svg("rect", { class: `fill ${name}`, x: left, y, width: w - left - right, height: tall, rx: tall / 2 }),
    ];
    if (!dense) {
      shapes.push(svg("text", { class: "letter", x: 11, y: y + 7, text: name }));
      shapes.push(svg("text", { class: `number ${name}`, x: w - 9, y: y + 7, "text-anchor": "end" }));
    }
    return shapes;
  });
}

// What is seen of it now. A state that did not change is the same object: such a node is left as it is.
export function dressNode(tree, node, group, state, moment, marks) {
  const ended = moment.phase >= PHASE.CLOSE, fresh = moment.fresh?.includes(node.id) ?? false;
  if (group.state === state && group.ended === ended && group.fresh === fresh) return;
  Object.assign(group, { state, ended, fresh });
  const look = marks[state.mark], { texts } = state;
  group.dataset.mark = state.mark;
  group.style.setProperty("--c", `var(--m-${state.mark})`);
  const won = Boolean(state.winning);
  group.classList.toggle("won", won);
  group.classList.toggle("faded", ended && !won && node.id !== CLOSING && state.mark !== "drafted");
  group.classList.toggle("now", fresh);
  group.edge?.classList.toggle("seen", true);
  group.edge?.classList.toggle("won", won);
  group.edge?.style.setProperty("--c", `var(--m-${state.mark})`);
  put(group.querySelector(".glyph"), look.glyph);
  const note = group.querySelector(".note");
  if (note) put(note, textWidth(tree.words.get(node.id), tree.shape.size) + 60 + (state.note ?? "").length * 6 < tree.at.get(node.id).w ? state.note ?? "" : "");
  const beside = tree.value && group.querySelector(".badge-text");
  if (beside) {
    const value = texts[tree.value === "p/q" ? "ratio" : tree.value];
    put(beside, value ? tree.beside(value) : "");
  }
  for (const name of ["q", "p"]) {
    const fill = group.querySelector(`.fill.${name}`);
    if (!fill) continue;
    const share = state.values[name] ?? (name === "q" ? state.values.conf : undefined);
    // Its width, not a transform: of those that move, the browser would make a layer each.
    fill.style.width = `${Math.min(1, share ?? 0) * Number(fill.getAttribute("width"))}px`;
    group.querySelector(`.track.${name}`).style.opacity = share === undefined || share === null ? 0.35 : 1;
    const number = group.querySelector(`.number.${name}`);
    if (number) put(number, texts[name] ?? "");
  }
  const label = [node.shown, look.word, tree.page.badges?.[node.id], texts.q && `q ${texts.q}`, texts.p && `p ${texts.p}`, texts.ratio && `p/q ${texts.ratio}`, texts.u && `u ${texts.u}`];
  group.setAttribute("aria-label", label.filter(Boolean).join(", "));
  group.setAttribute("aria-level", node.column + 1);
}
