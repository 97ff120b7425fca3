// The first minute: what the picture shows, step by step, below the text; and the way to one's own machine.

import { button, el, put } from "./dom.js";

export function hereButton(offer, go) {
  return el("button", { type: "button", class: "here", text: `▶ ${offer.text}`, title: offer.help, disabled: !offer.able, onclick: go });
}

// `steps`: of each the `part` of the picture it is about, `title`, `words`, maybe the `phase` of a round at which it is
// come to, so that words and picture are in step, and maybe the `key` that goes on.
export class Welcome {
  // `learn`: the way to the lessons, where there are any.
  constructor(stage, steps, offer, here, done, learn) {
    Object.assign(this, { stage, steps, done, k: 0 });
    this.n = el("span", { class: "n" });
    this.title = el("b", {});
    this.words = el("span", {});
    this.next = el("button", { type: "button", class: "next", text: "next", onclick: () => this.forward() });
    this.run = offer ? hereButton(offer, here) : null;
    this.learn = learn ? el("button", { type: "button", class: "learn", text: `☞ ${learn.text}`, title: learn.help, onclick: learn.go }) : null;
    this.away = button("away", "put this away", () => this.put(), "✕");
    this.box = el("section", { class: "welcome", "aria-label": "welcome" }, this.n,
      el("p", { "aria-live": "polite" }, this.title, " ", this.words), this.next, this.away, this.run, this.learn);
    this.press = (event) => {
      if (event.key === this.steps[this.k].key && !event.ctrlKey && !event.metaKey && !event.altKey) this.go(this.k + 1);
    };
    document.addEventListener("keydown", this.press);
    stage.box.querySelector(".start").append(this.box);
    this.go(0);
  }

  // The next step, and the picture with it.
  forward() {
    const { stage } = this, key = this.steps[this.k].key, { phase } = this.steps[this.k + 1];
    this.go(this.k + 1);
    if (key === "}") stage.rejection(1);
    else if (phase && stage.page) {
      stage.stop();
      stage.go(stage.index, stage.page.moments.findIndex((moment) => moment.phase === phase), true);
    }
  }

  // The picture has come to a phase.
  drew(phase) {
    if (this.stage.still) return; // ended rounds alone are seen
    while (phase >= (this.steps[this.k + 1]?.phase ?? Infinity)) this.go(this.k + 1);
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
