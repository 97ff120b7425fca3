// The live view: frames come as server-sent events and are painted here; the Streamlit script does not run for them.
// Every text from a frame is set as text content. Nothing is worked out: places, marks, words and numbers are given.

const SVG = "http://www.w3.org/2000/svg";
const CELL = 8.6, GAP = 44, ROW = 32, PAD = 18; // pixels
const SCRIPT_MS = 1500; // within which a script that was begun here has laid out what was said
// While a message waits nothing of the run before it is shown.
const BLANK = { metrics: [], strip: { tokens: [], cut: false, prompt: "" }, counts: "", spark: "", why: null, changes: [],
  tree: { nodes: [], column_cells: [], folds: [], n_rows: 0, missing: "", flash: false }, phase: "", title: "", badge: "" };
const views = new WeakMap();

export default function (component) {
  const { data, parentElement, setTriggerValue } = component;
  let view = views.get(parentElement);
  if (!view) {
    view = new LiveView(parentElement);
    views.set(parentElement, view);
  }
  view.configure(data, setTriggerValue);
  return () => {
    view.end();
    views.delete(parentElement);
  };
}

class LiveView {
  constructor(root) {
    this.root = root;
    this.nodes = new Map();
    this.frame = null;
    this.due = false;
    this.source = null;
    this.problem = "";
    this.find = (name) => root.querySelector(name);
    this.svg = this.find("svg");
    this.paths = [make("path"), make("path", { class: "kept" })];
    this.svg.append(...this.paths);
    this.find(".hold").onclick = () => this.order(this.frame?.state.name === "paused" ? "resume" : "pause");
    this.find(".step").onclick = () => this.order("step");
    this.find(".stop").onclick = () => this.order("stop");
    this.svg.onkeydown = (event) => this.key(event);
    // A browser opens six connections to a server, and every stream takes one: only a tab that is looked at has one.
    this.seen = () => (document.hidden ? this.close() : this.data && !this.source && this.connect());
    document.addEventListener("visibilitychange", this.seen);
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
  }

  configure(data, trigger) {
    this.trigger = trigger;
    this.dark = isDark(this.root.host ?? this.root);
    this.palette = data.palette;
    const before = this.data;
    this.data = data;
    if (before?.events !== data.events) {
      this.source?.close();
      this.connect();
    }
    if (before?.page !== data.page) {
      this.told = null;
      clearTimeout(this.telling);
    }
    this.paint();
  }

  connect() {
    if (document.hidden) return;
    this.source = new EventSource(this.data.events);
    this.source.onmessage = (event) => {
      this.frame = JSON.parse(event.data);
      this.problem = "";
      this.compare();
      this.paint();
    };
    this.source.onerror = () => {
      this.problem = this.source?.readyState === EventSource.CLOSED
        ? "The server gives this page no view of the run: too many pages follow it, or it was started anew. Reload the page."
        : "The connection to the server is lost; trying again.";
      this.paint();
    };
  }

  // Messages came or went that the page around has not laid out: another tab said something, and the script is to run,
  // once. Who spoke in this tab has a script on its way already; a frame may overtake it.
  compare() {
    const { page } = this.frame;
    if (!this.data.page || page === this.data.page || page === this.told) return;
    this.told = page;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => this.frame.page !== this.data.page && this.trigger("page", this.frame.page), SCRIPT_MS);
  }

  end() {
    clearTimeout(this.telling);
    document.removeEventListener("visibilitychange", this.seen);
    this.close();
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  async order(cmd) {
    const headers = { "Content-Type": "application/json", "X-Specviz-Token": this.data.token };
    try {
      const answer = await fetch(this.data.command, { method: "POST", headers, body: JSON.stringify({ cmd }) });
      const said = await answer.json();
      this.problem = said.ok ? "" : said.message;
    } catch {
      this.problem = "The server does not answer.";
    }
    this.paint();
  }

  paint() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      if (this.frame) this.draw(this.frame);
      const refused = this.problem || this.frame?.refusals.at(-1) || "";
      const noted = this.frame?.notices.at(-1) || "";
      const failed = !refused && noted && this.frame.failed; // how the run ended, when it did not end well
      this.find(".problem").textContent = refused || (failed ? noted : "");
      this.find(".note").textContent = refused || failed ? "" : noted;
    });
  }

  colour(mark) {
    const style = this.palette[mark] ?? this.palette.untested;
    return this.dark ? style.dark : style.light;
  }

  draw(whole) {
    const frame = whole.blank ? { ...whole, ...BLANK } : whole;
    const text = (name, value) => {
      const place = this.find(name);
      if (place.textContent !== value) place.textContent = value;
    };
    const state = frame.state;
    text(".state", [state.glyph, state.text, state.detail].filter(Boolean).join(" "));
    text(".title", frame.title);
    text(".badge", frame.badge);
    this.find(".badge").classList.toggle("bad", frame.lossy);
    text(".place", frame.place.label);
    text(".phase", frame.phase);
    text(".queue", frame.queue);
    text(".counts", frame.counts);
    text(".spark", frame.spark);
    text(".knobs", [frame.pending, frame.last].filter(Boolean).join(" · "));
    const live = ["live", "paused", "lag"].includes(state.name);
    this.find(".hold").disabled = this.find(".step").disabled = this.find(".stop").disabled = !live;
    text(".hold", state.name === "paused" ? "▶ Go on" : "❚❚ Pause");
    this.drawMetrics(frame.metrics);
    this.find(".sv").classList.toggle("talk", frame.talk);
    this.find(".given").hidden = !frame.strip.prompt;
    text(".given div", frame.strip.prompt);
    this.drawText(frame.strip);
    if (!this.still.matches || frame.still || !this.shown || !frame.tree.nodes.length) {
      this.shown = frame; // the tree that clicks are about: who wants no motion sees ended rounds alone
      this.drawTree(frame.tree);
    }
    this.drawWhy(this.shown.why);
    this.drawChanges(frame.changes);
  }

  drawMetrics(metrics) {
    const list = this.find(".metrics");
    if (list.children.length !== metrics.length) list.replaceChildren(...metrics.map(() => pair()));
    metrics.forEach((metric, k) => {
      const [label, value] = list.children[k].children;
      label.textContent = metric.label;
      value.textContent = metric.text;
      list.children[k].title = metric.help;
    });
  }

  drawText(strip) {
    const box = this.find(".text");
    const low = box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    const parts = strip.tokens.map((token) => {
      const span = document.createElement("span");
      span.textContent = token.running;
      if (token.mark !== "prompt") span.style.color = this.colour(token.mark);
      if (token.fresh) span.classList.add("new");
      if (token.provisional) span.classList.add("maybe");
      return span;
    });
    box.replaceChildren(strip.cut ? "… " : "", ...parts);
    if (low) box.scrollTop = box.scrollHeight;
  }

  drawWhy(why) {
    const box = this.find(".why");
    box.hidden = !why;
    if (!why) return;
    box.style.borderColor = this.colour(why.mark);
    box.querySelector("b").textContent = why.title;
    box.querySelector("span").textContent = why.headline;
    box.querySelector("p").textContent = why.words;
  }

  drawChanges(changes) {
    const table = this.find(".changes");
    table.hidden = !changes.length;
    table.tBodies[0].replaceChildren(...changes.map((change) => {
      const row = document.createElement("tr");
      for (const value of change) row.insertCell().textContent = value;
      return row;
    }));
  }

  drawTree(tree) {
    const starts = [];
    let width = PAD;
    for (const cells of tree.column_cells) {
      starts.push(width);
      width += (cells + 7) * CELL + GAP;
    }
    const place = (at) => [starts[at.column] ?? PAD, PAD + at.row * ROW];
    const height = PAD * 2 + Math.max(1, tree.n_rows) * ROW - ROW / 2;
    set(this.svg, { width, height, viewBox: `0 0 ${width} ${height}` });
    this.find(".canvas").classList.toggle("flash", tree.flash);
    const seen = new Map(tree.nodes.map((node) => [node.id, node]));
    for (const [id, group] of this.nodes) {
      if (!seen.has(id)) {
        group.remove();
        this.nodes.delete(id);
      }
    }
    const lines = ["", ""];
    const ends = new Map(); // where a node's words end; parents come before their children
    for (const node of tree.nodes) {
      const [x, y] = place(node);
      ends.set(node.id, [this.drawNode(node, [x, y]), y]);
      const parent = seen.get(node.parent);
      if (!parent || node.id === -1 || !ends.has(node.parent)) continue;
      lines[node.winning && parent.winning ? 1 : 0] += line(ends.get(node.parent), [x, y]);
    }
    this.paths.forEach((path, k) => path.setAttribute("d", lines[k]));
    this.paths[1].style.stroke = this.colour("accepted");
    this.svg.querySelectorAll("text.fold").forEach((old) => old.remove());
    const notes = tree.folds.map((fold) => [fold.text, ...place(fold)]);
    if (tree.missing) notes.push([tree.missing, PAD, PAD + ROW]);
    for (const [words, x, y] of notes) this.svg.append(label(words, { class: "fold", x, y: y + 5 }));
  }

  drawNode(node, [x, y]) {
    let group = this.nodes.get(node.id);
    if (!group) {
      group = make("g", { role: "treeitem", tabindex: node.id === -1 ? 0 : -1, "data-node": node.id });
      group.append(make("rect", { class: "box" }), make("rect", { class: "gauge" }), label("", {}));
      group.onclick = () => this.choose(node.id);
      this.nodes.set(node.id, group);
      this.svg.append(group);
    }
    const [box, gauge, words] = group.children;
    const colour = this.colour(node.mark);
    const shown = [node.glyph, node.shown, node.value].filter(Boolean).join(" ");
    const width = (shown.length + 1) * CELL;
    set(group, { "aria-label": [node.shown, node.word, node.value].filter(Boolean).join(", "), "data-mark": node.mark });
    group.classList.toggle("lost", node.mark === "rejected");
    group.classList.toggle("never", node.mark === "untested" || node.mark === "pruned");
    set(box, { x: x - 6, y: y - 14, width: width + 6, height: 28 });
    set(gauge, { x, y: y + 9, width: Math.max(0, (node.bar ?? 0) * width), height: 4, fill: colour });
    set(words, { x, y: y + 4, fill: colour, "font-weight": node.winning ? 700 : 400 });
    if (words.textContent !== shown) words.textContent = shown;
    return x + width;
  }

  choose(id) {
    const { q, r } = this.shown.place;
    this.trigger("node", { q, r, node: id });
  }

  key(event) {
    const group = event.target.closest?.("g[data-node]");
    if (!group) return;
    const here = Number(group.dataset.node);
    if (event.key === "Enter" || event.key === " ") {
      this.choose(here);
      event.preventDefault();
      return;
    }
    const nodes = this.shown.tree.nodes;
    const now = nodes.find((node) => node.id === here);
    const level = nodes.filter((node) => node.column === now?.column).sort((a, b) => a.row - b.row);
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const next = step
      ? level[level.findIndex((node) => node.id === here) + step]
      : event.key === "ArrowLeft"
        ? nodes.find((node) => node.id === now?.parent)
        : event.key === "ArrowRight" ? nodes.find((node) => node.parent === here && node.id !== here) : null;
    if (next) {
      this.nodes.get(next.id)?.focus();
      event.preventDefault();
    }
  }
}

function make(name, attributes = {}) {
  return set(document.createElementNS(SVG, name), attributes);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function label(words, attributes) {
  const element = make("text", attributes);
  element.textContent = words;
  return element;
}

function pair() {
  const box = document.createElement("div");
  box.append(document.createElement("dt"), document.createElement("dd"));
  return box;
}

function line([x0, y0], [x1, y1]) {
  const bend = x1 - GAP / 2;
  return `M${Math.min(x0, bend)} ${y0}H${bend}V${y1}H${x1 - 8}`;
}

function isDark(host) {
  const probe = document.createElement("i");
  probe.style.color = getComputedStyle(host).getPropertyValue("--st-background-color").trim() || "#fff";
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return r * 0.3 + g * 0.6 + b * 0.1 < 128;
}
