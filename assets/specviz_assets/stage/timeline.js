// The time line: a bar a round, as high as the tokens it wrote and in their colours; and the buttons that move through time.

import { button, el, put } from "./dom.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

export class Timeline {
  constructor(stage) {
    this.stage = stage;
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.head = el("div", { class: "playhead" });
    this.track = el("div", { class: "track", role: "slider", tabindex: 0, "aria-label": "round", "aria-valuemin": 1 }, this.canvas, this.head);
    this.label = el("span", { class: "place" });
    this.speed = el("select", { "aria-label": "speed", onchange: () => stage.setSpeed(Number(this.speed.value)) },
      ...SPEEDS.map((value) => el("option", { value, text: { 0.25: "¼×", 0.5: "½×" }[value] ?? `${value}×` })));
    this.speed.value = "1";
    this.play = button("play", "play (space)", () => stage.toggle());
    this.play.classList.add("main");
    this.bar = el("div", { class: "buttons", role: "toolbar", "aria-label": "playing" },
      button("roundback", "round before ([)", () => stage.round(-1)),
      button("back", "step back (←)", () => stage.step(-1)),
      this.play,
      button("step", "one step on (→)", () => stage.step(1)),
      button("round", "next round (])", () => stage.round(1)),
      button("reject", "next rejection (})", () => stage.rejection(1), "next rejection"),
      this.speed, this.label);
    this.box = el("footer", { class: "time" }, this.bar, this.track);
    this.track.addEventListener("pointerdown", (event) => {
      this.track.setPointerCapture(event.pointerId);
      this.held = true;
      this.seek(event);
    });
    this.track.addEventListener("pointermove", (event) => (this.held ? this.seek(event) : this.hint(event)));
    for (const end of ["pointerup", "pointercancel"]) this.track.addEventListener(end, () => { this.held = false; });
    this.track.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      stage.round(step);
    });
    new ResizeObserver(() => {
      this.draw();
      if (this.points?.[this.shown?.[0]]) this.show(...this.shown);
    }).observe(this.track);
  }

  setHead(head) {
    this.points = head.points;
    this.track.setAttribute("aria-valuemax", head.points.length);
    this.draw();
  }

  at(event) {
    const edge = this.track.getBoundingClientRect();
    return Math.max(0, Math.min(this.points.length - 1, Math.floor(((event.clientX - edge.left) / edge.width) * this.slots)));
  }

  // Places for bars; a run that goes on begins with room for more.
  get slots() {
    return Math.max(this.points.length, this.least ?? 1);
  }

  seek(event) {
    const index = this.at(event);
    if (index !== this.stage.index) this.stage.goEnd(index);
  }

  hint(event) {
    const point = this.points?.[this.at(event)];
    if (point) this.track.title = `${point.place}: ${point.n ?? 0} tokens${point.rejected ? ", with a rejection ✗" : ""}${(point.markers ?? "").includes("◆") ? ", a knob changed ◆" : ""}`;
  }

  // Colours come from the page's own style, so the picture is drawn again when the theme changes.
  draw() {
    const { points, canvas } = this;
    const wide = this.track.clientWidth, high = this.track.clientHeight;
    if (!points || !wide) return;
    this.head.hidden = !points.length;
    if (!points.length) {
      canvas.width = 1;
      return;
    }
    const dense = window.devicePixelRatio || 1, style = getComputedStyle(this.track);
    const colour = (mark) => style.getPropertyValue(`--m-${mark}`).trim() || "#888888";
    Object.assign(canvas, { width: wide * dense, height: high * dense });
    const paint = canvas.getContext("2d");
    paint.scale(dense, dense);
    const slot = wide / this.slots, gap = slot > 6 ? Math.min(3, slot * 0.2) : 0;
    const most = Math.max(...points.map((point) => point.n ?? 0), 1);
    const foot = 14, head = 12;
    points.forEach((point, n) => {
      const unit = (high - foot - head) / most, x = n * slot, wide = Math.max(1, slot - gap);
      const bar = (first, last, mark) => {
        const tall = Math.max(2, unit * (last - first));
        paint.fillStyle = colour(mark);
        paint.beginPath();
        paint.roundRect(x + gap / 2, high - foot - unit * first - tall, wide, tall, Math.min(3, slot / 3, tall / 2));
        paint.fill();
      };
      paint.globalAlpha = 0.85;
      const marks = (point.tokens ?? []).map(([, mark]) => mark), written = point.n ?? 0;
      if (marks.length !== written || !written) bar(0, written, written ? "accepted" : "rejected");
      else for (let at = 0, to; at < written; at = to) {
        for (to = at + 1; to < written && marks[to] === marks[at];) to += 1;
        bar(at, to, marks[at]);
      }
      paint.globalAlpha = 1;
      if (point.rejected && slot >= 9) this.sign(paint, "✗", x + slot / 2, high - 2, colour("rejected"));
      const marker = (point.markers ?? "")[0];
      if (marker) this.sign(paint, marker, x + slot / 2, head - 1, style.color);
    });
  }

  sign(paint, text, x, y, fill) {
    paint.fillStyle = fill;
    paint.font = "11px system-ui, sans-serif";
    paint.textAlign = "center";
    paint.fillText(text, x, y);
  }

  // `r3 of 15`; of several prompts, whose rounds have numbers of their own, `q4/r13, round 52 of 135`.
  placed(index) {
    const { place } = this.points[index], all = this.points.length;
    return place.includes("/") ? `${place}, round ${index + 1} of ${all}` : `${place} of ${all}`;
  }

  show(index, k, n, playing) {
    this.shown = [index, k, n, playing];
    const point = this.points[index];
    const slot = this.track.clientWidth / this.slots;
    this.head.style.width = `${Math.max(3, slot)}px`;
    this.head.style.transform = `translateX(${index * slot}px)`;
    put(this.label, `${this.placed(index)} · step ${k + 1}/${n}`);
    this.track.setAttribute("aria-valuenow", index + 1);
    this.track.setAttribute("aria-valuetext", `${point.place}, ${point.n ?? 0} tokens${point.rejected ? ", with a rejection" : ""}`);
    this.face(playing);
  }

  // What the button of all playing does next.
  face(playing) {
    if (this.playing === playing) return;
    this.playing = playing;
    const face = button(playing ? "pause" : "play", playing ? "pause (space)" : "play (space)", null);
    this.play.replaceChildren(...face.childNodes);
    this.play.title = face.title;
    this.play.setAttribute("aria-label", face.title);
  }
}
