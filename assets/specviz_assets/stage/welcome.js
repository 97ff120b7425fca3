// The first minute: what the picture shows, step by step, in a line above it; and the way to one's own machine.

import { button, el, put } from "./dom.js";

export function hereButton(offer, go) {
  return el("button", { type: "button", class: "here", text: "▶ Run it here", title: offer.help, disabled: !offer.able, onclick: go });
}

// `steps`: of each the `part` of the picture it is about, `title`, `words`, and maybe the `key` that goes on.
export class Welcome {
  constructor(stage, steps, offer, here, done) {
    Object.assign(this, { stage, steps, done, k: 0 });
    this.n = el("span", { class: "n" });
    this.title = el("b", {});
    this.words = el("span", {});
    this.next = el("button", { type: "button", class: "next", text: "next", onclick: () => this.go(this.k + 1) });
    this.run = offer ? hereButton(offer, here) : null;
    this.away = button("away", "put this away", () => this.put(), "✕");
    this.box = el("section", { class: "welcome", "aria-label": "welcome" }, this.n,
      el("p", { "aria-live": "polite" }, this.title, " ", this.words), this.next, this.run, this.away);
    this.press = (event) => {
      if (event.key === this.steps[this.k].key && !event.ctrlKey && !event.metaKey && !event.altKey) this.go(this.k + 1);
    };
    document.addEventListener("keydown", this.press);
    stage.box.querySelector("header").append(this.box);
    this.go(0);
  }

  go(k) {
    this.k = Math.min(k, this.steps.length - 1);
    const step = this.steps[this.k];
    put(this.n, `${this.k + 1} of ${this.steps.length}`);
    put(this.title, step.title);
    put(this.words, step.words);
    this.next.hidden = this.k === this.steps.length - 1;
    this.stage.box.querySelector(".lit")?.classList.remove("lit");
    this.stage.box.querySelector(step.part)?.classList.add("lit");
  }

  put() {
    this.end();
    this.done();
  }

  end() {
    document.removeEventListener("keydown", this.press);
    this.stage.box.querySelector(".lit")?.classList.remove("lit");
    this.box.remove();
  }
}
