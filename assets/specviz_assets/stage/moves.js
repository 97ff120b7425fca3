// Going through a run: to a moment, a round, a rejection, a place of the address.

import { CLOSING, PHASE, ROOT, put } from "./dom.js";
import { Picture } from "./picture.js";

export class Moves extends Picture {
  get last() {
    return this.head.points.length - 1;
  }

  // To a moment; -1 is the last of its round. Only the newest wish counts while a round is on its way.
  async go(index, k, motion = false, chosen = null) {
    const wish = (this.asked += 1);
    const to = Math.max(0, Math.min(this.last, index));
    let page;
    try {
      page = await this.pages.get(to, this.last);
      put(this.problem, "");
    } catch (error) {
      put(this.problem, `Round ${to + 1} cannot be fetched: ${error.message}`);
      this.stop();
      return;
    }
    if (wish !== this.asked || this.gone) return;
    const from = { page: this.page, k: this.k };
    this.page = page;
    this.index = to;
    this.k = k < 0 ? page.moments.length - 1 : Math.min(k, page.moments.length - 1);
    this.chosen = chosen !== null && page.states[this.k].has(chosen) ? chosen : from.page === page && page.states[this.k].has(this.chosen) ? this.chosen : null;
    this.since = performance.now();
    this.draw(motion && !this.still, from);
    this.tell();
  }

  // What a person does with the picture begins with this: who goes along with somebody else goes alone from here.
  // `act`: what it is, where a lesson may have asked for it: "step 1", "round 1", "rejection 1", "first", "choose".
  touched(act = "", node = null) {
    this.options.onTouched?.(act, node);
  }

  // Back from where a run goes on by itself: a recording does not.
  look() {}

  // What somebody else changed for a what if, where that can be asked.
  adopt() {}

  step(by, hold = true) {
    if (!this.page) return undefined;
    if (hold) this.touched(`step ${by}`);
    if (hold) this.stop();
    const k = this.k + by;
    if (k >= 0 && k < this.page.moments.length) return this.go(this.index, k, by > 0);
    if (by > 0 && this.index === this.last) return this.stop();
    if (by < 0 && this.index === 0) return undefined;
    return this.go(this.index + by, by > 0 ? 0 : -1, by > 0);
  }

  // To the end of the phase after this one, or before it.
  phase(by) {
    if (!this.page) return undefined;
    const { moments } = this.page, now = moments[this.k].phase;
    const next = by > 0 ? moments.find((moment) => moment.phase > now) : moments.findLast((moment) => moment.phase < now);
    if (!next) return this.step(by);
    this.touched(`step ${by}`);
    this.stop();
    return this.go(this.index, moments.findLastIndex((moment) => moment.phase === next.phase), by > 0);
  }

  round(by) {
    this.touched(`round ${by}`);
    return this.goEnd(this.index + by);
  }

  // To the very beginning.
  first() {
    this.touched("first");
    this.stop();
    return this.go(0, 0);
  }

  toLast() {
    return this.head && this.goEnd(this.last);
  }

  goEnd(index, chosen = null) {
    if (!this.head) return undefined;
    this.touched();
    this.stop();
    return this.go(index, -1, false, chosen);
  }

  // To the next or previous test that failed; where single tests are not recorded, to its round.
  async rejection(by) {
    if (!this.page) return;
    this.touched(`rejection ${by}`);
    this.stop();
    const own = this.failed(this.page).filter((k) => (by > 0 ? k > this.k : k < this.k));
    if (own.length) {
      await this.go(this.index, by > 0 ? own[0] : own.at(-1));
      return;
    }
    let index = this.index + by;
    while (index >= 0 && index <= this.last && !this.head.points[index].rejected) index += by;
    if (index < 0 || index > this.last) {
      put(this.said, by > 0 ? "No rejection comes after this one." : "No rejection comes before this one.");
      return;
    }
    const failed = await this.pages.get(index, this.last).then((page) => this.failed(page), () => []);
    await this.go(index, failed.length ? (by > 0 ? failed[0] : failed.at(-1)) : -1); // which says what cannot be fetched
  }

  failed(page) {
    return page.moments.flatMap((moment, k) =>
      moment.phase === PHASE.ACCEPT && page.states[k].get(moment.selected)?.mark === "rejected" ? [k] : []);
  }

  // A long recording is read a part at a time by who serves it: its time line grows until all of it is there.
  async readOn() {
    if (!this.source?.further || !this.head?.more || this.gone) return false;
    const { points, queries } = this.head;
    const from = Math.max(0, points.length - 1); // the last one may have been read in part
    const part = await this.source.further(from);
    if (this.gone) return false;
    points.length = from;
    points.push(...part.points);
    part.queries.forEach((query, n) => (queries[n] ? Object.assign(queries[n], query) : queries.push(query)));
    this.head.more = part.more ?? false;
    this.talk.grow(from);
    this.time.setHead(this.head);
    if (this.page) this.time.show(this.index, this.k, this.page.moments.length, this.moving);
    put(this.facts, `reading: ${points.length.toLocaleString()} rounds so far`);
    if (this.head.more) return true;
    const head = await this.source.head(); // with the numbers of the whole run
    if (this.gone) return false;
    this.lay((this.head = head));
    if (this.page && !this.moving) this.draw(false, { page: this.page, k: this.k });
    else if (this.page) this.time.show(this.index, this.k, this.page.moments.length, true);
    return true;
  }

  async readAll() {
    try {
      while (await this.readOn()) await new Promise((done) => setTimeout(done, 30));
    } catch (error) {
      put(this.facts, `⚠ read as far as round ${this.head.points.length}: ${error.message}`);
    }
  }

  // The run has grown: there are more rounds to go to.
  refresh() {
    return this.ready.then(async () => {
      if (this.head.more || this.gone) return undefined; // it is on its way
      if (this.source.further && !this.options.bare) {
        this.head.more = true;
        return this.readAll();
      }
      const head = await this.source.head();
      if (!this.gone) this.lay((this.head = head));
      return undefined;
    }).catch((error) => put(this.problem, `The run cannot be shown: ${error.message}`));
  }

  // To a place that came from outside, as soon as the run is there.
  visit(place) {
    return this.ready.then(() => {
      if (!this.page || this.gone) return undefined;
      this.stop();
      return this.goto(place);
    });
  }

  // `r3`, `r3/n14`, `q1/r3/closing`, as other pages and the terminal write a place.
  async goto(place) {
    const match = /^((?:q\d+\/)?r\d+)(?:\/(root|closing|n\d+))?$/.exec(place);
    const find = () => this.head.points.findIndex((point) => point.place === match[1]);
    let index = match ? find() : -1;
    while (match && index < 0 && await this.readOn()) index = find();
    if (index < 0) {
      await this.go(0, this.still ? -1 : 0);
      return;
    }
    const named = match[2];
    const node = !named ? null : named === "root" ? ROOT : named === "closing" ? CLOSING : Number(named.slice(1));
    await this.go(index, -1, false, node);
  }

  get place() {
    const name = { [ROOT]: "root", [CLOSING]: "closing" }[this.chosen] ?? `n${this.chosen}`;
    return this.head.points[this.index].place + (this.chosen === null ? "" : `/${name}`);
  }

  tell() {
    this.untell();
    if (this.playing) return;
    this.telling = setTimeout(() => {
      this.telling = null;
      this.options.onPlace?.(this.place);
    }, 350);
  }

  untell() {
    clearTimeout(this.telling);
    this.telling = null;
  }

  choose(id) {
    this.touched("choose", id);
    this.stop();
    this.chosen = id;
    this.draw(false, { page: this.page, k: this.k });
    this.tell();
  }
}
