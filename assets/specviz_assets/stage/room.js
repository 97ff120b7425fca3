// Looking at a run together: the page that presents says where it stands, pages that follow go there with it.

import { button, el, put } from "./dom.js";

const WORD_MS = 60; // least time between two words about where this page stands
const PRESENTING = "sv-presents"; // of the page around: nothing but the picture, in large type
const INVERTED = "sv-inverts"; // while that page has a light ground: what stands below the picture is turned dark

// `options`: `say(word)`, a promise of the answer; `leads`, whether this page may be followed; `src`, the run by its
// name; `mode`, as the address has it; `tell(name, value)` tells the page around; `panel()`, the one that is open.
export class Room {
  constructor(stage, options) {
    Object.assign(this, { stage, ...options, told: { lead: null }, mode: "", wasAway: false, last: null });
    const digits = crypto.getRandomValues(new Uint32Array(2));
    this.who = [...digits].map((digit) => digit.toString(36)).join("");
    this.presents = button("present", "presenter mode: large, dark, by keys alone (p)", () => this.turn());
    this.follows = el("button", { type: "button", class: "follows", hidden: true, onclick: () => this.turnFollow() });
    this.line = el("p", { class: "roomline", role: "status" });
    stage.box.querySelector(".tools").prepend(this.follows, this.presents);
    stage.time.bar.append(this.line);
    this.bye = () => this.leave(true);
    addEventListener("pagehide", this.bye);
    this.set(options.mode);
    this.paint();
  }

  get leading() {
    return this.leads && (this.mode === "present" || Boolean(this.lesson?.options.teach && this.mode === ""));
  }

  get following() {
    return this.mode === "follow";
  }

  // Modes -----------------------------------------------------------------------------------------------------------

  turn() {
    this.change(this.mode === "present" ? "" : "present");
  }

  turnFollow() {
    if (!this.following && !this.other) return;
    this.change(this.following ? "" : "follow");
  }

  // Where this picture stands, told with everything else: the address that a browser sends along may be an older one.
  get place() {
    const { stage } = this;
    return stage.page && !stage.following ? stage.place : "";
  }

  // Whether Esc was meant for this.
  escape() {
    if (this.mode !== "present") return false;
    this.change("");
    return true;
  }

  change(mode) {
    this.set(mode);
    this.tell("mode", { mode, place: this.place });
  }

  set(mode) {
    const before = this.mode;
    if (mode === before) return;
    this.mode = mode;
    if (mode) this.wasAway = false;
    const { stage } = this, large = mode === "present";
    document.documentElement.classList.toggle(PRESENTING, large);
    this.ground();
    stage.around.classList.toggle("presents", large);
    stage.turned = large ? "dark" : undefined;
    stage.paintTheme();
    stage.tree.refit();
    if (before === "present") this.leave(false);
    if (large) this.moved();
    if (mode === "follow") {
      this.at = this.led = null;
      this.goAlong();
    } else stage.setSpeed(Number(stage.time.speed.value));
    this.paint();
  }

  // The page around has another ground now, or may have.
  ground() {
    const { options } = this.stage;
    document.documentElement.classList.toggle(INVERTED, this.mode === "present" && options.theme === "light");
  }

  // The page that is presented, where it is another one.
  get other() {
    const { lead } = this.told;
    return lead && lead.who !== this.who ? lead : null;
  }

  paint() {
    const { other, follows } = this;
    follows.hidden = this.mode === "present" || (!other && !this.following);
    put(follows, this.following ? "● following" : this.wasAway ? "follow again" : "follow presenter");
    follows.title = this.following ? "stop going where the presenter goes (f)" : "go where the presenter goes (f)";
    follows.setAttribute("aria-pressed", String(this.following));
    follows.classList.toggle("on", this.following);
    put(this.line, this.leading && this.mode !== "present" ? "pages that follow go where this one goes"
      : this.leading ? "presenting · Esc leaves · ? keys"
      : this.mode === "present" ? "Esc leaves · ? keys"
        : this.following && !other ? "Nobody presents yet: this page goes along as soon as somebody does." : "");
  }

  // Presenting ------------------------------------------------------------------------------------------------------

  // The picture has moved, or stands still now.
  moved() {
    if (!this.leading || this.saying) return;
    this.saying = setTimeout(() => {
      this.saying = null;
      const word = this.standing();
      const now = JSON.stringify(word);
      if (!word || !this.leading || now === this.last) return;
      this.last = now;
      this.say(word);
    }, WORD_MS);
  }

  standing() {
    const { stage } = this;
    const live = Boolean(stage.options.live && stage.following);
    const word = { room: "lead", src: this.src, panel: this.panel() ?? "", ...this.taught() };
    if (live) return { ...word, live };
    if (!stage.page) return null;
    return { ...word, index: stage.index, k: stage.k, node: stage.chosen, plays: stage.playing, speed: stage.speed,
      change: stage.changed ? stage.change : null };
  }

  // Where the lesson stands beside the picture.
  taught() {
    const { lesson } = this;
    return lesson ? { lesson: lesson.script.id, lesson_step: Math.max(0, lesson.at), lesson_shown: lesson.solved } : {};
  }

  leave(gone) {
    if (this.last === null) return; // nothing was said
    this.last = null;
    this.say({ room: "leave" }, gone);
  }

  async say(word, last = false) {
    try {
      await this.options.say({ ...word, who: this.who }, last);
    } catch (error) {
      if (!last) put(this.line, error.message);
    }
  }

  // Following -------------------------------------------------------------------------------------------------------

  hear(presence) {
    this.told = presence;
    this.paint();
    if (this.following) this.goAlong();
  }

  // Somebody moved this picture by hand: it stays where they go, and can go along again.
  touched() {
    if (!this.following || this.going) return;
    this.wasAway = true;
    this.change("");
  }

  // To the newest place that was told; those in between are passed over while a round is fetched.
  async goAlong() {
    if (this.busy) return;
    this.busy = true;
    await this.stage.ready;
    while (this.following && !this.stage.gone && this.other && this.other !== this.at) {
      this.at = this.other;
      await this.goTo(this.at);
    }
    this.busy = false;
  }

  async goTo(at) {
    const { stage } = this;
    const own = this.lesson?.script.id ?? "";
    const led = JSON.stringify([at.src, at.panel ?? "", at.lesson ?? ""]);
    if (led !== this.led && (at.src !== this.src || (at.panel ?? "") !== (this.panel() ?? "") || (at.lesson ?? "") !== own)) {
      const place = at.src === this.src && !at.live ? stage.head?.points[at.index ?? 0]?.place ?? "" : "";
      this.tell("led", { src: at.src, panel: at.panel ?? "", place, lesson: at.lesson ?? "" });
    }
    this.led = led;
    if (at.lesson && at.lesson === own) await this.lesson.follow({ step: at.lesson_step ?? 0, shown: at.lesson_shown ?? false });
    if (at.src !== this.src || !stage.head) return; // the page around brings the other run
    if (at.live) {
      if (!stage.following) this.by(() => stage.follow());
      return;
    }
    const { index = 0, k = 0, node = null, plays = false, speed = 1, change = null } = at;
    if (index > stage.last) await stage.refresh();
    const next = (stage.index === index && k === stage.k + 1) || (stage.index + 1 === index && k === 0);
    this.by(() => stage.stop());
    this.by(() => stage.look());
    stage.setSpeed(speed);
    stage.chosen = null;
    await stage.go(index, k, next && plays, node);
    stage.adopt(change);
    if (plays) stage.untell(); // the page around is told where the picture comes to rest
  }

  by(move) {
    this.going = true;
    move();
    this.going = false;
  }

  end() {
    clearTimeout(this.saying);
    removeEventListener("pagehide", this.bye);
    this.leave(true);
    document.documentElement.classList.remove(PRESENTING, INVERTED);
    this.mode = "";
  }
}
