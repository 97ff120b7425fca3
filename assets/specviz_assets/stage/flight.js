// How a round becomes text: what was kept flies from its place in the tree to its place in the conversation.

import { ROOT, el } from "./dom.js";

// The tokens that become text, where they come to stand in the tree.
export function lift(stage) {
  const states = stage.page.states[stage.k];
  return [...states].filter(([id, state]) => state.winning && id !== ROOT)
    .map(([id, state]) => ({ id, state, from: stage.tree.spot(id) }))
    .filter((leaf) => leaf.from);
}

// From there to where they stand now; what is scrolled out of sight is flown to the edge.
export function fly(stage, leaves, ms) {
  const spots = stage.talk.spots(stage.index), edge = stage.box.getBoundingClientRect(), view = stage.talk.scroll.getBoundingClientRect();
  leaves.forEach(({ id, state, from }, n) => {
    const token = spots.get(id);
    if (!token) return;
    const to = token.getBoundingClientRect();
    const y = Math.max(view.top, Math.min(view.bottom - 20, to.top));
    const ghost = el("span", { class: "ghost", text: stage.page.places.get(id)?.shown ?? "", style: `--c: var(--m-${state.mark})` });
    stage.flying.append(ghost);
    const start = `translate(${from.left - edge.left + 8}px, ${from.top - edge.top + 6}px)`;
    const end = `translate(${to.left - edge.left}px, ${y - edge.top}px)`;
    const timing = { duration: Math.min(900, ms * 0.5), delay: n * Math.min(90, ms * 0.06), easing: "cubic-bezier(.5,0,.2,1)", fill: "both" };
    const gone = () => ghost.remove();
    ghost.animate([{ transform: start, opacity: 0.2 }, { transform: start, opacity: 1, offset: 0.15 },
      { transform: end, opacity: 1, offset: 0.9 }, { transform: end, opacity: 0 }], timing).finished.then(gone, gone);
    token.animate([{ opacity: 0 }, { opacity: 0, offset: 0.85 }, { opacity: 1 }], timing);
  });
}
