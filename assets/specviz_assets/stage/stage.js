// The stage: one picture of a run that plays. It places and moves; marks, words and numbers are those it is given.

import { CLOSING, PHASE, ROOT, button, el, put } from "./dom.js";
import { fly, lift } from "./flight.js";
import { Inspector, KnobRow, Scale } from "./inspect.js";
import { KEYS, helpBox } from "./keys.js";
import { Pages } from "./pages.js";
import { Talk } from "./talk.js";
import { Timeline } from "./timeline.js";
import { TreeView } from "./tree.js";

// How long a moment is looked at, in ms at 1×.
const DWELL = { [PHASE.ROOT]: 650, [PHASE.DRAFT]: 620, [PHASE.VERIFY]: 1500, [PHASE.ACCEPT]: 1450, [PHASE.CLOSE]: 1700, [PHASE.COMMIT]: 1700 };
const STILL = 1800; // a round, for who wants no motion
// What has keys of its own, here or on the page around.
const TAKES_KEYS = "input, textarea, select, dialog, [contenteditable=true], [role=slider], [role=listbox], [role=combobox], [role=menu]";

// `source`: `head()` and `round(index)`, both promises. `options`: `at`, `play`, `theme`, `alone` (nothing else on the
// page), `save()` (a promise of the saved page), `onPlace(place)` when a place was come to and stayed at.
export class Stage {
  constructor(root, source, options = {}) {
    this.root = root;
    this.options = options;
    this.source = source;
    this.pages = new Pages(source);
    this.index = 0;
    this.k = 0;
    this.speed = 1;
    this.playing = false;
    this.chosen = null;
    this.asked = 0;
    this.quiet = matchMedia("(prefers-reduced-motion: reduce)");
    this.darkness = matchMedia("(prefers-color-scheme: dark)");
    this.build();
    this.frame = (time) => this.tick(time);
    this.keys = (event) => this.key(event);
    document.addEventListener("keydown", this.keys);
    this.darken = () => this.paintTheme();
    this.darkness.addEventListener("change", this.darken);
    this.ready = this.begin();
  }

  build() {
    this.tree = new TreeView((id) => this.choose(id));
    this.tree.greedy = Boolean(this.options.alone);
    this.talk = new Talk((index, node) => this.goEnd(index, node === undefined ? null : Number(node)));
    this.why = new Inspector((id) => this.choose(id));
    this.scale = new Scale();
    this.knobs = this.knobRow();
    this.time = new Timeline(this);
    this.title = el("h1", {});
    this.badge = el("span", { class: "badge" });
    this.facts = el("span", { class: "dim facts" });
    this.metrics = el("dl", { class: "metrics" });
    this.phases = el("ol", { class: "phases", role: "img" });
    this.said = el("p", { class: "said", role: "status", "aria-live": "polite" });
    this.legend = el("p", { class: "legend", "aria-hidden": "true" });
    this.counts = el("p", { class: "dim counts" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.help = helpBox();
    this.flying = el("div", { class: "flying", "aria-hidden": "true" });
    const tools = el("div", { class: "tools" },
      this.options.save ? button("save", "save as one HTML file", (event) => this.save(event.currentTarget)) : null,
      this.options.theme ? null : button("theme", "light or dark", () => this.turnTheme()),
      el("button", { type: "button", title: "keys (?)", "aria-label": "keys", text: "?", onclick: () => this.help.showModal() }));
    this.box = el("div", { class: this.options.alone ? "stage alone" : "stage", tabindex: -1 },
      el("header", {}, el("div", { class: "name" }, this.title, this.badge, this.facts), this.metrics, tools),
      this.talk.box,
      el("main", {}, this.phases, this.said, this.tree.box, el("div", { class: "below" }, this.legend, this.scale.box), this.counts, this.knobs.box),
      this.why.box, this.time.box, this.problem, this.help, this.flying);
    this.around = el("div", { class: "stage-around" }, this.box);
    this.root.append(this.around);
    this.paintTheme();
  }

  knobRow() {
    return new KnobRow();
  }

  async begin() {
    try {
      this.head = await this.source.head();
      if (this.head.version !== 1) throw new Error("made by another version of specviz");
      this.lay(this.head);
      if (!this.head.points.length) throw new Error((this.head.notices ?? [])[0] ?? "this run has no round");
      await this.goto(this.options.at ?? "");
      if (this.options.play && !this.options.at) this.start();
    } catch (error) {
      put(this.problem, `The run cannot be shown: ${error.message}`);
    }
  }

  lay(head) {
    put(this.title, head.title);
    put(this.badge, `${head.lossless ? "✓" : "⚠"} ${head.badge}`);
    this.badge.classList.toggle("bad", !head.lossless);
    const warned = (head.notices ?? []).at(-1);
    put(this.facts, warned ? `${head.facts} · ⚠ ${warned}` : head.facts);
    this.phases.replaceChildren(...head.phases.map((word, n) => el("li", { "data-phase": n + 1 }, el("i", {}), el("span", { text: word }))));
    this.metrics.replaceChildren(...head.metrics.map((metric) =>
      el("div", { title: metric.help }, el("dt", { text: metric.label }), el("dd", { text: metric.text }))));
    const signs = ["accepted", "rejected", "untested", "recovered", "bonus"];
    this.legend.replaceChildren(el("span", { class: "q", text: "q draft" }), el("span", { class: "p", text: "p target" }),
      ...signs.map((mark) => el("span", { style: `--c: var(--m-${mark})` }, el("b", { text: head.marks[mark].glyph }), ` ${head.marks[mark].word}`)));
    this.paintTheme();
    this.talk.setHead(head);
    this.knobs.setHead(head);
    this.time.setHead(head);
  }

  // The page around says which ground it has; else the system, until the person turns it.
  get dark() {
    const asked = this.turned ?? this.options.theme;
    return asked ? asked === "dark" : this.darkness.matches;
  }

  setTheme(theme) {
    this.options.theme = theme;
    this.paintTheme();
  }

  turnTheme() {
    this.turned = this.dark ? "light" : "dark";
    this.paintTheme();
  }

  paintTheme() {
    const ground = this.dark ? "dark" : "light";
    this.box.dataset.theme = ground;
    for (const [mark, look] of Object.entries(this.head?.marks ?? {})) this.box.style.setProperty(`--m-${mark}`, look[ground]);
    if (this.head) this.time.draw();
  }

  // Moving ---------------------------------------------------------------------------------------------------------

  // Whether the picture goes on by itself.
  get moving() {
    return this.playing;
  }

  get still() {
    return this.quiet.matches;
  }

  get last() {
    return this.head.points.length - 1;
  }

  // To a moment; -1 is the last of its round. Only the newest wish counts while a round is on its way.
  async go(index, k, motion = false, chosen = null) {
    const wish = (this.asked += 1);
    const to = Math.max(0, Math.min(this.last, index));
    let page;
    try {
      page = await this.pages.get(to, this.last);
      put(this.problem, "");
    } catch (error) {
      put(this.problem, `Round ${to + 1} cannot be fetched: ${error.message}`);
      this.stop();
      return;
    }
    if (wish !== this.asked || this.gone) return;
    const from = { page: this.page, k: this.k };
    this.page = page;
    this.index = to;
    this.k = k < 0 ? page.moments.length - 1 : Math.min(k, page.moments.length - 1);
    this.chosen = chosen !== null && page.states[this.k].has(chosen) ? chosen : from.page === page && page.states[this.k].has(this.chosen) ? this.chosen : null;
    this.since = performance.now();
    this.draw(motion && !this.still, from);
    this.tell();
  }

  step(by, hold = true) {
    if (!this.page) return undefined;
    if (hold) this.stop();
    const k = this.k + by;
    if (k >= 0 && k < this.page.moments.length) return this.go(this.index, k, by > 0);
    if (by > 0 && this.index === this.last) return this.stop();
    if (by < 0 && this.index === 0) return undefined;
    return this.go(this.index + by, by > 0 ? 0 : -1, by > 0);
  }

  round(by) {
    return this.goEnd(this.index + by);
  }

  toLast() {
    return this.head && this.goEnd(this.last);
  }

  goEnd(index, chosen = null) {
    if (!this.head) return undefined;
    this.stop();
    return this.go(index, -1, false, chosen);
  }

  // To the next or previous test that failed; where single tests are not recorded, to its round.
  async rejection(by) {
    if (!this.page) return;
    this.stop();
    const own = this.failed(this.page).filter((k) => (by > 0 ? k > this.k : k < this.k));
    if (own.length) {
      await this.go(this.index, by > 0 ? own[0] : own.at(-1));
      return;
    }
    let index = this.index + by;
    while (index >= 0 && index <= this.last && !this.head.points[index].rejected) index += by;
    if (index < 0 || index > this.last) {
      put(this.said, by > 0 ? "No rejection comes after this one." : "No rejection comes before this one.");
      return;
    }
    const found = await this.pages.get(index, this.last).then((page) => this.failed(page), () => []);
    await this.go(index, found.length ? (by > 0 ? found[0] : found.at(-1)) : -1); // which says what cannot be fetched
  }

  failed(page) {
    return page.moments.flatMap((moment, k) =>
      moment.phase === PHASE.ACCEPT && page.states[k].get(moment.at)?.mark === "rejected" ? [k] : []);
  }

  // To a place that came from outside, as soon as the run is there.
  visit(place) {
    return this.ready.then(() => {
      if (!this.page || this.gone) return undefined;
      this.stop();
      return this.goto(place);
    });
  }

  // `r3`, `r3/n14`, `q1/r3/closing`, as other pages and the terminal write a place.
  async goto(place) {
    const match = /^((?:q\d+\/)?r\d+)(?:\/(root|closing|n\d+))?$/.exec(place);
    const index = match ? this.head.points.findIndex((point) => point.place === match[1]) : -1;
    if (index < 0) {
      await this.go(0, this.still ? -1 : 0);
      return;
    }
    const named = match[2];
    const node = !named ? null : named === "root" ? ROOT : named === "closing" ? CLOSING : Number(named.slice(1));
    await this.go(index, -1, false, node);
  }

  get place() {
    const name = { [ROOT]: "root", [CLOSING]: "closing" }[this.chosen] ?? `n${this.chosen}`;
    return this.head.points[this.index].place + (this.chosen === null ? "" : `/${name}`);
  }

  tell() {
    clearTimeout(this.telling);
    if (!this.playing) this.telling = setTimeout(() => this.options.onPlace?.(this.place), 350);
  }

  choose(id) {
    this.stop();
    this.chosen = id;
    this.draw(false, { page: this.page, k: this.k });
    this.tell();
  }

  // Playing --------------------------------------------------------------------------------------------------------

  get ms() {
    return DWELL[this.page.moments[this.k].phase] / this.speed;
  }

  toggle() {
    if (this.playing) this.stop();
    else this.start();
  }

  async start() {
    if (!this.page || this.playing) return;
    const over = this.index === this.last && this.k === this.page.moments.length - 1;
    this.playing = true;
    clearTimeout(this.telling);
    this.chosen = null;
    if (over) await this.go(0, this.still ? -1 : 0);
    this.since = performance.now();
    this.draw(false, { page: this.page, k: this.k });
    requestAnimationFrame(this.frame);
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.time.show(this.index, this.k, this.page.moments.length, false);
    this.said.setAttribute("aria-live", "polite");
    this.tell();
  }

  setSpeed(speed) {
    this.speed = speed;
  }

  tick(time) {
    if (!this.playing || this.gone) return;
    const due = this.still ? STILL / this.speed : this.ms;
    if (time - this.since >= due) {
      this.since = time + 1e7; // until the next moment is there
      if (!this.still) this.step(1, false);
      else if (this.index < this.last) this.go(this.index + 1, -1);
      else this.stop();
    }
    requestAnimationFrame(this.frame);
  }

  // The run as one file, where there is somebody to make it; a long one takes a while.
  async save(made) {
    made.disabled = true;
    put(this.problem, "");
    try {
      const address = URL.createObjectURL(await this.options.save());
      el("a", { href: address, download: `${this.head.name}.html` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
    } catch (error) {
      put(this.problem, `The file cannot be made: ${error.message}`);
    }
    made.disabled = false;
  }

  // Painting -------------------------------------------------------------------------------------------------------

  draw(motion, from) {
    const { page, k } = this;
    const moment = page.moments[k], { ms } = this;
    this.box.style.setProperty("--ms", motion ? `${Math.min(420, ms * 0.45)}ms` : "0ms");
    this.said.setAttribute("aria-live", this.playing && this.speed > 1 ? "off" : "polite");
    const leaves = motion && moment.phase === PHASE.COMMIT && from.page === page ? lift(this) : [];
    if (this.tree.page !== page) this.tree.setRound(page, motion && from.page?.index !== page.index, ms);
    const shown = this.chosen ?? moment.at;
    this.tree.paint(k, motion, ms, shown, this.head.marks);
    this.talk.show(this.index, page, k, motion);
    if (leaves.length) fly(this, leaves, ms);
    this.why.show(page, k, shown, this.chosen !== null, this.head.marks);
    this.scale.show(page, k, motion, ms, this.head.marks);
    this.knobs.show(page);
    this.time.show(this.index, k, page.moments.length, this.moving);
    put(this.said, moment.say);
    this.said.title = moment.say;
    put(this.counts, moment.counts);
    this.phases.setAttribute("aria-label", moment.label);
    for (const item of this.phases.children) {
      const n = Number(item.dataset.phase);
      item.classList.toggle("on", n === moment.phase);
      item.classList.toggle("past", n < moment.phase);
    }
    this.box.dataset.phase = moment.phase;
  }

  // Keys -----------------------------------------------------------------------------------------------------------

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.help.open) return;
    const from = event.composedPath()[0];
    if (from.closest?.(TAKES_KEYS) && !from.closest(".stage [role=slider]")) return;
    if ((event.key === " " || event.key === "Enter") && from.matches?.("button, summary, a")) return;
    const deed = KEYS[event.key];
    if (!deed || !this.head) return;
    event.preventDefault();
    deed(this);
  }

  end() {
    this.gone = true;
    this.playing = false;
    clearTimeout(this.telling);
    document.removeEventListener("keydown", this.keys);
    this.darkness.removeEventListener("change", this.darken);
    this.around.remove();
  }
}
