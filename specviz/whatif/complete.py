"""Rows that no record contradicts: what a verifier is handed in place of those that nobody kept.

A target row p and the law q below it are known on some tokens; what matters of all others, to any rule here, is how
much `F(w) = sum (w p - q)+` they give: a convex function that rises from 0 with slopes up to p's rest, and lies above
`w p_rest - q_rest`. Records name it at some weights (`tv_pq` at 1, the divergences of a `chain` at its ratios). Between
them it lies below the chords and above the neighbouring chords drawn on; so one completion follows the chords, and two
take the lower bound, in every other stretch. A weight that is on record gives the same number in all of them: what a
rule decides alike on all of them is exact, and of anything else nothing is said.

Completions live in a small vocabulary: the tokens that any record of the round names, in the order of their ids, and
behind them a few places for the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from specviz.probability.arrays import np
from specviz.probability.draft import ROOT, Draft
from specviz.probability.rows import CertainRows
from specviz.whatif.recorded import UNKNOWN_TOKEN, CannotTell, PartialRow, RecordedRound, follows

Point = tuple[float, float]
_PLACES = 8  # for the rest: kinks of F, what only p has, what only q has
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class SmallRound:
    """A round in the small vocabulary. `tokens[k]`: the id of token k; the `_PLACES` behind them are nobody's.

    `rows`: one table `[n_fed + 1, V]` a completion, `drafts`: with their laws. `plain[k]`: what is known of target row
    k, by small tokens.
    """

    tokens: tuple[int, ...]
    drafts: tuple[Draft, ...]
    rows: tuple[Any, ...]
    plain: tuple[PartialRow, ...]

    @property
    def size(self) -> int:
        return len(self.tokens) + _PLACES

    def name(self, token: int) -> int:
        """The id of a small token; UNKNOWN_TOKEN for one of the rest."""
        return self.tokens[token] if 0 <= token < len(self.tokens) else UNKNOWN_TOKEN


def completions(of: RecordedRound, draft: Draft) -> SmallRound:
    """The round with its rows completed. `draft`: that of the record, or a part of it with the same ids.

    Raises CannotTell where the record has too little even to say between what.
    """
    return _certain(of, draft) if of.certain else _Rows(of, draft).build()


def _small(draft: Draft, place: dict[int, int], **changes: Any) -> Draft:
    return replace(draft, tokens=tuple(place[token] for token in draft.tokens), **changes)


def _certain(of: RecordedRound, draft: Draft) -> SmallRound:
    """At temperature 0 a row is the token that it puts all mass on; one that is not named is none of the drafted."""
    back = {i: k for k, i in enumerate(of.draft.ids)}
    choices = [of.likeliest(node if node == ROOT else back[draft.ids[node]]) for node in range(-1, draft.n_fed)]
    tokens = tuple(sorted({*draft.tokens, *choices, *follows(of.record)} - {UNKNOWN_TOKEN}))
    place = {token: k for k, token in enumerate(tokens)} | {UNKNOWN_TOKEN: len(tokens)}
    size = len(tokens) + _PLACES
    drawn = tuple(place[draft.tokens[i]] for i in range(len(draft)) if draft.row_of[i] >= 0)
    laws = CertainRows(drawn, size) if drawn else None
    row_of = iter(range(len(drawn)))
    small = _small(draft, place, law_rows=laws, row_of=tuple(next(row_of) if r >= 0 else -1 for r in draft.row_of))
    rows = CertainRows(tuple(place[token] for token in choices), size)
    plain = tuple(PartialRow({place[token]: 1.0}) for token in choices)
    return SmallRound(tokens, (small,), (rows,), plain)


class _Rows:
    """The tables of one round at a temperature above 0."""

    def __init__(self, of: RecordedRound, draft: Draft) -> None:
        self.of, self.draft = of, draft
        back = {i: k for k, i in enumerate(of.draft.ids)}
        self.old = {ROOT: ROOT} | {node: back[i] for node, i in enumerate(draft.ids)}
        self.target = [of.target(self.old[node]) for node in range(-1, draft.n_fed)]
        self.laws = {i: of.law(self.old[i]) for i in range(len(draft)) if draft.row_of[i] >= 0}
        named = {token for row in (*self.target, *self.laws.values()) for token in row.known}
        self.tokens = tuple(sorted({*named, *draft.tokens, *follows(of.record)}))
        self.place = {token: k for k, token in enumerate(self.tokens)}
        self.size = len(self.tokens) + _PLACES

    def build(self) -> SmallRound:
        """All completions: the chords, and the lower bounds of the even and of the odd stretches."""
        drawn = {node: self._drawn_children(node) for node in range(-1, self.draft.n_fed)}
        tables = [self._table(drawn, lowered) for lowered in ((None, 0, 1) if self.laws else (None,))]
        plain = tuple(PartialRow({self.place[t]: p for t, p in row.known.items()}) for row in self.target)
        drafts = tuple(_small(self.draft, self.place, law_rows=laws, row_of=self._row_of()) for _, laws in tables)
        return SmallRound(self.tokens, drafts, tuple(rows for rows, _ in tables), plain)

    def _row_of(self) -> tuple[int, ...]:
        order = {node: k for k, node in enumerate(self.laws)}
        return tuple(order.get(node, -1) for node in range(len(self.draft)))

    def _drawn_children(self, node: int) -> tuple[int, ...]:
        return tuple(i for i in self.draft.candidates(node) if i in self.laws)

    def _table(self, drawn: dict[int, tuple[int, ...]], lowered: int | None) -> tuple[Any, Any]:
        """Target rows `[n_fed + 1, V]` and laws `[drawn nodes, V]` of one completion."""
        rows, laws = np.zeros((self.draft.n_fed + 1, self.size)), np.zeros((len(self.laws), self.size))
        order = {node: k for k, node in enumerate(self.laws)}
        for node, below in drawn.items():
            known = self.target[node + 1].known
            if not below:
                self._fill(rows[node + 1], known)
                continue
            both = self._known_in_all(node, below)
            for token in both:
                rows[node + 1][self.place[token]] = known[token]
            first, *others = below
            p_rest = max(0.0, 1.0 - sum(known[token] for token in both))
            q_rest = self._law(laws[order[first]], first, both)
            points = self._points(node, both, first)
            for place, (p, q) in enumerate(_spread(p_rest, q_rest, points, lowered)):
                rows[node + 1][len(self.tokens) + place] = p
                laws[order[first]][len(self.tokens) + place] = q
            for other in others:
                law, begin = laws[order[other]], len(self.tokens)
                rest = self._law(law, other, both)
                law[begin:] = laws[order[first]][begin:] * (rest / q_rest if q_rest > 0 else 0.0)
                law[-1] += rest if not q_rest > 0 else 0.0
        return rows, laws if len(laws) else None

    def _fill(self, row: Any, known: dict[int, float]) -> None:
        for token, p in known.items():
            row[self.place[token]] = p
        row[len(self.tokens)] = max(0.0, 1.0 - sum(known.values()))

    def _known_in_all(self, node: int, below: tuple[int, ...]) -> list[int]:
        """Tokens whose mass is known in the row and in every law below it; drafted ones must be."""
        known = self.target[node + 1].known
        both = [token for token in known if all(token in self.laws[i].known for i in below)]
        for i in self.draft.candidates(node):
            if self.draft.tokens[i] not in both:
                name = f"n{self.draft.ids[i]}"
                raise CannotTell(
                    f"the masses of {name} in the target's row and in its siblings' laws are not on record"
                )
        return both

    def _law(self, law: Any, node: int, both: list[int]) -> float:
        """Write what is known of a law; its rest."""
        known = self.laws[node].known
        for token in both:
            law[self.place[token]] = known[token]
        return max(0.0, 1.0 - sum(known[token] for token in both))

    def _points(self, node: int, both: list[int], first: int) -> list[Point]:
        """F of the rest at the weights that records name: their sums less what the known tokens give."""
        p, q = self.target[node + 1].known, self.laws[first].known
        sums = self.of.surpluses(self.old[node], self.old[first])
        return [(w, total - sum(max(0.0, w * p[t] - q[t]) for t in both)) for w, total in sums]


def _spread(p_rest: float, q_rest: float, points: list[Point], lowered: int | None) -> list[Point]:
    """`(p, q)` of the places of the rest, so that F goes through the points.

    F is piecewise linear: where its slope grows by p at the weight w, a place has p of the row and w p of the law.
    """
    places: list[Point] = []
    slope = 0.0
    for kink, new in _kinks(p_rest, q_rest, points, lowered):
        grown = max(0.0, new - slope)
        if grown > _NOTHING:
            places.append((grown, grown * kink))
            slope = new
    places = places[: _PLACES - 2]
    used_p, used_q = sum(p for p, _ in places), sum(q for _, q in places)
    scale = min(1.0, q_rest / used_q) if used_q > 0 else 1.0  # rounding may require slightly too much
    places = [(p, q * scale) for p, q in places]
    places += [(0.0, 0.0)] * (_PLACES - 2 - len(places))
    return [*places, (max(0.0, p_rest - used_p), 0.0), (0.0, max(0.0, q_rest - used_q * scale))]


def _kinks(p_rest: float, q_rest: float, points: list[Point], lowered: int | None) -> Iterator[Point]:
    """`(weight, slope from there on)` of a completion of F, weights rising."""
    line = _convex(p_rest, q_rest, points)
    slopes = [0.0, *((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(line)), p_rest]
    last = len(line) - 1
    for k, (w, value) in enumerate(line):
        if lowered is None or k % 2 != lowered:
            yield w, slopes[k + 1]
            continue
        before, behind = slopes[k], p_rest if k == last else slopes[min(k + 2, last + 1)]
        # The lower bound here: the chord before drawn on, until it meets the one behind (at the end, `w p - q`).
        height = -q_rest if k == last else line[k + 1][1] - behind * line[k + 1][0]
        if behind - before > _NOTHING:
            yield max(w, (value - before * w - height) / (behind - before)), behind
        else:
            yield w, before


def _convex(p_rest: float, q_rest: float, points: list[Point]) -> list[Point]:
    """(0, 0) and the points, moved as little as rounding needs for a convex line with slopes in [0, p_rest]."""
    line: list[Point] = [(0.0, 0.0)]
    slope = 0.0
    for w, value in points:
        low, high = max(0.0, w * p_rest - q_rest), w * p_rest
        before, height = line[-1]
        value = min(max(value, low, height + slope * (w - before)), high, height + p_rest * (w - before))
        if w - before > 1e-9:
            slope = (value - height) / (w - before)
            line.append((w, value))
    return line
