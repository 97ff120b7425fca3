// The stage: one picture of a run that plays. It places and moves; marks, words and numbers are those it is given.

import { PHASE, el, put } from "./dom.js";
import { KEYS } from "./keys.js";
import { Moves } from "./moves.js";
import { Pages } from "./pages.js";

// How long a moment is looked at, in ms at 1×.
const DWELL = { [PHASE.ROOT]: 650, [PHASE.DRAFT]: 620, [PHASE.VERIFY]: 1500, [PHASE.ACCEPT]: 1450, [PHASE.CLOSE]: 1700, [PHASE.COMMIT]: 1700 };
const STILL = 1800; // a round, for who wants no motion
// What has keys of its own, here or on the page around.
const TAKES_KEYS = "input, textarea, select, dialog, [contenteditable=true], [role=slider], [role=listbox], [role=combobox], [role=menu]";
const SLIDES = "input[type=range], input[type=checkbox]", SLIDING = /^(Arrow|Home|End|Page| )/; // these of them alone

// `source`: `head()` and `round(index)`, both promises. `options`: `at`, `play`, `theme`, `alone` (nothing else on the
// page), `bare` (one round, without a bar or keys of its own), `save()` and `share(query)` (promises of files), `onPlace(place)` when a place was come to and stayed at,
// `onDraw()` when a moment was painted, `onTouched()` before what a person does; `room`, for pages that look together.
export class Stage extends Moves {
  constructor(root, source, options = {}) {
    super();
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
    if (!options.bare) document.addEventListener("keydown", this.keys);
    this.darken = () => this.paintTheme();
    this.darkness.addEventListener("change", this.darken);
    this.ready = this.begin();
  }

  async begin() {
    try {
      this.head = await this.source.head();
      if (this.head.version !== 3) throw new Error("made by another version of specviz");
      this.lay(this.head);
      if (!this.head.points.length) throw new Error((this.head.notices ?? [])[0] ?? "this run has no round");
      await this.goto(this.options.at ?? "");
      if (this.options.play && !this.options.at) this.start();
      if (!this.options.bare) this.readAll();
    } catch (error) {
      put(this.problem, `The run cannot be shown: ${error.message}`);
    }
  }

  // Whether the picture goes on by itself.
  get moving() {
    return this.playing;
  }

  get still() {
    return this.quiet.matches;
  }

  get ms() {
    return DWELL[this.page.moments[this.k].phase] / this.speed;
  }

  toggle() {
    this.touched();
    if (this.playing) this.stop();
    else this.start();
  }

  async start() {
    if (!this.page || this.playing) return;
    const over = this.index === this.last && this.k === this.page.moments.length - 1;
    this.playing = true;
    this.untell();
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
    this.options.onDraw?.();
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

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.help.open) return;
    const from = event.composedPath()[0];
    const slides = from.matches?.(SLIDES) && !SLIDING.test(event.key);
    if (from.closest?.(TAKES_KEYS) && !from.closest(".stage [role=slider]") && !slides) return;
    if ((event.key === " " || event.key === "Enter") && from.matches?.("button, summary, a")) return;
    const deed = KEYS[event.key];
    if (!deed || !this.head) return;
    event.preventDefault();
    deed(this);
  }

  end() {
    this.gone = true;
    this.playing = false;
    this.untell();
    document.removeEventListener("keydown", this.keys);
    this.darkness.removeEventListener("change", this.darken);
    this.around.remove();
  }
}
