// The knobs of a run that goes on, below its tree: moved, requested, in force from a round on, and what that did.

import { el, put } from "./dom.js";
import { lacks } from "./inspect.js";

const AGAIN_MS = 4000;
const HEARD_MS = 1500; // within which a frame tells of what was asked

export class Steer {
  // `both()`: decode the same prompt with what was moved as it was, and as it is; null where nobody may.
  constructor(ask, both = null) {
    this.ask = ask;
    this.both = el("button", { type: "button", class: "both", hidden: true, onclick: () => this.pressed(both) });
    this.mayBoth = Boolean(both);
    this.list = el("div", { class: "list steer" });
    this.rest = el("div", { class: "list" });
    this.absent = el("p", { class: "dim" });
    this.more = el("details", { class: "more" }, el("summary", { text: "more knobs" }), this.rest, this.absent);
    this.last = el("p", { class: "dim last", role: "status" });
    this.box = el("section", { class: "knobs", "aria-label": "knobs" }, el("div", { class: "turns", tabindex: 0 }, this.list, this.more), el("div", { class: "effect" }, this.last, this.both));
  }

  // What steers the method stands first; what shapes the text, and what is fixed while a run lasts, folded away.
  setHead(head) {
    this.made = head.knobs.map((knob) => new Knob(knob, this.ask));
    const first = this.made.filter((each) => each.first);
    this.list.replaceChildren(...first.map((control) => control.box));
    this.rest.replaceChildren(...this.made.filter((each) => !each.first).map((each) => each.box));
    lacks(this.absent, head);
  }

  pressed(both) {
    this.both.hidden = true;
    setTimeout(() => { this.ab = null; }, AGAIN_MS); // nothing came of it: the next frame offers it again
    both();
  }

  // `ab`: what would be decoded, in words; "": nothing was moved.
  hear(now, running, ab) {
    if (ab !== this.ab) {
      this.ab = ab;
      put(this.both, ab);
      this.both.title = `${ab}: decodes the prompt twice at full speed, with one seed, and lays both side by side; a run in hand ends`;
      this.both.hidden = !(ab && this.mayBoth);
    }
    now.knobs.forEach((knob, n) => {
      const control = this.made?.[n];
      control?.hear(knob, running);
      const to = control?.first && !knob.idle ? this.list : this.rest;
      if (control && control.box.parentNode !== to) to.append(control.box);
    });
    this.more.hidden = !this.rest.childElementCount;
    put(this.last, now.last ?? "");
    this.last.title = now.last ?? "";
  }

  show() {
    // The knobs of a run that goes on are those of now, wherever the picture stands.
  }
}

export class Knob {
  // `look`: a knob as the frame has it.
  constructor(look, ask) {
    Object.assign(this, { look, ask });
    this.kind = look.moves ?? "";
    this.first = Boolean(this.kind) && look.applies !== "X" && (!look.changes_text || look.name === "temperature");
    this.value = el("b", {});
    this.state = el("span", { class: "asked" });
    this.input = this.kind ? this.make() : null;
    this.box = el("label", { class: `knob ${this.kind ? `moves ${this.kind}` : "fixed"}`, title: `${look.name}: ${look.help}; a change is taken at the ${look.applies_text}` },
      el("span", { class: "name", text: look.label }), this.input, this.value, this.state);
  }

  make() {
    const { kind, look } = this;
    const common = { "aria-label": `${look.label} ${look.name}`, onchange: () => this.moved() };
    if (kind === "switch") return el("input", { type: "checkbox", role: "switch", ...common });
    if (kind === "choice") return el("select", common, ...(look.choices ?? []).map((value) => el("option", { value, text: value })));
    const range = { min: look.lo, max: look.hi, step: kind === "slide" ? look.step ?? 1 : "any" };
    const input = el("input", { type: kind === "slide" ? "range" : "number", ...range, ...common });
    input.oninput = () => {
      this.held = true;
      if (kind === "slide") put(this.value, input.value);
    };
    return input;
  }

  moved() {
    this.held = false;
    const { kind, input } = this;
    const value = kind === "switch" ? input.checked : kind === "choice" ? input.value : Number(input.value);
    if ((kind === "number" || kind === "slide") && (input.value === "" || !input.checkValidity())) {
      put(this.state, input.validationMessage || "not a number");
      return;
    }
    put(this.state, "requested");
    this.box.classList.add("sent");
    this.asked = { value, until: performance.now() + HEARD_MS };
    this.ask(this.look.name, value);
  }

  hear(now, running) {
    const { input, kind, asked } = this;
    // A frame from before the core heard of it.
    const { sent_text: sent, staged_text: staged, disabled: off, since } = now;
    const value = now.staged ?? now.value, text = staged ?? now.text; // `staged`: chosen for the next run
    if (asked && !sent && !staged && String(value) !== String(asked.value) && performance.now() < asked.until) return;
    this.asked = null;
    put(this.state, staged ? "for the next run" : sent ? `requested ${sent}` : since ? `in force from ${since}` : "");
    this.box.classList.toggle("sent", Boolean(sent));
    this.box.classList.toggle("moved", Boolean(since || staged));
    this.box.classList.toggle("idle", Boolean(now.idle));
    if (off) this.state.title = off;
    if (!input) {
      put(this.value, text);
      return;
    }
    input.disabled = !running || Boolean(off);
    input.title = off ?? "";
    if (this.held || sent) return;
    if (kind === "switch") input.checked = Boolean(value);
    else if (String(input.value) !== String(value)) input.value = value;
    const standsFor = kind === "number" && Number.isNaN(Number(text)); // -1: "auto: 4"
    put(this.value, kind === "slide" || kind === "switch" || standsFor ? text : "");
  }
}
