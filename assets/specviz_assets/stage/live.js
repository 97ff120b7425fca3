// The stage of a run that goes on: it stands where the server's picture stands, until somebody looks back.

import { Follower } from "./follow.js";

export class LiveStage extends Follower {
  look() {
    this.following = false;
    this.options.onDraw?.();
    this.bar.paint();
  }

  follow() {
    this.touched();
    this.stop();
    this.following = true;
    this.chosen = null;
    this.bar.paint();
    this.options.onDraw?.();
    this.options.onPlace?.("");
    this.fetchedAt = 0;
    return this.now && this.catchUp();
  }

  visit(place) {
    if (this.page) this.look();
    return super.visit(place);
  }

  toLast() {
    return this.follow();
  }

  goEnd(index, chosen = null) {
    if (!this.head?.points.length) return undefined;
    if (index > this.last) return this.follow();
    this.touched();
    this.look();
    return super.goEnd(index, chosen);
  }

  // The core holds after a round that is asked of it.
  round(by) {
    if (by > 0 && this.following && this.steers) return this.order({ cmd: "step" });
    return super.round(by);
  }

  rejection(by) {
    if (!this.page) return undefined;
    this.touched();
    this.look();
    return super.rejection(by);
  }

  choose(id) {
    if (!this.page) return;
    if (id === null && this.running) {
      this.follow();
      return;
    }
    this.touched();
    this.look();
    super.choose(id);
  }

  // Before the newest moment a step is one of the picture; behind it the core is asked for a round.
  step(by, hold = true) {
    if (!this.page) return undefined;
    const over = this.index === this.last && this.k + by >= this.page.moments.length;
    if (by > 0 && (this.following || over) && this.running) {
      if (!this.steers && this.following) return undefined;
      if (!this.following) return this.follow();
      return this.order({ cmd: this.paused ? "step" : "pause" });
    }
    if (hold) {
      this.touched();
      this.look();
    }
    return super.step(by, hold);
  }

  toggle() {
    if (this.following && this.steers) return this.order({ cmd: this.paused ? "resume" : "pause" });
    this.touched();
    this.look();
    return super.toggle();
  }

  tell() {
    if (this.following) this.untell();
    else super.tell();
  }

  async order(command) {
    if (command.cmd === "step" || command.cmd === "resume") this.following = true;
    try {
      await this.options.live.order(command);
      this.refused = "";
    } catch (error) {
      this.refused = error.message;
    }
    this.complain(this.refused);
    this.bar.paint();
  }
}
