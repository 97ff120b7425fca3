// A lesson beside the picture: what is said, what is to be done or answered, and the marks of whoever answers. All of it
// is in the script (`specviz/view/lessons/parts.py`); only whether an answer lies in a range is found out here.

import { el, fill, put } from "./dom.js";
import { rowsOf } from "./inspect.js";

// The first range that holds an answer judges it.
export function judged(question, answer) {
  const own = question.answers.find(({ lo, hi }) => lo <= answer && answer <= hi);
  return own ? { right: own.right ?? false, words: own.words } : { right: false, words: question.otherwise };
}

const AS_TYPED = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

// A number as people type it: `.7`, `0,7`, `70%`, `7/10`; null for anything else.
export function readNumber(text) {
  const plain = text.trim().replaceAll(",", ".").replaceAll(" ", "");
  const [above, below, ...more] = plain.replace(/%$/, "").split("/");
  if (more.length || ![above, below ?? "1"].every((part) => AS_TYPED.test(part))) return null;
  const value = (Number(above) / Number(below ?? 1)) * (plain.endsWith("%") ? 0.01 : 1);
  return Math.abs(value) < 1e9 ? value : null;
}

// What may be asked for (`specviz/view/lessons/deeds.py`): the acts of a person that count, and the same by a button.
export const DEEDS = {
  "first moment": { acts: ["first"], words: "to the very beginning", go: (stage) => stage.first() },
  "next step": { acts: ["step 1"], words: "next step", go: (stage) => stage.step(1) },
  "next phase": { acts: ["step 1"], words: "next phase", go: (stage) => stage.phase(1) },
  "next round": { acts: ["round 1"], words: "next round", go: (stage) => stage.round(1) },
  "next rejection": { acts: ["rejection 1"], words: "next rejection", go: (stage) => stage.rejection(1) },
  "look at nodes": { acts: ["choose"] },
};

// Whether a step waits for something; one that does not waits for the button that leads on.
const awaits = (until) => Boolean(until && (until.did || until.phase || until.round));

// Whether a person did what a step asks. `now`: the round and phase on screen, and the acts since the step began.
export function isDone({ question, until }, { round, phase, acts }) {
  if (question || !awaits(until) || !acts.size) return false;
  const did = !until.did || DEEDS[until.did]?.acts.some((act) => acts.has(act));
  return Boolean(did) && phase >= (until.phase ?? 0) && round >= (until.round ?? 0);
}

const TURNS = { n: (lesson) => lesson.go(lesson.at + 1), PageDown: (lesson) => lesson.go(lesson.at + 1), b: (lesson) => lesson.go(lesson.at - 1),
  PageUp: (lesson) => lesson.go(lesson.at - 1), a: (lesson) => lesson.reveal() };
const ASKED = { choice: "askChoice", number: "askNumber", place: "askPlace", slider: "askSlider" };
const IN_TEXT = "input:not([type=range]), textarea, select, dialog";
const ofWords = (event) => event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || event.composedPath()[0].matches?.(IN_TEXT);
// Broken between its words alone: behind the hyphen of an option it would read as two.
const command = (line) => el("code", {}, ...line.split(/( )/).map((text) => (text === " " ? text : el("span", { text }))));
const pressed = (text, onclick, kind = "") => el("button", { type: "button", class: kind, text, onclick });

// `options`: `teach` (answers wait for a key), `next` (an address, or what leads on), `title` of that one, `leave()`,
// `onStep(step, shown)`, `follows()` whether another page leads this one.
export class Lesson {
  constructor(stage, script, options = {}) {
    Object.assign(this, { stage, script, options, at: -1, acts: new Set(), marks: {} });
    this.steps = script.steps;
    this.where = el("p", { class: "where" });
    this.body = el("div", { class: "body", tabindex: 0 });
    this.back = pressed("‹ back", () => this.go(this.at - 1), "back");
    this.next = pressed("next ›", () => this.go(this.at + 1), "next");
    this.back.title = "step before (b)";
    this.next.title = "next step (n)";
    this.bar = el("div", { class: "nav" }, this.back, this.next);
    this.box = el("section", { class: "lesson", "aria-label": `lesson: ${script.title}` }, this.where, this.body, this.bar);
    stage.box.querySelector("header").after(this.box);
    stage.box.classList.add("teaches");
    stage.box.classList.toggle("teacher", Boolean(options.teach));
    this.press = (event) => this.key(event);
    this.types = (event) => this.typed(event);
    document.addEventListener("keydown", this.press);
    document.addEventListener("keydown", this.types, true);
    stage.ready.then(() => this.begin());
  }

  begin() {
    if (!this.stage.page || this.stage.gone) return undefined;
    const kept = this.kept();
    this.marks = kept.marks ?? {};
    return this.go(Math.min(kept.step ?? 0, this.steps.length - 1));
  }

  // Going ----------------------------------------------------------------------------------------------------------

  // To a step; behind the last one stands the end.
  async go(k) {
    const to = Math.max(0, Math.min(this.steps.length, k));
    if (to === this.at) return;
    const on = to === this.at + 1;
    this.putBack();
    this.at = to;
    this.acts.clear();
    this.answer = null;
    this.solved = this.shown = false;
    this.paint();
    this.keep();
    this.options.onStep?.(to, false);
    await this.place(on);
    this.mark();
  }

  // Where the picture stands at the beginning of this step; one that goes on from the last stays where that led.
  async place(on) {
    const start = (step) => step?.at ?? step?.question?.before, own = start(this.step);
    if (own || on) return own && this.show(own);
    for (let k = this.at - 1; k >= 0; k -= 1) {
      const there = this.steps[k].question?.after ?? start(this.steps[k]);
      if (there) return this.show(there);
    }
    return this.show({ index: 0 });
  }

  show({ index, k = 0, node = -1 }) {
    this.stage.stop();
    return this.stage.go(index, k, false, node === -1 ? null : node);
  }

  get step() {
    return this.steps[this.at];
  }

  get question() {
    return this.step?.question;
  }

  // A place is asked for: a node that is clicked is no wish to go elsewhere.
  get asksPlace() {
    return this.question?.kind === "place" && !this.solved;
  }

  // What a person did with the picture.
  did(act, node = null) {
    if (!act) return;
    this.acts.add(act);
    if (act === "choose" && this.asksPlace && node !== null) this.point(node);
  }

  // The picture was painted.
  drew() {
    if (this.painting || !this.step) return;
    const { stage } = this;
    if (this.over && stage.page !== this.over) this.over = null; // it went elsewhere
    this.mark();
    const { moments } = stage.page, { phase } = moments[stage.k], whole = moments[stage.k + 1]?.phase !== phase; // a draft that still grows is none
    const round = Number(/\d+$/.exec(stage.head.points[stage.index].place)?.[0] ?? 0);
    if (isDone(this.step, { round, phase: whole ? phase : phase - 1, acts: this.acts })) this.go(this.at + 1);
  }

  // A number that is asked for is written wherever one is: what a figure does elsewhere waits.
  typed(event) {
    if (this.question?.kind !== "number" || this.solved || !/^[\d.]$/.test(event.key) || ofWords(event)) return;
    event.stopPropagation();
    this.field.focus();
  }

  key(event) {
    if (ofWords(event)) return;
    const deed = TURNS[event.key];
    if (!deed) return;
    event.preventDefault();
    deed(this);
  }

  // Painting -------------------------------------------------------------------------------------------------------

  paint() {
    const { script, steps, at, step } = this;
    put(this.where, `Lesson ${script.number} · ${script.title} · ${step ? `${at + 1} of ${steps.length}` : "done"}`);
    this.board = el("div", { class: "board" });
    this.verdict = el("div", { class: "verdict", "aria-live": "polite" });
    if (step) fill(this.body, el("p", { class: "say", text: step.say }), this.deed(step), this.board, ...this.asking(), this.verdict,
      step.command ? el("p", { class: "command" }, "Now in your own run, in a terminal: ", command(step.command)) : null);
    else fill(this.body, ...this.end());
    this.rows(step?.board);
    this.body.scrollTop = 0;
    this.back.disabled = at === 0;
    this.stage.box.classList.toggle("quizzes", Boolean(this.question));
    this.next.hidden = !step;
    this.paintNext();
    const tree = this.stage.tree, value = step?.value || this.question?.value || "";
    if (tree.value !== value) {
      tree.value = value;
      tree.remade();
    }
  }

  paintNext() {
    const waits = this.question ? !this.solved : awaits(this.step?.until);
    put(this.next, waits ? "skip ›" : this.at === this.steps.length - 1 ? "finish ›" : "next ›");
    this.next.classList.toggle("main", !waits);
  }

  deed(step) {
    if (!step.do) return null;
    const own = DEEDS[step.do.name];
    return el("p", { class: "do" }, el("span", { text: step.do.browser }), own?.go ? pressed(own.words, () => own.go(this.stage), "main") : null);
  }

  rows(board) {
    this.board.hidden = !board;
    if (board) fill(this.board, board.title ? el("h3", { text: board.title }) : null, rowsOf(board.rows ?? []));
  }

  // Asking ---------------------------------------------------------------------------------------------------------

  asking() {
    const { question } = this;
    if (!question) return [];
    this.choices = [];
    return [el("p", { class: "question", text: question.text }), this[ASKED[question.kind]](question)];
  }

  askChoice({ choices }) {
    this.choices = choices.map((words, k) => pressed(words, () => this.take(k), "choice"));
    return el("div", { class: "choices" }, ...this.choices);
  }

  askNumber({ unit }) {
    const box = el("input", { type: "text", inputmode: "decimal", autocomplete: "off", "aria-label": "your answer", size: 7 });
    const answer = () => {
      const value = readNumber(box.value);
      if (value === null) this.say(el("p", { class: "wrong", text: "A number is asked for, such as 3, .25 or 1/4." }));
      else this.take(value);
      box.select(); // another one is written over it
    };
    this.field = box;
    box.onkeydown = (event) => (event.key === "Enter" ? answer() : undefined);
    return el("p", { class: "reply" }, box, unit ? el("span", { text: unit }) : null, pressed("answer", answer, "main"));
  }

  askPlace() {
    this.pointed = el("b", {});
    this.sure = pressed("answer", () => this.take(this.node), "main");
    this.sure.hidden = true;
    return el("p", { class: "reply" }, el("span", { text: "Choose it in the picture. " }), this.pointed, this.sure);
  }

  point(node) {
    this.node = node;
    put(this.pointed, this.stage.page.places.get(node)?.shown ?? "");
    this.sure.hidden = false;
  }

  // A slider's places move the picture itself, by what each says of it.
  askSlider({ stops, start = 0, name }) {
    const words = el("p", { class: "stop", role: "status" }), label = el("output", {});
    const slide = el("input", { type: "range", min: 0, max: stops.length - 1, step: 1, "aria-label": name || "place" });
    slide.value = start;
    const move = () => {
      const stop = stops[Number(slide.value)];
      slide.setAttribute("aria-valuetext", stop.label);
      put(label, stop.label);
      put(words, stop.words);
      if (stop.rows?.length) this.rows({ title: this.step.board?.title, rows: stop.rows });
      this.over = null;
      this.layOver(stop.marks ?? {}, stop.words);
    };
    slide.oninput = move;
    this.slideTo = (k) => {
      slide.value = k;
      move();
    };
    queueMicrotask(move);
    return el("div", { class: "slides" }, el("label", {}, el("span", { text: name ?? "" }), slide, label), words,
      pressed("answer", () => this.take(Number(slide.value)), "main"));
  }

  // The moment with other ends of its nodes; what is recorded stays what it is, and its reasons are not of these.
  layOver(marks, words) {
    const { stage } = this, ids = Object.keys(marks);
    this.putBack();
    if (!stage.page || !ids.length) return;
    const now = new Map(stage.page.states[stage.k]);
    for (const id of ids.map(Number)) {
      if (now.has(id)) now.set(id, { ...now.get(id), mark: marks[id], winning: marks[id] === "accepted", note: "" });
    }
    this.own = stage.page;
    this.over = { ...stage.page, again: true, states: stage.page.states.with(stage.k, now) };
    this.repaint(this.over);
    stage.why.clear();
    put(stage.said, words);
    put(stage.counts, words);
  }

  putBack() {
    const { own, over, stage } = this;
    this.own = this.over = null;
    if (own && stage.page === over) this.repaint(own);
  }

  repaint(page) {
    this.painting = true;
    this.stage.page = this.stage.tree.page = page;
    this.stage.draw(false, { page, k: this.stage.k });
    this.painting = false;
  }

  // The nodes that are asked about are framed.
  mark() {
    const asked = new Set(this.asksPlace ? this.question.places : []);
    for (const [id, group] of this.stage.tree.groups ?? []) group.classList.toggle("asked", asked.has(id));
    const { stage } = this;
    const named = stage.page.nodes.filter((node) => this.step?.see?.includes(node.shown)).map((node) => node.id);
    stage.tree.focus = asked.size ? [...asked] : named;
    stage.box.classList.toggle("points", asked.size > 0 && stage.page.n_rows > 2);
    stage.tree.look(false);
  }

  // Answers --------------------------------------------------------------------------------------------------------

  get hides() {
    return !this.shown && (this.options.teach || this.options.follows?.());
  }

  take(answer) {
    this.answer = answer;
    const own = this.noted(), { right } = judged(this.question, answer);
    own.answers.push(this.worded(answer));
    own.right ||= right;
    own.first ??= right;
    this.keep();
    this.choices.forEach((each, k) => each.classList.toggle("taken", k === answer));
    if (this.hides) this.say(el("p", { text: "Taken. The answer comes when all have answered." }), this.options.teach ? this.shower() : null);
    else this.judge();
  }

  judge() {
    const { question, answer } = this, { right, words } = judged(question, answer);
    if (right) return this.solve(words);
    this.choices[answer]?.classList.add("wrong");
    return this.say(el("p", { class: "wrong", text: `✗ ${words}` }), this.shower());
  }

  // What is said of an answer is seen, however long the step is.
  say(...words) {
    fill(this.verdict, ...words);
    this.verdict.scrollIntoView({ block: "nearest" });
  }

  shower() {
    return pressed("show the answer", () => this.reveal());
  }

  // The answer, by a key or a button: whoever asked for it has not found it.
  reveal() {
    if (!this.question || this.solved) return undefined;
    const own = this.noted();
    if (!own.right) own.shown = true;
    this.shown = true;
    this.keep();
    this.options.onStep?.(this.at, true);
    return this.answer === null ? this.solve(null) : judged(this.question, this.answer).right ? this.judge() : this.solve(null);
  }

  async solve(words) {
    const { question } = this;
    this.solved = true;
    this.stage.box.classList.remove("quizzes");
    const wrong = this.answer !== null && words === null ? judged(question, this.answer).words : "";
    const reason = question.reason && question.reason !== words ? question.reason : "";
    fill(this.verdict, wrong ? el("p", { class: "wrong", text: `✗ ${wrong}` }) : null,
      el("p", { class: "right", text: words === null ? `The answer: ${question.shown}.` : `✓ ${words}` }), reason ? el("p", { text: reason }) : null);
    const stop = (question.stops ?? []).findIndex((_, k) => judged(question, k).right);
    if (stop >= 0 && (this.answer === null || words === null)) this.slideTo(stop);
    this.choices.forEach((each, k) => {
      each.disabled = true;
      each.classList.toggle("right", judged(question, k).right);
    });
    this.paintNext();
    if (question.after) {
      this.putBack();
      await this.show(question.after);
    }
    this.mark();
    this.verdict.scrollIntoView({ block: "nearest" });
  }

  // Marks ----------------------------------------------------------------------------------------------------------

  noted() {
    return (this.marks[this.at] ??= { answers: [], right: false });
  }

  // An answer as whoever gave it saw it.
  worded(answer) {
    const { kind, choices, stops } = this.question;
    return kind === "choice" ? choices[answer] : kind === "slider" ? stops[answer].label
      : kind === "place" ? this.stage.page.places.get(answer)?.shown ?? "" : String(answer);
  }

  get asked() {
    return this.steps.flatMap(({ question }, k) => (question ? [{ k, question }] : []));
  }

  end() {
    const { asked } = this, first = asked.filter(({ k }) => this.marks[k]?.first && !this.marks[k].shown).length;
    const name = el("input", { type: "text", autocomplete: "off", "aria-label": "your name", placeholder: "your name" });
    const { next, title, leave } = this.options;
    const on = !next ? null : typeof next === "string" ? el("a", { class: "main", href: next, text: `next: ${title} ›` }) : pressed(`next: ${title} ›`, next, "main");
    const { can, then = [] } = this.script;
    return [el("p", { class: "say", text: `Done. ${first} of ${asked.length} right at the first try.` }),
      can ? el("p", { class: "question", text: `Can you say now ${can}?` }) : null,
      ...then.map((door) => el("p", { class: "command" }, `${door.say}: `, command(door.command))),
      el("p", { class: "reply" }, pressed("once more", () => this.again()), leave ? pressed("leave the lesson", leave) : null, on),
      el("p", { class: "reply" }, el("span", { text: "For a teacher:" }), name, pressed("marks as a file", () => this.download(name.value)))];
  }

  again() {
    this.marks = {};
    return this.go(0);
  }

  // What was answered, as a file for the teacher, such as the terminal writes.
  download(name) {
    const { id, title } = this.script, { asked } = this;
    const marks = asked.filter(({ k }) => this.marks[k]).map(({ k, question }) => {
      const { answers, first = false, shown = false } = this.marks[k];
      return { step: k + 1, question: question.text, answers, first_right: first && !shown, passed: shown };
    });
    const text = JSON.stringify({ lessons: { [id]: { title, asked: asked.length, name, marks } } }, null, 1);
    const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    el("a", { href: address, download: `marks-${id}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  }

  get place_kept() {
    return `specviz.lesson.${this.script.id}`;
  }

  kept() {
    try {
      return JSON.parse(localStorage.getItem(this.place_kept)) ?? {};
    } catch {
      return {}; // a page inside another one has no place of its own
    }
  }

  keep() {
    try {
      localStorage.setItem(this.place_kept, JSON.stringify({ step: this.at < this.steps.length ? this.at : 0, marks: this.marks }));
    } catch {
      // nothing is kept then
    }
  }

  // Another page leads this one: to its step, and to the answer when that is shown there.
  async follow({ step, shown }) {
    await this.go(step);
    if (shown) this.reveal();
  }

  leave() {
    document.removeEventListener("keydown", this.press);
    document.removeEventListener("keydown", this.types, true);
    this.putBack();
    Object.assign(this.stage.tree, { value: "", focus: null });
    this.stage.box.classList.remove("teaches", "teacher", "quizzes");
    this.box.remove();
  }
}
