// What the picture is made of, and how a moment of a round is painted in it. Marks, words and numbers are those it is given.

import { PHASE, el, put } from "./dom.js";
import { fly, lift } from "./flight.js";
import { Inspector, KnobRow, Scale } from "./inspect.js";
import { helpBox } from "./keys.js";
import { shareMenu } from "./share.js";
import { Talk } from "./talk.js";
import { Timeline } from "./timeline.js";
import { TreeView } from "./tree.js";

const SIGNS = { kept: "✓", broken: "⚠", open: "?" }; // of what is promised about the text

// Its parts are made by `build`; where it stands (`page`, `index`, `k`, `chosen`) is set by what moves it.
export class Picture {
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
    this.phases = el("ol", { class: "phases" });
    this.said = el("p", { class: "said", role: "status", "aria-live": "polite" });
    this.legend = el("p", { class: "legend", "aria-hidden": "true" });
    this.counts = el("p", { class: "dim counts" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.help = helpBox(this.options.room !== undefined);
    this.flying = el("div", { class: "flying", "aria-hidden": "true" });
    const tools = el("div", { class: "tools" },
      shareMenu(this),
      this.options.theme ? null : button("theme", "light or dark", () => this.turnTheme()),
      el("button", { type: "button", title: "keys (?)", "aria-label": "keys", text: "?", onclick: () => this.help.showModal() }));
    const kinds = ["stage", this.options.alone && "alone", this.options.bare && "bare", "blank"].filter(Boolean).join(" ");
    this.box = el("div", { class: kinds, tabindex: -1 },
      el("header", {}, el("div", { class: "name" }, this.title, this.badge, this.facts), this.metrics, tools),
      el("div", { class: "start" }, this.talk.box),
      el(this.options.alone ? "main" : "div", { class: "middle" }, this.phases, this.said, this.tree.box, this.counts),
      el("div", { class: "end" }, this.why.box, el("div", { class: "below" }, this.legend, this.scale.box), this.knobs.box), this.time.box, this.problem, this.help, this.flying);
    this.around = el("div", { class: "stage-around" }, this.box);
    this.root.append(this.around);
    this.paintTheme();
  }

  // Where somebody reads below it, and was led to a round: so far up that the tree is in sight.
  showTree() {
    requestAnimationFrame(() => this.tree.box.scrollIntoView({ block: "nearest", behavior: this.still ? "auto" : "smooth" }));
  }

  // No round is there to be seen: nothing is said of one.
  clear() {
    this.box.classList.add("blank");
    this.page = null;
    this.index = this.k = 0;
    this.tree.clear();
    this.why.clear();
    this.scale.box.classList.remove("seen");
    for (const line of [this.counts, this.time.label]) put(line, "");
  }

  knobRow() {
    return new KnobRow();
  }

  // The heading and what is promised, of all rounds there are.
  promise({ title, badge, tone }) {
    put(this.title, title || "Nothing is decoded yet");
    put(this.badge, badge ? `${SIGNS[tone] ?? "?"} ${badge}` : "");
    this.title.title = [title, this.explained].filter(Boolean).join("\n");
    this.badge.title = badge ?? "";
    for (const kind of Object.keys(SIGNS)) this.badge.classList.toggle(kind, kind === tone);
  }

  lay(head) {
    this.explained = head.explained;
    this.promise(head);
    const warned = (head.notices ?? []).at(-1);
    put(this.facts, warned ? `${head.facts} · ⚠ ${warned}` : head.facts);
    this.facts.title = this.facts.textContent;
    this.phases.replaceChildren(...head.phases.map((word, n) => el("li", { "data-phase": n + 1 }, el("i", {}), el("span", { text: word }))));
    this.metrics.replaceChildren(...head.metrics.map((metric) =>
      el("div", { title: metric.help, "data-metric": metric.name }, el("dt", { text: metric.label }), el("dd", { text: metric.text }))));
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

  draw(motion, from) {
    const { page, k } = this;
    const moment = page.moments[k], { ms } = this;
    this.box.classList.remove("blank");
    this.box.style.setProperty("--ms", motion ? `${Math.min(420, ms * 0.45)}ms` : "0ms");
    this.said.setAttribute("aria-live", this.playing && this.speed > 1 ? "off" : "polite");
    if (this.tree.page !== page) this.tree.setRound(page, motion && from.page?.index !== page.index, ms);
    const shown = this.chosen ?? moment.selected;
    this.tree.paint(k, motion, ms, shown, this.head.marks);
    this.talk.show(this.index, page, k, motion);
    if (motion && moment.phase === PHASE.COMMIT && from.page === page) fly(this, lift(this), ms);
    this.why.show(page, k, shown, this.chosen !== null, this.head.marks);
    this.scale.show(page, k, motion, ms, this.head.marks);
    this.knobs.show(page);
    this.time.show(this.index, k, page.moments.length, this.moving);
    put(this.said, moment.sentence);
    this.said.title = moment.sentence;
    put(this.counts, moment.counts.text);
    this.counts.title = moment.counts.text;
    this.phases.setAttribute("aria-label", moment.phase_text);
    for (const item of this.phases.children) {
      const n = Number(item.dataset.phase);
      if (n === moment.phase) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
      item.classList.toggle("on", n === moment.phase);
      item.classList.toggle("past", n < moment.phase);
    }
    this.box.dataset.phase = moment.phase;
    this.box.classList.toggle("tested", moment.phase === PHASE.ACCEPT && shown === moment.selected); // its scale stands below
    this.options.onDraw?.();
  }
}
