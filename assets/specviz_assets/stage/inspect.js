// The inspector: why the chosen node is what it is; and the scale on which a test is decided.

import { ROOT, el, fill, put } from "./dom.js";

const percent = (value) => `${(Math.max(0, Math.min(1, value)) * 100).toFixed(2)}%`;

// `u` falls onto the scale from 0 to 1; in the band the token is kept.
export function gauge({ u, thr, lo, hi }, why, falls, ms) {
  const drawn = lo !== undefined && hi !== undefined, from = drawn ? lo : 0, to = Math.min(1, drawn ? hi : thr);
  if (u === undefined || Number.isNaN(to)) return null; // nothing was drawn, or not yet
  const row = why.rows?.find((fact) => fact.label === "u");
  const text = row ? `u ${row.value} ${row.note ?? ""}`.trim() : "";
  const needle = el("div", { class: "needle", style: `left: ${percent(u)}` });
  const band = el("div", { class: "band", style: `left: ${percent(from)}; width: ${percent(to - from)}` });
  const gauge = el("div", { class: `gauge ${from <= u && u < to ? "inside" : "outside"}`, role: "img", "aria-label": text },
    el("div", { class: "scale" }, band, needle),
    el("div", { class: "ends", "aria-hidden": "true" }, el("span", { text: "0" }), el("span", { text }), el("span", { text: "1" })));
  if (falls) {
    needle.animate([{ transform: "translate(-50%, -52px)", opacity: 0 }, { transform: "translate(-50%, -52px)", opacity: 1, offset: 0.25 },
      { transform: "translate(-50%, 0)", opacity: 1 }], { duration: ms * 0.6, easing: "cubic-bezier(.5,0,.6,1.4)" });
    band.animate([{ transform: "scaleX(0)" }, { transform: "scaleX(1)" }], { duration: ms * 0.3, easing: "ease-out" });
  }
  return gauge;
}

// Numbers, each with its name and perhaps a bar.
export function rowsOf(rows) {
  return el("div", { class: "rows", role: "list" }, ...rows.map((row) => el("div", { class: "row", role: "listitem" },
    el("span", { class: "label", text: row.label }),
    row.bar === undefined || row.bar === null ? el("span", {}) : el("span", { class: `bar ${row.label.trim()[0]}` }, el("i", { style: `--share: ${Math.min(1, row.bar)}` })),
    el("span", { class: "value", text: row.value }),
    el("span", { class: "note", text: row.note ?? "" }))));
}

// The smallest change that would have decided otherwise, and what it does not speak of.
const flips = ({ flip, otherwise }) => (flip ? [flip.text, flip.caveat && `(${flip.caveat})`].filter(Boolean).join(" ") : otherwise);

export class Inspector {
  constructor(choose) {
    this.body = el("div", { class: "body" });
    this.pin = el("button", { type: "button", class: "unpin", text: "follow the action", hidden: true, onclick: () => choose(null) });
    this.box = el("section", { class: "why", "aria-label": "why", tabindex: 0 }, el("h2", {}, "Why", this.pin), this.body);
  }

  show(page, k, id, pinned, marks) {
    this.pin.hidden = !pinned;
    const state = page.states[k].get(id);
    const why = page.reasons[k].get(id);
    if (!why) {
      this.clear();
      return;
    }
    if (why === this.shown) return;
    this.shown = why;
    const look = marks[why.mark];
    this.body.style.setProperty("--c", `var(--m-${why.mark})`);
    fill(this.body,
      el("p", { class: "title" }, el("span", { class: "glyph", text: look.glyph, "aria-hidden": "true" }), el("b", { text: why.title })),
      el("p", { class: "headline", text: why.headline }),
      el("p", { class: "words", text: why.words }),
      rowsOf(why.rows ?? []),
      gauge(state.values, why),
      why.rule && id !== ROOT ? el("p", { class: "rule", text: why.rule }) : null,
      why.residual ? this.left(why.residual) : null,
      ...[["flip", "What would flip it", flips(why)], ["cost", "Cost", why.cost], ["rank", "Rank", why.rank]]
        .filter(([, , text]) => text)
        .map(([name, label, text]) => el("p", { class: name }, el("b", { text: label }), ` ${text}`)),
    );
  }

  clear() {
    this.shown = null;
    this.body.replaceChildren();
  }

  // What was left to draw from.
  left({ title, entries, note }) {
    const most = Math.max(...entries.map((entry) => entry.prob), 0.0001);
    return el("div", { class: "left" }, el("h3", { text: title }), ...entries.map((entry) =>
      el("div", { class: entry.drawn ? "entry drawn" : "entry" },
        el("span", { class: "token", text: entry.shown }),
        el("span", { class: "bar" }, el("i", { style: `--share: ${entry.prob / most}` })),
        el("span", { class: "value", text: entry.text }),
        el("span", { class: "note", text: [entry.drawn && "drawn", entry.drafted && "drafted"].filter(Boolean).join(", ") }))),
      note ? el("p", { class: "dim", text: note }) : null);
  }
}

// The test in hand, large, below the tree.
export class Scale {
  constructor() {
    this.box = el("div", { class: "test", "aria-hidden": "true" });
  }

  show(page, k, motion, ms, marks) {
    const moment = page.moments[k], testing = moment.phase === 4;
    this.box.classList.toggle("seen", testing);
    if (!testing) {
      if (!motion) this.box.replaceChildren();
      return;
    }
    const state = page.states[k].get(moment.selected), why = page.reasons[k].get(moment.selected);
    if (!why) return;
    const tests = page.moments.filter((moment) => moment.phase === 4).length;
    const order = page.moments.slice(0, k + 1).filter((moment) => moment.phase === 4).length;
    this.box.style.setProperty("--c", `var(--m-${why.mark})`);
    const verdict = el("span", { class: "verdict" }, el("b", { text: marks[why.mark].glyph }), ` ${marks[why.mark].word}`);
    this.box.replaceChildren(
      el("div", { class: "top" }, el("span", { text: `test ${order} of ${tests}` }), el("span", { class: "token", text: state.shown }),
        el("span", { class: "rule", text: why.rule ?? "" }), verdict),
      gauge(state.values, why, motion, ms) ?? el("div", { class: "gauge none", text: why.words }));
    if (motion) verdict.animate([{ opacity: 0, transform: "scale(1.5)" }, { opacity: 0, transform: "scale(1.5)", offset: 0.55 }, { opacity: 1, transform: "none" }],
      { duration: ms * 0.75, easing: "ease-out" });
  }
}

// Knobs that other methods are known by, each with why this one lacks it.
export function lacks(line, { absent = [] }) {
  put(line, absent.length ? `not in this method: ${absent.map(([symbol]) => symbol).join(" ")}` : "");
  line.title = absent.map(([, why]) => why).join("\n");
}

export class KnobRow {
  constructor() {
    this.list = el("div", { class: "list" });
    this.texts = el("div", { class: "list" });
    this.absent = el("p", { class: "dim" });
    this.more = el("details", { class: "more" }, el("summary", { text: "sampling and limits" }), this.texts, this.absent);
    this.turns = el("div", { class: "turns", tabindex: 0 }, this.list, this.more);
    this.last = el("p", { class: "dim last" });
    this.box = el("section", { class: "knobs", "aria-label": "knobs in force" }, this.turns, this.last);
  }

  setHead(head) {
    this.looks = head.knobs ?? [];
    this.chips = this.looks.map((knob) => {
      const value = el("b", {}), level = el("i", {});
      const chip = el("span", { class: knob.changes_text ? "knob changes" : "knob", title: `${knob.name}: ${knob.help}; a change is taken at the ${knob.applies_text}`, tabindex: -1 },
        el("span", { class: "name", text: knob.label }), value, el("span", { class: "slot" }, level));
      return { chip, value, level };
    });
    this.list.replaceChildren();
    this.texts.replaceChildren();
    lacks(this.absent, head);
    this.fold();
  }

  // What steers the method is seen; what shapes the text is folded away until it changes.
  fold() {
    this.chips?.forEach(({ chip }, n) => {
      const to = this.looks[n].changes_text && !chip.classList.contains("moved") ? this.texts : this.list;
      if (chip.parentNode !== to) to.append(chip);
    });
    this.more.hidden = !this.texts.childElementCount;
  }

  show(page) {
    const moved = new Map((page.changes ?? []).map(([label, old, now]) => [label, `${old} → ${now}`]));
    page.knobs.forEach(([text, share, idle], n) => {
      const knob = this.chips[n];
      if (!knob) return;
      put(knob.value, moved.get(this.looks[n].label) ?? text);
      knob.chip.hidden = Boolean(idle);
      knob.chip.classList.toggle("moved", moved.has(this.looks[n].label));
      knob.level.style.setProperty("--share", share ?? 0);
      knob.level.parentElement.classList.toggle("none", share === null);
    });
    this.fold();
    put(this.last, page.last ?? "");
    this.last.title = page.last ?? "";
  }
}
