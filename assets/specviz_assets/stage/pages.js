// Rounds as they are fetched, kept while they are near; and every node and reason at each of their moments.

const KEPT = 48;

export class Pages {
  constructor(source) {
    this.source = source;
    this.held = new Map();
    this.open = new Set(); // of which more may come
  }

  // The round, from memory or fetched; the one after it is fetched ahead. One that was open is fetched again.
  get(index, last) {
    if (this.open.has(index)) this.drop(index);
    const page = this.held.get(index) ?? this.fetch(index);
    if (index < last && !this.held.has(index + 1)) this.fetch(index + 1).catch(() => {});
    return page;
  }

  drop(index) {
    this.held.delete(index);
    this.open.delete(index);
  }

  fetch(index) {
    const coming = this.source.round(index).then(indexed);
    this.held.set(index, coming);
    coming.then((page) => (page.open ? this.open.add(index) : this.open.delete(index)), () => this.held.delete(index));
    for (const old of this.held.keys()) {
      if (this.held.size <= KEPT) break;
      if (old !== index) this.held.delete(old);
    }
    return coming;
  }
}

// `states[k]`, `reasons[k]`: the look of every node at moment k, and why it is so, by node; `nodes`: each node once.
function indexed(page) {
  const of = (list, moment, places) => new Map(places.map((at, n) => [page.looks[moment.nodes[n]].id, list[at]]));
  page.states = page.moments.map((moment) => of(page.looks, moment, moment.nodes));
  page.reasons = page.moments.map((moment) => of(page.whys, moment, moment.whys));
  page.places = new Map([...page.looks].reverse().map((look) => [look.id, look]));
  page.nodes = [...page.places.values()].reverse();
  return page;
}
