// What comes of a run that goes on: frames of the core, rounds as they are fetched, another run.

import { el, put } from "./dom.js";
import { Feed } from "./feed.js";
import { LiveBar } from "./livebar.js";
import { Pages } from "./pages.js";
import { Stage } from "./stage.js";
import { Steer } from "./steer.js";

const IDLE = "Write something, or take an example: here you will see how the answer comes about.";
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
    this.awaits = el("span", {});
    this.seconds = el("span", { "aria-hidden": "true" });
    this.box.querySelector(".canvas").append(el("p", { class: "awaits", role: "status" }, this.awaits, " ", this.seconds));
    put(this.awaits, "Asking the core where it is.");
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
    this.promise(now);
    this.waitFor(frame);
    this.complain(this.refused || frame.refusals.at(-1) || "");
    put(this.facts, [now.facts, ...(frame.failed ? [] : frame.notices.slice(-1).map((words) => `⚠ ${words}`))].filter(Boolean).join(" · "));
    this.facts.title = this.facts.textContent;
    await this.knobsNow(frame);
    this.bar.hear(frame);
    this.options.talker?.hear(frame);
    this.options.live.compare?.(frame);
    if (this.following && !frame.awaits) await this.catchUp();
  }

  // The method of the next run, as it is chosen around the picture.
  plan(method) {
    if (this.method === method) return;
    this.method = method;
    if (this.told) this.heard(this.told);
  }

  // The knobs of the run that goes on; where none does, those of the next one.
  async knobsNow(frame) {
    const { next } = this.options.live;
    this.told = frame;
    const planned = next && this.method && !this.running && !frame.awaits ? `${this.method} ${frame.staged} ${this.run}` : "";
    if (planned && planned !== this.planned) this.found = await next(this.run, this.method);
    if (planned !== this.planned) {
      this.planned = planned;
      const head = planned ? { knobs: this.found } : this.head;
      if (this.knobs.of !== (planned ? this.method : this.run)) this.knobs.setHead(head);
      this.knobs.of = planned ? this.method : this.run;
    }
    const { now } = frame;
    this.knobs.hear(planned ? { knobs: this.found, last: now.last } : now, planned ? true : this.steers, frame.ab);
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
      this.refused = "";
      this.clear();
    }
    this.run = now.run;
    this.head = head;
    this.planned = undefined;
    this.knobs.of = this.run;
    this.lay(head);
    this.blank(head);
    if (this.options.at && head.points.length) await this.goto(this.options.at);
    else if (this.page) this.draw(false, { page: this.page, k: this.k });
    else this.following = true;
    this.options.at = "";
  }

  // Until the first round is there: the text that is gone on with.
  blank(head) {
    if (!this.page && head.queries.length) this.talk.lay(head.queries.at(-1));
  }

  // What goes on before there is a round to see, and for how long; the run before stands beside none of it.
  waitFor({ awaits, seconds, state }) {
    if (awaits && this.following && this.page) {
      this.clear();
      this.stamp = "";
    }
    this.box.classList.toggle("waits", Boolean(awaits));
    clearInterval(this.clock);
    put(this.awaits, awaits || (state.name === "idle" ? IDLE : [state.text, state.detail].filter(Boolean).join(" ")));
    put(this.seconds, "");
    if (!awaits) return;
    const began = performance.now() - 1000 * seconds;
    const tell = () => put(this.seconds, `· ${Math.round((performance.now() - began) / 1000)} s`);
    this.clock = setInterval(tell, 1000);
    tell();
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
    clearInterval(this.clock);
    this.feed?.end();
    super.end();
  }
}
