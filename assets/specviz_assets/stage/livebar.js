// What is done to the core, beside the buttons that move through time: hold, one round, stop; and the way back to live.

import { button, el, put } from "./dom.js";

const PACES = [[0.25, "¼×"], [0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"], [8, "8×"], [0, "the core's own"]];
const USUAL_MS = 450; // a moment at 1×

export class LiveBar {
  constructor(stage) {
    this.stage = stage;
    this.live = el("button", { type: "button", class: "golive", title: "back to the newest round (End or l)", onclick: () => stage.follow() });
    this.hold = el("button", { type: "button", class: "hold", onclick: () => stage.order({ cmd: stage.paused ? "resume" : "pause" }) });
    this.one = button("step", "let the core run one round, then hold", () => stage.order({ cmd: "step" }), "one round");
    this.halt = el("button", { type: "button", class: "halt", text: "■ Stop", title: "end the run; the models stay loaded", onclick: () => stage.order({ cmd: "stop" }) });
    this.pace = el("select", { "aria-label": "pace of the live picture, for all who follow", onchange: () => stage.order({ cmd: "pace", speed: Number(this.pace.value) }) },
      ...PACES.map(([value, text]) => el("option", { value, text })));
    this.state = el("span", { class: "state", role: "status" });
    for (const each of [this.hold, this.one, this.halt, this.pace]) each.disabled = true; // until the core is heard of
    this.box = el("div", { class: "livebar", role: "group", "aria-label": "the core" }, this.live, this.hold, this.one, this.halt, this.pace, this.state);
  }

  hear(frame) {
    const { now, state } = frame;
    put(this.state, [state.glyph, state.text, state.detail || frame.queue].filter(Boolean).join(" "));
    this.n = now.n;
    const speed = now.ms ? USUAL_MS / now.ms : 0;
    const known = PACES.reduce((best, [value]) => (Math.abs(value - speed) < Math.abs(best - speed) ? value : best), 0);
    if (document.activeElement !== this.pace) this.pace.value = String(known);
    this.paint();
  }

  paint() {
    const { stage } = this, { following, running, paused } = stage;
    this.box.hidden = !stage.run;
    for (const each of [this.hold, this.one, this.halt, this.pace]) each.disabled = !stage.steers;
    put(this.hold, paused ? "▶ Go on" : "❚❚ Pause");
    const behind = (this.n ?? 0) - 1 - stage.index;
    put(this.live, following ? "● live" : behind > 0 ? `to live (+${behind})` : "to live");
    this.live.classList.toggle("on", following);
    this.live.hidden = !running && following;
    if (stage.page) stage.time.show(stage.index, stage.k, stage.page.moments.length, stage.moving);
    stage.box.classList.toggle("following", following && running);
    stage.time.speed.hidden = following && running;
  }
}
