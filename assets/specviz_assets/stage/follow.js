// What comes of a run that goes on: frames of the core, rounds as they are fetched, another run.

import { el, put } from "./dom.js";
import { Feed } from "./feed.js";
import { LiveBar } from "./livebar.js";
import { Pages } from "./pages.js";
import { Stage } from "./stage.js";
import { Steer } from "./steer.js";

const WAITING = {
  idle: "Write something, or take an example: here you will see how the answer comes about.",
  loading: "The models are being loaded.",
};
const LEAST_MS = 120; // between two rounds that are fetched, when the core is faster than anybody can look

// `options.live`: `head(run)`, `round(run, index)`, `points(run, from)`, `order(command)`, all promises; `events`, an
// address. `options.talker`: the box for messages and the turns above the newest answer.
export class Follower extends Stage {
  async begin() {
    const { live } = this.options;
    this.following = !this.options.at;
    this.box.classList.add("live");
    this.time.least = 24;
    this.bar = new LiveBar(this);
    this.time.bar.append(this.bar.box);
    this.options.talker?.place(this.talk);
    this.feed = new Feed(live.events, (frame) => this.heard(frame), (problem) => this.complain(problem), live.told);
    put(this.said, "Waiting for the core.");
  }

  knobRow() {
    return new Steer((name, value) => this.order({ cmd: "knob", name, value }), this.options.ab);
  }

  get running() {
    return ["live", "paused", "lag"].includes(this.state?.name);
  }

  // Whether the core is this person's to steer.
  get steers() {
    return this.running && !this.options.live.watches;
  }

  get paused() {
    return this.state?.name === "paused";
  }

  get moving() {
    return this.following && this.running ? !this.paused : this.playing;
  }

  get ms() {
    return this.following && !this.playing ? Math.max(90, this.now?.ms ?? 0) : super.ms;
  }

  // The newest frame is shown; those that come while one is being fetched are passed over but for the last.
  async heard(frame) {
    this.newest = frame;
    if (this.busy) return;
    this.busy = true;
    while (this.newest && !this.gone) {
      const next = this.newest;
      this.newest = null;
      try {
        await this.take(next);
      } catch (error) {
        this.complain(error.message);
      }
    }
    this.busy = false;
  }

  async take(frame) {
    const { now } = frame;
    this.state = frame.state;
    if (now.run !== this.run || now.n_queries !== this.head?.queries.length) await this.another(now);
    else await this.grow(now);
    if (this.gone) return;
    this.now = now;
    this.complain(this.refused || frame.refusals.at(-1) || (frame.failed && frame.notices.at(-1)) || "");
    put(this.facts, [now.facts, ...frame.notices.slice(-1).map((words) => `⚠ ${words}`)].join(" · "));
    for (const each of [this.badge, this.facts]) each.classList.toggle("none", !this.head.title);
    this.knobs.hear(now, this.steers, frame.ab);
    this.bar.hear(frame);
    this.options.talker?.hear(frame);
    this.options.live.compare?.(frame);
    if (this.following) await this.catchUp();
  }

  // Another run, or another prompt of it.
  async another(now) {
    const head = await this.options.live.head(now.run);
    if (this.gone) return;
    if (this.run !== now.run) {
      this.pages = new Pages({ round: (index) => this.options.live.round(this.run, index) });
      this.stop();
      if (this.run) {
        this.following = true;
        this.options.at = "";
      }
      this.page = null;
      this.index = this.k = 0;
      this.refused = "";
      this.tree.clear();
      this.why.clear();
      this.scale.box.classList.remove("seen");
    }
    this.run = now.run;
    this.head = head;
    this.lay(head);
    this.blank(head);
    if (this.options.at && head.points.length) await this.goto(this.options.at);
    else if (this.page) this.draw(false, { page: this.page, k: this.k });
    else this.following = true;
    this.options.at = "";
  }

  // Until the first round is there: the text that is gone on with.
  blank(head) {
    if (this.page) return;
    if (head.queries.length) this.talk.lay(head.queries.at(-1));
    put(this.said, this.running ? "The first round is on its way." : WAITING[this.state.name] ?? this.state.text);
    put(this.counts, "");
  }

  // Rounds that came, and the one that changed.
  async grow(now) {
    const { points, queries } = this.head;
    if (!now.n) return;
    const missed = now.first > points.length;
    const from = missed ? points.length : now.first;
    const fresh = missed ? await this.options.live.points(this.run, from) : now.points;
    const shown = points.length;
    if (!fresh.length || this.gone) return;
    points.length = from;
    points.push(...fresh);
    queries.at(-1).n_rounds = points.length - queries.at(-1).first;
    this.talk.grow(from);
    this.lastMetrics(now);
    if (points.length !== shown || !this.drawnAt || performance.now() - this.drawnAt > 300) {
      this.drawnAt = performance.now();
      this.time.setHead(this.head);
      if (this.page) this.time.show(this.index, this.k, this.page.moments.length, this.moving);
    }
  }

  lastMetrics(now) {
    now.metrics.forEach((metric, n) => {
      const shown = this.metrics.children[n];
      if (shown) put(shown.lastChild, metric.text);
    });
  }

  // To where the server's picture stands. Who wants no motion sees ended rounds.
  async catchUp() {
    const { now } = this;
    if (now.index < 0 || now.index > this.last) return this.blank(this.head);
    if (this.still && !now.still && this.page) return undefined;
    const wait = LEAST_MS - (performance.now() - (this.fetchedAt ?? 0));
    const stamp = `${now.run} ${now.index} ${now.stamp}`;
    if (this.stamp !== stamp) {
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      if (this.newest && this.newest.now.run === now.run && this.newest.now.index !== now.index && !now.ms) return undefined;
      this.pages.drop(now.index);
      this.fetchedAt = performance.now();
    }
    if (!this.following || (this.index === now.index && this.k === now.k && this.stamp === stamp)) return undefined;
    const next = now.ms > 0 && ((this.index === now.index && now.k === this.k + 1) || (this.index + 1 === now.index && now.k < 2));
    const before = this.page;
    await this.go(now.index, now.k, next);
    if (this.page && (this.page !== before || this.page.index === now.index)) this.stamp = stamp;
    return undefined;
  }

  complain(words) {
    if (!this.wrong) {
      this.wrong = el("p", { class: "wrong", role: "alert" });
      this.knobs.box.append(this.wrong);
    }
    put(this.wrong, words || "");
  }

  end() {
    this.feed?.end();
    super.end();
  }
}
