// Places for a part of a tree that is too large for its box: the path that was kept in lines, or what a lesson is about.

import { ROOT } from "./dom.js";

export const MARGIN = 26;
export const NARROW = 480; // px, the box is no wider
export const foot = (high) => Math.min(MARGIN, high / 12); // above and below the tree

// A path in as few lines as hold it in letters that are read, all about as long; where there is no room for so many, its end.
export function inLines(view, path) {
  const { gap, row } = view.shape, wide = (view.box.clientWidth - 2 * MARGIN) / view.least;
  const most = Math.max(1, Math.floor(((view.box.clientHeight - 2 * foot(view.box.clientHeight)) / view.least / row - 1) / 1.3) + 1);
  const broken = (keys, width) => {
    let x = 0, line = 0;
    const at = new Map();
    for (const key of keys) {
      const w = view.stands.get(key)?.w ?? 90;
      if (x && x + w > width) [x, line] = [0, line + 1];
      at.set(key, { x, y: line * 1.3 * row, w, line });
      x += w + gap;
    }
    return { at, n: line + 1 };
  };
  let keys = [...path, "rest"], best = broken(keys, wide);
  for (let n = 1; best.n > most && n < path.length; n += 1) best = broken((keys = ["before", ...path.slice(n), "rest"]), wide);
  for (let width = wide, next = best; next.n === best.n && width > gap; width *= 0.96) [best, next] = [next, broken(keys, width)];
  return best.at;
}

// Beside a lesson in a small box: of a tree that is larger what the lesson names, then what is kept, then level by level
// what there is room for. Where there is none for the former, not even without the root, the camera goes there.
export function excerpt(view, path) {
  const { page, stands, least, shape } = view, wide = view.box.clientWidth, high = view.box.clientHeight;
  if (!view.focus || view.open || wide >= NARROW || view.whole().s >= least) return null;
  const ids = new Set([ROOT]), rows = (all) => [...new Set(page.nodes.filter(({ id }) => all.has(id)).map(({ row }) => row))].sort((a, b) => a - b);
  const room = (all, { x0, x1 } = view.bounds([...all])) => x1 - x0 <= (wide - MARGIN / 2) / least;
  const fits = (all) => room(all) && (rows(all).length + 1) * shape.row * least <= high;
  for (let id of view.focus) for (; stands.has(id) && !ids.has(id); id = page.places.get(id).parent) ids.add(id);
  if (!fits(ids) && (ids.delete(ROOT), !fits(ids))) return null;
  const kept = ({ id }) => path.includes(id);
  for (const { id, parent } of page.nodes.toSorted((a, b) => kept(b) - kept(a) || a.column - b.column || a.row - b.row)) {
    if (ids.has(parent) && fits(new Set([...ids, id]))) ids.add(id);
  }
  const lines = rows(ids), at = new Map([["rest", { x: view.bounds([...ids]).x0, y: (lines.length - 0.2) * shape.row, w: 90 }]]);
  for (const { id, row } of page.nodes) if (ids.has(id)) at.set(id, { ...stands.get(id), y: lines.indexOf(row) * shape.row });
  return at;
}
