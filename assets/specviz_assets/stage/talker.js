// What is said to the model: the turns above the newest answer, and the box for the next message.

import { button, el, fill, put } from "./dom.js";

export class Talker {
  // `said()` fetches the conversation; `say(text)`, `anew()` and `look(run)` tell the page around.
  constructor({ said, say, anew, look }) {
    Object.assign(this, { said, say, anew, look });
    this.above = el("div", { class: "above" });
    this.below = el("p", { class: "turn-user", hidden: true });
    this.input = el("textarea", { rows: 2, "aria-label": "message", onkeydown: (event) => this.key(event) });
    this.send = button("send", "send (Enter)", () => this.submit(), "Send");
    this.fresh = el("button", { type: "button", class: "anew", text: "new conversation", hidden: true, onclick: () => this.anew() });
    this.examples = el("div", { class: "examples" });
    this.why = el("p", { class: "dim" });
    this.form = el("div", { class: "composer" }, this.examples, this.why,
      el("div", { class: "line" }, this.input, this.send), this.fresh);
  }

  place(talk) {
    this.talk = talk;
    this.given = el("details", { class: "given" }, el("summary", { text: "what the model is given" }));
    talk.prompt.replaceWith(this.given);
    this.given.append(talk.prompt);
    this.given.open = true;
    talk.scroll.prepend(this.above);
    talk.scroll.append(this.below);
    talk.box.append(this.form);
  }

  // What can be said here: `placeholder`, `able`, `why`, `command`, `examples` by name.
  setManner(manner) {
    this.manner = manner;
    this.input.placeholder = manner.placeholder;
    this.input.disabled = this.send.disabled = !manner.able;
    this.why.replaceChildren(...(manner.why ? [manner.why, manner.command ? el("code", { text: manner.command }) : ""] : []));
    this.offer();
  }

  offer() {
    const begun = this.known && (this.known.above.length || this.known.shown || this.known.below);
    fill(this.examples, ...(begun ? [] : Object.entries(this.manner?.examples ?? {})).map(([name, text]) =>
      el("button", { type: "button", text: name, title: text, disabled: !this.manner.able, onclick: () => this.tell(text) })));
    this.fresh.hidden = !begun || !this.manner?.talks;
  }

  async hear(frame) {
    this.given.hidden = this.talk.text.hidden = frame.blank; // the run before, while a message waits
    this.given.classList.toggle("folds", frame.answers);
    this.examples.hidden = ["live", "paused", "lag", "silent"].includes(frame.state.name);
    if (frame.said === this.seen) return;
    this.seen = frame.said;
    this.given.open = !frame.answers;
    let known;
    try {
      known = await this.said();
    } catch {
      this.seen = null; // the next frame asks again
      return;
    }
    this.known = known;
    fill(this.above, ...known.above.map((turn) => this.turn(turn)));
    put(this.below, known.below);
    this.below.hidden = !known.below;
    // What a person has begun to type stays; what was put there before them, and they left as it is, does not.
    const free = !this.input.value || this.input.value === this.offered;
    if (known.unsent && free) this.input.value = this.offered = known.unsent;
    this.offer();
    this.talk.scroll.scrollTop = this.talk.scroll.scrollHeight;
  }

  turn({ role, text, who, stopped, run }) {
    const body = el("div", { class: `turn-${role}`, text });
    if (role === "user") return body;
    const again = run ? el("button", { type: "button", class: "again", text: "its rounds", title: `look at ${run}`, onclick: () => this.look(run) }) : null;
    return el("div", {}, body, el("p", { class: "dim who" }, [who, stopped ? "stopped" : ""].filter(Boolean).join(" · "), again));
  }

  key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit();
  }

  submit() {
    const text = this.input.value.trim();
    if (!text || this.input.disabled) return;
    this.input.value = "";
    this.tell(text);
  }

  tell(text) {
    this.say(text);
  }
}
