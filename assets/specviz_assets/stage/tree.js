// The draft tree: where every node stands for the whole round, what is seen of it now, and how it came to be so.

import { CLOSING, PHASE, ROOT, button, clipped, el, put, svg, textWidth } from "./dom.js";
import { MARGIN, NARROW, excerpt, foot, inLines } from "./excerpt.js";
import { BADGE, DENSE, ROOMY, dressNode, edgeLine, makeNode } from "./node.js";

const WIDEST = 150; // between the columns of a tree that is taller than its box
const CLOSEST = 1.45;
const LETTER = 11, LINES = 3; // px of the smallest letter that is read; lines that a chain may be broken into, one more where
const TIGHT = 8; // px around what fits its box only so
const NAMED = 0.7; // of that scale, where nodes that a lesson names would not all be seen
const ends = (starts, wide, gap) => (starts.at(-1) ?? 0) + (wide.at(-1) ?? 0) + gap;
const EASE = "cubic-bezier(.2,.8,.2,1)";

export class TreeView {
  constructor(choose) {
    this.choose = choose;
    this.camera = svg("g", { class: "camera" });
    this.beam = el("div", { class: "beam", "aria-hidden": "true" }); // a layer of its own: nothing is painted anew for it
    this.svg = svg("svg", { role: "tree", class: "tree", "aria-label": "draft tree" }, this.camera);
    this.missing = el("p", { class: "missing" });
    this.tools = el("div", { class: "zoom" },
      button("plus", "zoom in (+)", () => this.zoom(1.25)),
      button("minus", "zoom out (−)", () => this.zoom(0.8)),
      button("fit", "fit the tree (0)", () => this.all()));
    this.box = el("div", { class: "canvas" }, this.svg, this.beam, this.missing, this.tools);
    this.free = null; // where the person moved the picture
    this.value = ""; // what stands beside every token besides: "q", "p", "p/q", "u"
    this.focus = null; // ids of nodes that are asked about: the camera goes to them where not all can be seen; []: all of it rather small
    this.entire = false; // all of the tree is in the picture, however small its letters
    this.view = { x: 0, y: 0, s: 1 };
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.box);
  }

  listen() {
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !this.greedy) return;
      event.preventDefault();
      const edge = this.svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - edge.left, event.clientY - edge.top);
    }, { passive: false });
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.target.closest(".node")) return;
      this.drag = { x: event.clientX, y: event.clientY, view: this.view };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      const { x, y, view } = this.drag;
      this.free = { ...view, x: view.x + event.clientX - x, y: view.y + event.clientY - y };
      this.look(false);
    });
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => { this.drag = null; });
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  zoom(by, x = this.box.clientWidth / 2, y = this.box.clientHeight / 2) {
    const { view } = this;
    const s = Math.min(3, Math.max(0.12, view.s * by));
    this.free = { s, x: x - ((x - view.x) * s) / view.s, y: y - ((y - view.y) * s) / view.s };
    this.look(true);
  }

  refit() {
    this.free = null;
    this.open = false;
    this.look(true);
  }

  // All of the tree, however small its letters.
  all() {
    this.open = true;
    this.gather(true);
    this.free = this.at && this.whole().s < this.least ? this.whole() : null;
    this.look(true);
  }

  // Another window: a tree that is laid out otherwise in it is made anew.
  resized() {
    if (this.layer && this.best().key !== this.shown.key) {
      const { free } = this;
      this.setRound(this.page, false);
      this.free = free;
      this.paint(...this.painted);
    } else this.look(false);
  }

  // The same round, laid out anew.
  remade() {
    if (!this.layer) return;
    this.setRound(this.page, false);
    this.paint(...this.painted);
  }

  // Nothing to see: another run begins.
  clear() {
    this.layer?.remove();
    this.layer = this.page = this.at = null;
    put(this.missing, "");
  }

  // A round: all its nodes are made, none is seen yet.
  setRound(page, motion, ms) {
    const old = this.layer;
    if (old && motion) {
      const shrink = `translate(${this.middle?.x ?? 0}px, ${this.middle?.y ?? 0}px) scale(.05)`;
      old.animate([{ transform: "none", opacity: 1 }, { transform: shrink, opacity: 0 }],
        { duration: ms * 0.7, easing: "ease-in", fill: "forwards" }).finished.then(() => old.remove(), () => old.remove());
    } else old?.remove();
    this.page = page;
    this.free = this.kept = null;
    this.open = false;
    this.groups = new Map();
    this.shown = this.best();
    this.measure(this.shown.shape, this.shown.lines);
    this.least = this.entire ? 0 : this.smallest(this.shape);
    if (this.entire || this.whole().s < this.least) this.spread();
    this.layer = svg("g", { class: this.shape === DENSE ? "round dense" : "round" });
    this.edges = svg("g", { class: "edges" });
    this.layer.append(this.edges);
    this.camera.append(this.layer);
    for (const node of page.nodes) this.groups.set(node.id, makeNode(this, node));
    for (const { column, row: line, text } of page.folds ?? []) {
      const { x, y } = this.at.get(`fold ${column} ${line}`);
      this.layer.append(svg("text", { class: "fold", x, y: y + 4, text }));
    }
    this.rest = svg("text", { class: "rest", onclick: () => this.all() });
    this.before = svg("text", { class: "rest" });
    this.layer.append(this.rest, this.before);
    this.stands = this.at;
    this.middle = this.at.get(ROOT);
    put(this.missing, page.missing ?? "");
  }

  // Room for what stands beside a token.
  badge(id) {
    if (!this.value || id === ROOT) return this.page.badges?.[id];
    return this.shape === ROOMY && "qp".includes(this.value) ? "" : this.beside(">.99"); // large boxes have q and p
  }

  // A small box has room for the number alone.
  beside(text) {
    return this.shape === DENSE ? text : `${this.value} ${text}`;
  }

  // The scale at which the smallest letter of a shape can still be read.
  smallest(shape) {
    return LETTER / (this.page.nodes.some((node) => this.badge(node.id)) ? Math.min(BADGE, shape.smallest) : shape.smallest);
  }

  // How the round is seen largest: nodes are drawn large while the whole tree can then be read; a chain is broken into
  // lines where that makes it larger.
  best() {
    const { page, shape, at, words } = this;
    let best;
    for (const tried of [ROOMY, DENSE]) {
      best = null;
      for (let lines = 1; lines <= (page.n_rows > 3 ? 1 : this.box.clientWidth < NARROW ? LINES + 1 : LINES); lines += 1) {
        this.measure(tried, lines);
        const { s } = this.whole();
        if (!best || s > best.s * 1.05) best = { shape: tried, lines, s, key: `${tried.row} ${lines}` };
      }
      if (best.s >= this.smallest(tried)) break;
    }
    Object.assign(this, { shape, at, words });
    return best;
  }

  // Columns are as wide as their widest token; the places are in the picture's own units.
  measure(shape, lines) {
    this.shape = shape;
    const { size, least, letters, gap, row } = shape;
    const wide = Array(this.page.n_columns).fill(least);
    this.words = new Map();
    for (const node of this.page.nodes) {
      const words = clipped(node.shown, letters);
      this.words.set(node.id, words);
      const said = this.badge(node.id), badge = said ? textWidth(said, BADGE) + 8 : 0; // above a large box, at the end of a small one
      const own = textWidth(words, size) + (shape === DENSE ? 34 + badge : 44);
      wide[node.column] = Math.max(wide[node.column], own, badge);
    }
    const per = Math.ceil(wide.length / lines), line = (column) => Math.floor(column / per);
    const starts = wide.map((_, k) => wide.slice(line(k) * per, k).reduce((sum, w) => sum + w + gap, 0));
    const rows = Array(lines).fill(1); // of each line
    for (const node of this.page.nodes) rows[line(node.column)] = Math.max(rows[line(node.column)], node.row + 1);
    const above = rows.map((_, n) => rows.slice(0, n).reduce((sum, own) => sum + own + 0.3, 0));
    const y = (column, at) => (at + above[line(Math.min(column, wide.length - 1))]) * row;
    this.at = new Map(this.page.nodes.map((node) =>
      [node.id, { x: starts[node.column], y: y(node.column, node.row), w: wide[node.column], line: line(node.column) }]));
    for (const { column, row: at, text } of this.page.folds ?? []) {
      const last = Math.min(column, wide.length - 1);
      this.at.set(`fold ${column} ${at}`, { x: starts[column] ?? ends(starts, wide, gap), y: y(last, at), w: textWidth(text, 12) });
    }
  }

  // A tall tree takes the width that its box has to spare.
  spread() {
    if (this.shown.lines > 1) return;
    const s = Math.max(this.least, this.whole().s), n = this.page.n_columns - 1;
    const ends = Math.max(...[...this.at.values()].map((place) => place.x + place.w));
    const spare = ((this.box.clientWidth - 2 * MARGIN) / s - ends) / Math.max(1, n);
    const more = Math.max(0, Math.min(WIDEST, spare));
    for (const node of this.page.nodes) this.at.get(node.id).x += node.column * more;
    for (const { column, row: line } of this.page.folds ?? []) this.at.get(`fold ${column} ${line}`).x += column * more;
  }

  // One moment. `motion`: it follows the one before, and what changed is seen to change.
  paint(k, motion, ms, chosen, marks) {
    const { page } = this;
    this.painted = [k, false, ms, chosen, marks];
    const states = page.states[k], moment = page.moments[k], before = page.states[k - 1];
    Object.assign(this, { k, chosen });
    this.layer.style.setProperty("--ms", `${motion ? Math.min(420, ms * 0.45) : 0}ms`);
    this.layer.dataset.phase = moment.phase;
    const sweep = motion && moment.phase === PHASE.VERIFY ? ms * 0.8 : 0;
    this.look(motion);
    for (const node of page.nodes) {
      const state = states.get(node.id), group = this.groups.get(node.id);
      if (!state) {
        group.remove();
        group.state = null;
        group.edge?.classList.remove("seen", "won");
        continue;
      }
      const enters = !group.isConnected;
      if (enters) this.layer.append(group);
      dressNode(this, node, group, state, moment, marks);
      this.mark(group, node.id === chosen);
      if (sweep || this.swept) group.style.setProperty("--wait", `${sweep ? (sweep * this.across(node.id)).toFixed(0) : 0}ms`);
      if (enters && motion && !before?.has(node.id)) this.enter(node.id, group, ms);
    }
    this.swept = sweep > 0;
    if (sweep) this.sweep(sweep);
    if (motion && moment.phase === PHASE.ACCEPT) this.pulse(moment.selected, ms);
  }

  // Whether a node is the one that is looked at, which Tab comes to.
  mark(group, chosen) {
    if (group.chosen === chosen) return;
    group.chosen = chosen;
    group.classList.toggle("chosen", chosen);
    group.tabIndex = chosen ? 0 : -1;
    group.setAttribute("aria-selected", chosen);
  }

  // A drafted node grows out of its parent; the token that closes the round drops in from above.
  enter(id, group, ms) {
    const { parent, row } = this.page.places.get(id), own = this.at.get(id), from = this.at.get(parent) ?? own;
    const place = `translate(${own.x}px, ${own.y}px)`;
    const first = id === CLOSING ? `translate(${own.x}px, ${own.y - 90}px)`
      : id === ROOT ? `translate(${own.x - 60}px, ${own.y}px)`
      : `translate(${from.x + from.w * 0.6}px, ${from.y}px) scale(.4)`;
    const easing = id === CLOSING ? "cubic-bezier(.3,1.5,.6,1)" : EASE;
    group.animate([{ transform: first, opacity: 0 }, { transform: place, opacity: 1 }],
      { duration: Math.min(650, ms * 0.7), easing, delay: id < 0 ? 0 : Math.min(24, ms * 0.03) * (row % 5), fill: "backwards" });
    group.edge?.animate([{ opacity: 0 }, { opacity: 1 }], { duration: Math.min(500, ms * 0.6) });
  }

  // The target's one pass: a bar of light from left to right; every p appears as it passes.
  sweep(ms) {
    const wide = this.box.clientWidth;
    this.beam.animate([{ transform: "translateX(-120px)", opacity: 1 }, { transform: `translateX(${wide}px)`, opacity: 1 }],
      { duration: ms, easing: "linear" });
  }

  across(id) {
    const { x, s } = this.view;
    return Math.max(0, Math.min(1, (x + this.at.get(id).x * s) / Math.max(1, this.box.clientWidth)));
  }

  pulse(id, ms) {
    this.groups.get(id)?.querySelector(".ring").animate(
      [{ opacity: 1, transform: "scale(1.12)" }, { opacity: 1, transform: "scale(1)" }],
      { duration: Math.min(500, ms * 0.5), easing: EASE });
  }

  // The camera: all of the tree while that can be read, else what is going on in it. By hand it stays where it is.
  look(motion) {
    const wide = this.box.clientWidth, high = this.box.clientHeight;
    if (!this.at || !wide || !high) return;
    this.gather(motion);
    let view = this.free;
    if (!view) {
      view = this.whole();
      if (!this.kept && view.s < (this.focus?.length === 0 ? NAMED : 1) * this.least) view = this.present() ??  this.near(this.page.moments[this.k ?? 0]);
    }
    this.view = view;
    this.camera.style.transition = motion ? "" : "none";
    this.camera.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.s})`;
  }

  whole() {
    return this.fit([...this.at.keys()], CLOSEST);
  }

  // The height that the whole tree has at the width of its box.
  tall() {
    const { y0, y1 } = this.bounds([...this.at.keys()]);
    return Math.ceil((y1 - y0) * this.whole().s + 2 * MARGIN);
  }

  // Beside a lesson what is there by now, close to the edges, where it fits so.
  present() {
    const view = this.focus && this.fit([...this.page.states[this.k ?? 0].keys()], this.least, TIGHT, TIGHT);
    return view?.s >= NAMED * this.least ? view : null;
  }

  bounds(ids) {
    const places = ids.map((id) => this.at.get(id)).filter(Boolean), half = this.shape.high / 2;
    return { x0: Math.min(...places.map((p) => p.x)), x1: Math.max(...places.map((p) => p.x + p.w)),
      y0: Math.min(...places.map((p) => p.y)) - half, y1: Math.max(...places.map((p) => p.y)) + half };
  }

  // `left`, `edge`: px to the left, and above and below; on the right are the buttons.
  fit(ids, most, left = MARGIN, edge = foot(this.box.clientHeight)) {
    const wide = this.box.clientWidth, high = this.box.clientHeight;
    const { x0, x1, y0, y1 } = this.bounds(ids), [first, last] = wide < NARROW ? [MARGIN / 4, MARGIN / 4] : [left, MARGIN];
    const s = Math.min(most, (wide - first - last) / (x1 - x0), (high - 2 * edge) / (y1 - y0));
    return { s, x: (wide + first - last - (x0 + x1) * s) / 2, y: (high - (y0 + y1) * s) / 2 };
  }

  // The path that is kept at this moment, from the root to what closes the round.
  path() {
    const states = this.page.states[this.k ?? 0];
    return this.page.nodes.filter(({ id }) => id === CLOSING ? states.has(id) : states.get(id)?.winning)
      .sort((a, b) => a.column - b.column).map(({ id }) => id);
  }

  // Whether what is looked at is the round's end, and not what somebody chose beside it.
  about(path, { selected }) {
    return path.length > 0 && (path.includes(this.chosen) || this.chosen === selected);
  }

  // In the end what was kept is seen: where its path lies too far apart for that, it comes together in lines, and the
  // rest is a number until somebody looks at one of it or at all of the tree.
  gather(motion) {
    const { page, stands, layer } = this, path = this.path(), before = this.kept, moment = page.moments[this.k ?? 0];
    this.at = stands;
    const apart = moment.phase === PHASE.COMMIT && !this.open && this.about(path, moment) && !this.focus?.length
      && Math.max(this.whole().s, this.fit(path, 1).s) < this.least;
    this.kept = apart ? inLines(this, [...new Set([...path, this.chosen])]) : excerpt(this, path); // what the last one came instead of, behind it
    if (!before && !this.kept) return;
    this.at = this.kept ?? stands;
    layer.classList.toggle("gathered", Boolean(this.kept));
    layer.classList.toggle("moves", motion);
    for (const node of page.nodes) {
      const group = this.groups.get(node.id), place = this.at.get(node.id), from = this.at.get(node.parent);
      group.classList.toggle("away", !place);
      group.edge?.classList.toggle("away", !place || !from || (apart && !path.includes(node.id))); // of those that gather in lines
      if (!place) continue;
      group.style.transform = `translate(${place.x}px, ${place.y}px)`;
      if (group.edge && from) group.edge.setAttribute("d", edgeLine(from, place, (apart ? 0.65 : node.row + 0.65) * this.shape.row));
    }
    const n_before = path.filter((id) => !this.at.has(id)).length, n_away = [...page.states[this.k].keys()].filter((id) => !this.at.has(id)).length;
    for (const [text, key, words] of [[this.rest, "rest", `+ ${n_away - n_before} ${apart ? "not kept" : "others"}`], [this.before, "before", `… ${n_before} before`]]) {
      const place = this.at.get(key);
      put(text, place ? words : "");
      for (const name of ["x", "y"]) text.setAttribute(name, place?.[name] ?? 0);
    }
  }

  // Of a large tree: the level that was drafted, the test in hand with what it hangs on, then the path that was kept or
  // what was chosen beside it; at a scale that can be read, and no further from the tree's edges than they are.
  near(moment) {
    const { page } = this, parent = (id) => page.places.get(id)?.parent, path = moment.phase > PHASE.ACCEPT ? this.path() : [];
    const fresh = moment.phase === PHASE.DRAFT ? moment.fresh ?? [] : [];
    const ids = this.focus?.some((id) => this.at.has(id)) ? this.focus : this.about(path, moment) ? path
      : path.length ? [this.chosen, parent(this.chosen)] : fresh.length ? [...fresh, ...fresh.map(parent)] : [moment.selected, parent(moment.selected)];
    const seen = this.bounds(ids.some((id) => this.at.has(id)) ? ids : [ROOT]), all = this.bounds([...this.at.keys()]);
    const s = Math.max(ids === this.focus ? NAMED * this.least : this.least, Math.min(1, this.fit(ids, 1).s));
    const along = (lo, hi, first, last, room) => {
      const edge = foot(room), least = room - edge - last * s, most = edge - first * s;
      const here = (hi - lo) * s > room - 2 * edge ? room - edge - hi * s : room / 2 - ((lo + hi) / 2) * s; // its end at least
      return least > most ? (room - (first + last) * s) / 2 : Math.min(most, Math.max(least, here));
    };
    return { s, x: along(seen.x0, seen.x1, all.x0, all.x1, this.box.clientWidth), y: along(seen.y0, seen.y1, all.y0, all.y1, this.box.clientHeight) };
  }

  // Where a node is on the screen when the camera has come to rest, for what flies out of it.
  spot(id) {
    const place = this.at.get(id), edge = this.box.getBoundingClientRect(), { x, y, s } = this.view;
    return place && { left: edge.left + x + place.x * s, top: edge.top + y + (place.y - this.shape.high / 2) * s };
  }

  key(event) {
    const group = event.target.closest?.(".node");
    if (!group || event.ctrlKey || event.metaKey || event.altKey) return;
    const here = this.page.places.get(Number(group.dataset.node));
    const seen = this.page.nodes.filter((node) => this.groups.get(node.id).isConnected);
    const level = seen.filter((node) => node.column === here.column).sort((a, b) => a.row - b.row);
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const next = step ? level[level.indexOf(here) + step]
      : event.key === "ArrowLeft" ? this.page.places.get(here.parent)
      : event.key === "ArrowRight" ? seen.find((node) => node.parent === here.id && node.id !== here.id) : undefined;
    if (event.key === "Enter") this.choose(here.id);
    else if (!step && event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    event.stopPropagation();
    if (!next || next.id === here.id) return;
    this.choose(next.id);
    this.groups.get(next.id).focus();
  }
}
