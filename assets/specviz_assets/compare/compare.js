// Several texts one below the other, as voices of a score: the same position stands in the same column, rounds are
// blocks. Every text is set as text content; nothing of a run is ever parsed as markup.

const SIZE = 14, PAD = 10, GAP = 6, ROW = 34, RULER = 18, LABEL = 26;
const FONT = 'ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "DejaVu Sans Mono", monospace';
const mounted = new WeakMap();
const ruler = document.createElement("canvas").getContext("2d");

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = value;
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function groundOf(host) {
  const probe = el("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color").trim() || "white";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return r * 0.3 + g * 0.6 + b * 0.1 < 128 ? "dark" : "light";
}

class ScoreView {
  constructor(root, onPlace) {
    this.root = root;
    this.onPlace = onPlace;
    this.box = el("div", { class: "score", role: "grid", "aria-label": "texts by position" });
    root.append(this.box);
    this.box.addEventListener("click", (event) => this.chosen(event.target));
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.watch = new ResizeObserver(() => {
      if (this.score && Math.abs(this.wide - this.box.clientWidth) > 2) this.lay();
    });
    this.watch.observe(this.box);
  }

  show(score, at, theme) {
    this.score = score;
    this.at = at;
    this.theme = theme;
    this.lay();
  }

  // Columns are as wide as the widest token that stands in them; lines are as long as the page is wide.
  lay() {
    const { score } = this, n = Math.max(0, ...score.lanes.map((lane) => lane.tokens.length));
    this.wide = this.box.clientWidth;
    ruler.font = `${SIZE}px ${FONT}`;
    const widths = Array.from({ length: n }, (_, k) =>
      PAD + Math.max(18, ...score.lanes.map((lane) => (lane.tokens[k] ? ruler.measureText(lane.tokens[k][0]).width : 0))));
    const lines = [[]];
    let x = LABEL;
    widths.forEach((wide, k) => {
      if (x + wide > this.wide && lines.at(-1).length) {
        lines.push([]);
        x = LABEL;
      }
      lines.at(-1).push({ k, x, wide });
      x += wide + GAP;
    });
    this.box.dataset.theme = this.theme;
    this.box.replaceChildren(...lines.filter((line) => line.length).map((line) => this.line(line)));
    this.mark();
  }

  line(columns) {
    const { score } = this, high = RULER + score.lanes.length * ROW;
    const box = el("div", { class: "line", style: `height: ${high}px` });
    for (const { k, x, wide } of columns) {
      const at = score.first + k;
      if ((at + 1) % 5 === 0 || k === columns[0].k) box.append(el("span", { class: "number", "aria-hidden": "true", text: at + 1, style: `left: ${x}px; width: ${wide}px` }));
      if (score.parted && at === score.n_same) {
        box.append(el("span", { class: "parting", style: `left: ${x - GAP / 2 - 1}px` }, el("b", { text: "first difference" })));
      }
    }
    score.lanes.forEach((lane, row) => box.append(...this.lane(lane, row, columns)));
    return box;
  }

  lane(lane, row, columns) {
    const { score } = this, top = RULER + row * ROW, parts = [];
    parts.push(el("span", { class: "letter", text: lane.letter, title: lane.title, style: `top: ${top}px` }));
    const first = score.first + columns[0].k, stop = score.first + columns.at(-1).k + 1;
    for (const [from, to, place, words, rejected] of lane.blocks) {
      const a = Math.max(from, first), b = Math.min(to, stop);
      if (a >= b) continue;
      const left = columns[a - first], right = columns[b - 1 - first];
      const open = `${from < a ? " before" : ""}${to > b ? " after" : ""}${rejected ? " lost" : ""}`;
      parts.push(el("span", { class: `block${open}`, title: words, "data-place": place,
        style: `left: ${left.x - 2}px; top: ${top + 1}px; width: ${right.x + right.wide - left.x + 4}px` }));
    }
    const cells = el("div", { role: "row", class: "row", "aria-label": `run ${lane.letter}` });
    for (const { k, x, wide } of columns) {
      const token = lane.tokens[k];
      if (!token) continue;
      const [shown, mark, words] = token, look = score.marks[mark];
      const apart = score.parted && row > 0 && shown !== score.lanes[0].tokens[k]?.[0];
      cells.append(el("button", { type: "button", role: "gridcell", class: apart ? "token apart" : "token", tabindex: -1, "aria-label": words, title: words, text: shown,
        "data-at": score.first + k, "data-lane": row, "data-mark": mark,
        style: `left: ${x}px; top: ${top + 4}px; width: ${wide}px; --c: ${look ? look[this.theme === "dark" ? 1 : 2] : "currentColor"}` }));
    }
    if (!cells.childElementCount) for (const name of ["role", "aria-label"]) cells.removeAttribute(name); // no text here: no row
    return [...parts, cells];
  }

  // One cursor over all lanes.
  mark() {
    const all = [...this.box.querySelectorAll(".token")];
    for (const token of all) {
      const here = Number(token.dataset.at) === this.at;
      token.classList.toggle("here", here);
      token.setAttribute("aria-selected", here);
      token.tabIndex = -1;
    }
    const lane = this.lastLane ?? 0;
    const first = all.find((token) => token.classList.contains("here") && Number(token.dataset.lane) === lane)
      ?? all.find((token) => token.classList.contains("here")) ?? all[0];
    if (first) first.tabIndex = 0;
  }

  chosen(target) {
    const token = target.closest?.(".token");
    if (!token) return;
    this.lastLane = Number(token.dataset.lane);
    this.go(Number(token.dataset.at), false);
  }

  go(at, focus) {
    this.at = at;
    this.mark();
    if (focus) this.box.querySelector(`.token[data-at="${at}"][data-lane="${this.lastLane ?? 0}"]`)?.focus();
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.onPlace(at), focus ? 350 : 0);
  }

  key(event) {
    const token = event.target.closest?.(".token");
    if (!token || event.ctrlKey || event.metaKey || event.altKey) return;
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key], down = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!along && !down) return;
    event.preventDefault();
    event.stopPropagation();
    const at = Number(token.dataset.at) + (along ?? 0), lane = Number(token.dataset.lane) + (down ?? 0);
    if (!this.box.querySelector(`.token[data-at="${at}"][data-lane="${lane}"]`)) return;
    this.lastLane = lane;
    this.go(at, true);
  }
}

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let held = mounted.get(parentElement);
  if (!held) {
    held = { view: new ScoreView(parentElement.querySelector(".mount"), (at) => held.trigger("place", at)) };
    mounted.set(parentElement, held);
  }
  held.trigger = setTriggerValue;
  held.view.show(data.score, data.at, groundOf(parentElement.host ?? parentElement));
  return () => {
    if (parentElement.isConnected) return; // new data came before this script was there
    held.view.watch.disconnect();
    mounted.delete(parentElement);
  };
}
