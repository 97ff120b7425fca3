// What every key does, and the box that says so.

import { el } from "./dom.js";

export const KEYS = {
  " ": (stage) => stage.toggle(),
  ArrowRight: (stage) => stage.step(1),
  ArrowLeft: (stage) => stage.step(-1),
  ".": (stage) => stage.step(1),
  ",": (stage) => stage.step(-1),
  "]": (stage) => stage.round(1),
  "[": (stage) => stage.round(-1),
  "}": (stage) => stage.rejection(1),
  "{": (stage) => stage.rejection(-1),
  Home: (stage) => stage.goEnd(0),
  End: (stage) => stage.toLast(),
  l: (stage) => stage.toLast(),
  Escape: (stage) => stage.options.room?.()?.escape() || stage.choose(null),
  p: (stage) => stage.options.room?.()?.turn(),
  f: (stage) => stage.options.room?.()?.turnFollow(),
  "+": (stage) => stage.tree.zoom(1.25),
  "-": (stage) => stage.tree.zoom(0.8),
  0: (stage) => stage.tree.all(),
  "?": (stage) => stage.help.showModal(),
};

const WORDS = [
  ["space", "play, pause"],
  ["← →", "one step: a call of the drafter, the target's pass, a test, a phase"],
  ["[ ]", "round before, next round"],
  ["{ }", "rejection before, next rejection"],
  ["Home End", "first, last round; End or l: back to live"],
  ["↑ ↓ ← →", "in the tree (Tab goes there): from node to node"],
  ["Esc", "let go of the node, follow the action; put back what if"],
  ["+ − 0", "zoom the tree, fit it"],
  ["?", "these keys"],
];

const TOGETHER = [
  ["p", "presenter mode: large, dark, by keys alone; Esc leaves"],
  ["f", "follow the page that presents"],
];

// `together`: whether pages can look together here.
export function helpBox(together) {
  const box = el("dialog", { class: "help", "aria-label": "keys" });
  box.append(el("h2", { text: "Keys" }),
    el("dl", {}, ...[...WORDS, ...(together ? TOGETHER : [])].flatMap(([keys, words]) => [el("dt", { text: keys }), el("dd", { text: words })])),
    el("button", { type: "button", text: "close", onclick: () => box.close() }));
  box.onclick = (event) => (event.target === box ? box.close() : undefined);
  return box;
}
