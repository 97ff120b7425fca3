// The knobs of a recording: as they were in force, and those that a round may be decided again with.

import { el, put } from "./dom.js";
import { KnobRow } from "./inspect.js";
import { Knob } from "./steer.js";

export class WhatIfRow extends KnobRow {
  // `move(name, value)`: a knob is to be another; `rule(name)`: the verifier is.
  constructor(move, rule) {
    super();
    Object.assign(this, { move, rule });
    this.moving = new Map();
    this.verifier = el("select", { "aria-label": "verifier", onchange: () => this.rule(this.verifier.value) });
    this.rules = el("label", { class: "knob moves choice", title: "another verifier decides the same draft, as what if" },
      el("span", { class: "name", text: "verifier" }), this.verifier);
    this.moves = el("span", { class: "can" });
    this.list.before(el("div", { class: "list steer whatif" }, this.moves));
    this.lacks = el("p", { class: "dim lacks" });
    this.box.append(this.lacks);
  }

  // What may be moved here, and where it stands.
  offer(answer, changed) {
    const { verifiers, verifier, own } = answer;
    const lossy = new Set(answer.lossy ?? []);
    const words = (name) => `${name}${lossy.has(name) ? " ⚠ not lossless" : ""}${name === own ? " (as recorded)" : ""}`;
    put(this.lacks, answer.missing ?? "");
    this.lacks.title = answer.missing ?? "";
    if (this.known !== `${own} ${verifiers}`) {
      this.known = `${own} ${verifiers}`;
      this.verifier.replaceChildren(...verifiers.map((name) => el("option", { value: name, text: words(name) })));
    }
    this.verifier.value = verifier;
    this.verifier.disabled = verifiers.length < 2;
    this.rules.classList.toggle("sent", verifier !== own);
    this.box.classList.toggle("asks", changed);
    for (const { knob } of answer.knobs) this.made(knob).hear({ text: knob.text, value: knob.value }, true);
    const boxes = [this.rules, ...answer.knobs.map(({ knob }) => this.moving.get(knob.name).box)];
    // What is being dragged is lost when it is put in again.
    if (boxes.length !== this.moves.children.length || boxes.some((box, n) => box !== this.moves.children[n])) this.moves.replaceChildren(...boxes);
    this.names = new Set(answer.knobs.map(({ knob }) => knob.name));
    this.hide();
  }

  // One control a knob; made anew where its range is another one in this round.
  made(knob) {
    const key = [knob.moves, knob.lo, knob.hi, knob.step].join();
    const held = this.moving.get(knob.name);
    if (held?.key === key) return held;
    const control = new Knob(knob, this.move);
    control.key = key;
    if (control.kind === "slide") {
      control.input.addEventListener("input", () => this.move(knob.name, Number(control.input.value)));
    }
    this.moving.set(knob.name, control);
    return control;
  }

  show(page) {
    super.show(page);
    this.hide();
  }

  // What can be moved stands once.
  hide() {
    this.chips?.forEach(({ chip }, n) => {
      if (this.names?.has(this.looks[n].name)) chip.hidden = true;
    });
  }
}
