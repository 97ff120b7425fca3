// Rounds as they are fetched, kept while they are near; and what is known of every node at each of their moments.

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
    const found = this.held.get(index) ?? this.fetch(index);
    if (index < last && !this.held.has(index + 1)) this.fetch(index + 1).catch(() => {});
    return found;
  }

  drop(index) {
    this.held.delete(index);
    this.open.delete(index);
  }

  fetch(index) {
    const coming = this.source.round(index).then(unfold);
    this.held.set(index, coming);
    coming.then((page) => (page.open ? this.open.add(index) : this.open.delete(index)), () => this.held.delete(index));
    for (const old of this.held.keys()) {
      if (this.held.size <= KEPT) break;
      if (old !== index) this.held.delete(old);
    }
    return coming;
  }
}

// Lays the differences upon one another: `states[k]` is what is known of every node at moment k.
export function unfold(page) {
  let before = new Map();
  page.states = page.moments.map((moment) => {
    const now = new Map(before);
    for (const [id, fields] of Object.entries(moment.nodes)) now.set(Number(id), { ...now.get(Number(id)), ...fields });
    before = now;
    return now;
  });
  page.places = new Map(page.nodes.map((node) => [node.id, node]));
  return page;
}
