// The conversation: the prompt as it was given, and every token in the colour of how it came about.

import { CLOSING, el, put } from "./dom.js";

export class Talk {
  constructor(go) {
    this.go = go;
    this.prompt = el("div", { class: "prompt" });
    this.text = el("div", { class: "text", role: "log", "aria-live": "off", "aria-label": "text so far" });
    this.maybe = el("span", { class: "maybe" });
    this.scroll = el("div", { class: "scroll", tabindex: 0 }, this.prompt, this.text);
    this.title = el("h2", { text: "Text" });
    this.box = el("section", { class: "talk", "aria-label": "conversation" }, this.title, this.scroll);
    this.text.onclick = (event) => {
      const piece = event.target.closest?.("[data-index]");
      if (piece) this.go(Number(piece.dataset.index), event.target.dataset?.node);
    };
  }

  setHead(head) {
    this.head = head;
    this.query = null;
  }

  // Another prompt: its text is laid out once, round by round.
  lay(query) {
    this.query = query;
    put(this.prompt, query.prompt);
    this.prompt.title = query.n_prompt ? `a prompt of ${query.n_prompt.toLocaleString()} tokens, with its template` : "";
    const several = this.head.queries.length;
    const which = several > 1 ? `prompt ${this.head.queries.indexOf(query) + 1} of ${several}` : "Text";
    put(this.title, query.domain ? `${which} · ${query.domain}` : which);
    this.rounds = [];
    for (let index = query.first; index < query.first + query.n_rounds; index += 1) this.rounds.push(this.turn(index));
    this.text.replaceChildren(...this.rounds, this.maybe);
    this.upto = 0;
  }

  // The text of one round.
  turn(index) {
    const point = this.head.points[index];
    const turn = el("span", { class: "turn", "data-index": index, hidden: true });
    for (const [text, mark, node] of point.tokens ?? []) {
      const look = this.head.marks[mark];
      const token = el("span", { class: "token", "data-mark": mark, "data-node": node, text,
        style: `--c: var(--m-${mark})`, title: `${point.place}: ${look.word}` });
      turn.append(token);
    }
    return turn;
  }

  // Rounds came, or changed, from index `first` on.
  grow(first) {
    const { query } = this;
    if (!query) return;
    for (let n = Math.max(0, first - query.first); n < query.n_rounds; n += 1) {
      const turn = this.turn(query.first + n);
      turn.hidden = n >= this.upto;
      if (this.rounds[n]) this.rounds[n].replaceWith(turn);
      else this.text.insertBefore(turn, n ? this.rounds[n - 1].nextSibling : this.text.firstChild);
      this.rounds[n] = turn;
    }
  }

  // The text before round `index`, its own where it is committed, else what is on the table.
  show(index, page, k, motion) {
    const query = this.head.queries.findLast((prompt) => prompt.first <= index);
    if (query !== this.query) this.lay(query);
    const moment = page.moments[k], written = moment.phase === 6;
    const upto = index - query.first + (written ? 1 : 0);
    for (let n = Math.min(upto, this.upto); n < Math.max(upto, this.upto); n += 1) this.rounds[n].hidden = n >= upto;
    this.upto = upto;
    this.text.querySelector(".here")?.classList.remove("here");
    if (written) this.rounds[upto - 1]?.classList.add("here");
    this.text.insertBefore(this.maybe, this.rounds[upto] ?? null);
    this.maybe.replaceChildren(...(moment.texts ?? []).map((at) => page.texts[at]).map(({ running, mark, node }) =>
      el("span", { class: "token", "data-mark": mark, "data-node": node, text: running, style: `--c: var(--m-${mark})` })));
    const end = this.maybe.childElementCount ? this.maybe : this.rounds[upto - 1];
    if (end) this.follow(end, motion);
    else this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  follow(end, motion) {
    const box = this.scroll.getBoundingClientRect(), low = end.getBoundingClientRect();
    const off = low.bottom - box.bottom + 28;
    const above = low.top - box.top;
    if (off > 0 || above < 0) this.scroll.scrollBy({ top: off > 0 ? off : above - 40, behavior: motion ? "smooth" : "auto" });
  }

  // Where the tokens of this round stand now that they are text: by node, the closing one last.
  spots(index) {
    const turn = this.rounds?.[index - this.query.first];
    const spots = new Map();
    for (const token of turn?.children ?? []) {
      const node = Number(token.dataset.node);
      spots.set(node < 0 ? CLOSING : node, token);
    }
    return spots;
  }
}
