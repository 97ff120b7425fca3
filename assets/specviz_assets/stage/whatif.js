// What if: a recorded round decided again by the server, with another verifier, other uniforms or less of the draft.
// What stands in the picture meanwhile says so, and one button puts it back.

import { el, put } from "./dom.js";
import { indexed } from "./pages.js";
import { Stage } from "./stage.js";
import { WhatIfRow } from "./whatifrow.js";

const SOON_MS = 90; // a slider that moves is not asked about at every pixel
// A slider that is moved back to where it began restores the recording, wherever its steps fall.
const same = (value, own, step) => value === own
  || (typeof value === "number" && typeof own === "number" && Math.abs(value - own) < step * 0.5001);

// `options.whatIf(question)`: a promise of the answer; a question that changes nothing is answered by what may change.
export class WhatIfStage extends Stage {
  build() {
    this.change = { verifier: null, knobs: {}, uniforms: {} };
    this.wished = 0;
    super.build();
    this.iffWords = el("p", { class: "words" });
    this.iffSure = el("span", { class: "sure" });
    this.iff = el("section", { class: "iff", role: "status", "aria-label": "what if", hidden: true },
      el("b", { class: "label", text: "WHAT IF" }), this.iffWords, this.iffSure,
      el("button", { type: "button", class: "putback", text: "put it back", onclick: () => this.putBack() }));
    this.box.querySelector(".middle").prepend(this.iff);
    this.uNow = el("output", {});
    this.uSlide = el("input", { type: "range", min: 0, max: 0.999, step: 0.001, "aria-label": "what if u were", oninput: () => this.drawAgain() });
    this.uBox = el("label", { class: "udraw", hidden: true }, el("span", { text: "what if u were" }), this.uSlide, this.uNow);
    this.why.box.append(this.uBox);
  }

  knobRow() {
    return new WhatIfRow((name, value) => this.alter("knobs", name, value), (verifier) => this.rule(verifier));
  }

  get changed() {
    const { verifier, knobs, uniforms } = this.change;
    return Boolean(verifier) || Object.keys(knobs).length > 0 || Object.keys(uniforms).length > 0;
  }

  async begin() {
    await super.begin();
    if (this.page) await this.decide();
  }

  // Moving: a change stays while rounds are gone through, but for what is drawn at a node of one of them.
  async go(index, k, motion = false, chosen = null) {
    if (index !== this.index) this.change.uniforms = {};
    const asks = this.changed;
    await super.go(index, asks ? -1 : k, motion && !asks, chosen);
    if (!this.page?.again) this.recorded = this.page; // a round that cannot be fetched leaves the one that is seen
    if (asks) await this.decide();
    else if (!this.playing) this.askSoon(200);
  }

  step(by, hold = true) {
    return this.changed ? this.round(by) : super.step(by, hold);
  }

  // Esc lets go of the node first, then of the change.
  choose(id) {
    if (id === null && this.chosen === null && this.changed) this.putBack();
    else super.choose(id);
  }

  start() {
    if (this.changed) this.putBack();
    return super.start();
  }

  stop() {
    const played = this.playing;
    super.stop();
    if (played) this.askSoon(200);
  }

  // Asking ----------------------------------------------------------------------------------------------------------

  rule(verifier) {
    this.keepTo(false);
    this.change.verifier = verifier === this.answer?.own ? null : verifier;
    const cuts = new Set((this.own?.knobs ?? []).filter((way) => way.cuts).map(({ knob }) => knob.name));
    for (const name of Object.keys(this.change.knobs)) if (!cuts.has(name)) delete this.change.knobs[name]; // of another rule
    this.ask();
  }

  alter(what, name, value) {
    const knob = what === "knobs" ? this.own?.knobs.find((way) => way.knob.name === name) : undefined;
    const own = what === "knobs" ? knob?.knob.value : this.own?.draws[name], step = knob ? knob.knob.step ?? 1 : 0.001;
    this.keepTo(knob?.alone ?? false);
    if (same(value, own, step)) delete this.change[what][name];
    else this.change[what][name] = value;
    this.ask();
  }

  // What is replayed from the text is asked with nothing else changed.
  keepTo(alone) {
    const { change } = this;
    const others = (this.own?.knobs ?? []).filter((way) => Boolean(way.alone) !== alone).map(({ knob }) => knob.name);
    for (const name of others) delete change.knobs[name];
    if (alone) Object.assign(change, { verifier: null, uniforms: {} });
  }

  drawAgain() {
    const node = this.uBox.dataset.node;
    put(this.uNow, Number(this.uSlide.value).toFixed(3));
    this.chosen = Number(node);
    this.alter("uniforms", node, Number(this.uSlide.value));
  }

  // An answer that is on its way is about what was asked before: it would put the slider back under the hand.
  ask() {
    this.touched();
    this.stop();
    this.wished += 1;
    this.askSoon(SOON_MS);
  }

  askSoon(ms) {
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.decide(), ms);
  }

  async decide() {
    const wish = (this.wished += 1), { index } = this;
    let answer;
    try {
      answer = await this.options.whatIf({ round: index, ...this.change });
    } catch (error) {
      if (wish === this.wished && !this.gone) this.refused(error.message);
      return; // where nothing can be asked, nothing can be moved
    }
    if (wish !== this.wished || this.gone || index !== this.index) return;
    if (!this.changed) this.own = answer;
    this.answer = answer;
    this.answered = index;
    this.knobs.offer(answer, this.changed);
    this.paintAgain(answer);
  }

  // The round as it would have ended; as it did, where that cannot be told.
  paintAgain(answer) {
    const was = this.page;
    if (this.changed && answer.round) {
      this.page = Object.assign(indexed(answer.round), { again: true });
      this.k = 0;
    } else if (this.recorded && (this.changed || this.page?.again)) {
      this.page = this.recorded;
      this.k = this.page.moments.length - 1;
    }
    put(this.iffWords, answer.sentence ?? "");
    put(this.iffSure, this.changed ? [answer.decided ? "exact" : "cannot be told", answer.warns && `⚠ ${answer.warns}`].filter(Boolean).join(" · ") : "");
    this.iff.classList.toggle("lossy", Boolean(answer.warns));
    this.iffSure.dataset.sure = answer.decided ? "exact" : "";
    if (this.page && (this.page !== was || !this.playing)) this.draw(false, { page: this.page, k: this.k });
  }

  refused(words) {
    if (!this.changed) return;
    put(this.iffWords, `Cannot be asked: ${words}`);
    put(this.iffSure, "");
    this.iff.hidden = false;
    this.box.classList.add("asks");
  }

  // What somebody else changed, as if it had been moved here.
  adopt(change) {
    if (JSON.stringify(change) === JSON.stringify(this.changed ? this.change : null)) return;
    if (!change) this.putBack();
    else {
      this.change = structuredClone(change);
      this.askSoon(0);
    }
  }

  putBack() {
    this.change = { verifier: null, knobs: {}, uniforms: {} };
    this.wished += 1;
    this.page = this.recorded ?? this.page;
    this.k = this.page.moments.length - 1;
    this.draw(false, { page: this.page, k: this.k });
    this.askSoon(0);
  }

  // Painting --------------------------------------------------------------------------------------------------------

  draw(motion, from) {
    super.draw(motion, from);
    const { changed } = this;
    this.iff.hidden = !changed;
    this.box.classList.toggle("asks", changed);
    if (changed) put(this.time.label, `${this.time.placed(this.index)} · what if`);
    const shown = this.chosen ?? this.page.moments[this.k].selected, u = this.answered === this.index ? this.answer.draws?.[shown] : undefined;
    this.uBox.hidden = u === undefined || this.playing;
    this.uBox.dataset.node = shown;
    if (u === undefined || this.root.getRootNode().activeElement === this.uSlide) return;
    this.uSlide.value = u;
    put(this.uNow, Number(u).toFixed(3));
  }

  end() {
    clearTimeout(this.asking);
    super.end();
  }
}
