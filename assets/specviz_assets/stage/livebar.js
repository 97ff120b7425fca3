// Beside the buttons that move through time, which hold and step the core as well: stop, pace, and the way back to live.

import { el, put } from "./dom.js";

const PACES = [[0.25, "¼×"], [0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"], [8, "8×"], [0, "full speed"]];
const USUAL_MS = 450; // a moment at 1×

export class LiveBar {
  constructor(stage) {
    this.stage = stage;
    this.live = el("button", { type: "button", class: "golive", title: "back to the newest round (End or l)", onclick: () => stage.follow() });
    this.halt = el("button", { type: "button", class: "halt", text: "■ Stop", title: "end the run; the models stay loaded", onclick: () => stage.order({ cmd: "stop" }) });
    this.pace = el("select", { "aria-label": "pace of the live picture, for all who follow", onchange: () => stage.order({ cmd: "pace", speed: Number(this.pace.value) }) },
      ...PACES.map(([value, text]) => el("option", { value, text })));
    this.state = el("span", { class: "state", role: "status" });
    this.halt.disabled = this.pace.disabled = true; // until the core is heard of
    this.box = el("div", { class: "livebar", role: "group", "aria-label": "the core" }, this.live, this.halt, this.pace, this.state);
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
    const { stage } = this, { following, running } = stage;
    this.box.hidden = !stage.run;
    this.halt.disabled = this.pace.disabled = !stage.steers;
    const behind = (this.n ?? 0) - 1 - stage.index;
    put(this.live, behind > 0 ? `to live (+${behind})` : "to live");
    this.live.hidden = following;
    if (stage.page) stage.time.show(stage.index, stage.k, stage.page.moments.length, stage.moving);
    else stage.time.face(stage.moving);
    stage.box.classList.toggle("running", running);
    stage.box.classList.toggle("following", following && running);
    stage.time.speed.hidden = following && running;
    this.pace.hidden = !stage.time.speed.hidden;
  }
}
