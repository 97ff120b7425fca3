"""What another width table would have offered at the expansions of a run. No model runs.

Exact, because a distribution does not depend on how many of its tokens became children: they are counted as the drafter
would make them, before merging and pruning. Of the recorded expansions only, so no length is claimed.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from specviz.errors import SpecvizError
from specviz.events import Expansion
from specviz.probability.draft import ROOT
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.panels.ranks.model import BUCKETS, RankFilter
from specviz.view.words.numbers import number, percent, times

_N = len(BUCKETS)

MOST = 20  # ranks that a width can reach
_FAR = MOST + 1  # a token that no width reaches

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WidthTable:
    """Children by predicted bucket, 0 gives the block up; `beam`: of the root's own slot, whatever its bucket."""

    widths: tuple[int, int, int, int]
    beam: int

    @property
    def text(self) -> str:
        """`2, 4, 10, 0 · root 10`."""
        return f"{', '.join(map(str, self.widths))} · root {self.beam}"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The expansions of all finished rounds as columns, block by block. `rank`: of the token that mattered.

    On the path that is the token that was written, elsewhere the target's best.
    """

    own: WidthTable
    bucket: Ints
    rank: Ints
    given: Ints  # children it was given
    most: Ints  # children it could have at most
    first: Bools  # the root's own slot
    begins: Bools  # a block begins
    known: Bools
    on_path: Bools
    block: Ints
    slot: Ints
    step: Ints  # place on some round's path, counted over the run; -1: off the path
    stops: Bools  # by place: the round ended there
    n_trimmed: int
    mixed: bool  # the run itself used several tables

    def chosen(self, which: RankFilter) -> Bools:
        """Known expansions that a filter lets through."""
        out = self.known & (self.on_path if which.path_only else True)
        out = out if which.block is None else out & (self.block == which.block)
        return out if which.slot is None else out & (self.slot == which.slot)


def recorded(run: Run) -> Recorded:
    """Read a run. Raises SpecvizError where widths do not follow rank buckets, or the truth is not on record."""
    rows: list[tuple[Expansion, bool, int]] = []
    stops: list[bool] = []
    for record in run.rounds:
        if record.complete:
            rows += _round(record, stops)
    if not rows:
        raise SpecvizError("no expansions are on record: widths by predicted rank belong to method specblock")
    if any(node.mode == "sampled" for record in run.rounds for node in record.nodes.values()):
        raise SpecvizError("siblings were drawn, not the draft's best: another width would have drawn other tokens")
    if all(each.true_bucket is None for each, _, _ in rows):
        raise SpecvizError("no true rank is on record, so nothing can be counted")
    own, mixed = _own(run, [each for each, _, _ in rows])

    def column(values: list[Any]) -> Any:
        return np.array(values)

    ranks = [each.true_rank_emitted if each.on_path else each.true_rank_argmax for each, _, _ in rows]
    return Recorded(
        own=own,
        mixed=mixed,
        bucket=column([each.bucket for each, _, _ in rows]),
        rank=column([min(_FAR, rank or _FAR) for rank in ranks]),
        given=column([each.n_children for each, _, _ in rows]),
        most=column([_most(each) for each, _, _ in rows]),
        first=column([each.block == 1 and each.slot == 0 for each, _, _ in rows]),
        begins=column([begins for _, begins, _ in rows]),
        known=column([each.true_bucket is not None for each, _, _ in rows]),
        on_path=column([each.on_path for each, _, _ in rows]),
        block=column([each.block for each, _, _ in rows]),
        slot=column([each.slot for each, _, _ in rows]),
        step=column([step for _, _, step in rows]),
        stops=column(stops),
        n_trimmed=sum(each.width_reason == "trim" for each, _, _ in rows),
    )


def _most(each: Expansion) -> int:
    """The widest it can be: a trim stays, and a small vocabulary ends."""
    if each.width_reason == "trim":
        return each.width
    if each.top is not None:
        return max(1, len(each.top))
    return each.n_children if each.n_children < max(1, each.width) else MOST


def _round(record: RoundRecord, stops: list[bool]) -> list[tuple[Expansion, bool, int]]:
    """A round's expansions block by block: each with whether it begins one, and its place on the path."""
    found = sorted(record.expansions, key=lambda each: (each.start, each.slot))
    accepted = [n for n, verdict in record.verdicts.items() if verdict.status == "accepted"]
    last = max(accepted, key=lambda n: record.nodes[n].depth, default=ROOT)
    places: dict[int, int] = {}
    for each in found:
        if each.on_path and each.parent not in places:
            places[each.parent] = len(stops)
            stops.append(each.parent == last)
    blocks = [None, *(each.start for each in found)]
    return [
        (each, before != now, places.get(each.parent, -1) if each.on_path else -1)
        for each, (before, now) in zip(found, pairwise(blocks), strict=True)
    ]


def _own(run: Run, rows: list[Expansion]) -> tuple[WidthTable, bool]:
    """The run's table as its expansions show it, and whether there were several."""
    plain = [each for each in rows if each.width_reason in ("bucket", "override")]
    quits = [each for each in rows if each.width_reason == "give_up" and each.bucket == _N - 1]
    seen = [Counter(each.width for each in [*plain, *quits] if each.bucket == b) for b in range(_N)]
    beams = Counter(each.width for each in rows if each.width_reason == "beam")
    usual = (2, 4, 10, 0)
    found = tuple(counts.most_common(1)[0][0] if counts else usual[b] for b, counts in enumerate(seen))
    beam = beams.most_common(1)[0][0] if beams else 10
    return WidthTable((found[0], found[1], found[2], found[3]), beam), any(len(c) > 1 for c in [*seen, beams])


def offered(rows: Recorded, table: WidthTable) -> Ints:
    """Children of every expansion under a table: slots behind a 0 keep the spine's token alone."""
    wanted = np.array(table.widths)[rows.bucket]
    quits = (wanted == 0) & ~rows.first
    seen = np.cumsum(quits)
    starts = np.maximum.accumulate(np.where(rows.begins, np.arange(len(seen)), 0))
    given_up = seen > (seen - quits)[starts]
    width = np.where(~rows.first & given_up, 1, np.minimum(np.where(rows.first, table.beam, wanted), rows.most))
    return np.clip(width, 1, MOST)


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BucketChange:
    """Expansions of one predicted bucket (the root's own slot stands by itself): the run beside the table.

    `curve[w - 1]`: share that `w` children would cover.
    """

    label: str
    n: int
    ran_width: int
    width: int
    ran: float | None
    here: float | None
    ran_children: int
    children: int
    curve: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class WidthChange:
    """The table against the run, on the same expansions."""

    table: WidthTable
    own: bool  # the run's own table
    n: int
    ran: float  # covered share
    here: float
    ran_children: float  # an expansion
    children: float
    buckets: tuple[BucketChange, ...]
    frontier: tuple[tuple[float, float, WidthTable], ...]  # children an expansion, the most they cover, the table
    cheapest: WidthTable  # covers at least what the run covered with the fewest children
    steps: tuple[int, int]  # of so many tokens the run accepted, those still offered
    stops: tuple[int, int, int]  # of so many tokens that ended a round those offered: run, here (the budget may prune)
    basis: str
    words: str
    check: str
    agrees: bool


def width_change(rows: Recorded, table: WidthTable, which: RankFilter) -> WidthChange:
    """Count. Raises SpecvizError where the filter leaves nothing."""
    chosen = rows.chosen(which)
    if not chosen.any():
        raise SpecvizError("no expansion with a known rank passes this filter")
    now, before = offered(rows, table), rows.given
    n, again = int(chosen.sum()), offered(rows, rows.own)
    groups = [("root", chosen & rows.first, rows.own.beam, table.beam)]
    groups += [
        (BUCKETS[b], chosen & ~rows.first & (rows.bucket == b), rows.own.widths[b], table.widths[b]) for b in range(_N)
    ]
    buckets = tuple(_bucket(rows, label, mine, (was, width), now) for label, mine, was, width in groups)
    frontier = _frontier(rows, chosen)
    ran = float((rows.rank <= before)[chosen].mean())
    here = float((rows.rank <= now)[chosen].mean())
    off = int((again != before)[chosen].sum())
    basis = "on the path: given a right prefix" if which.path_only else "all kept parents: not conditional"
    return WidthChange(
        table=table,
        own=table == rows.own,
        n=n,
        ran=ran,
        here=here,
        ran_children=float(before[chosen].mean()),
        children=float(now[chosen].mean()),
        buckets=buckets,
        frontier=frontier,
        cheapest=next((t for _, share, t in frontier if share >= ran - 1e-12), frontier[-1][2]),
        steps=_steps(rows, now, stops=False)[::-1],
        basis=basis,
        stops=(int(rows.stops.sum()), _steps(rows, before, stops=True)[0], _steps(rows, now, stops=True)[0]),
        words=_words(n, (ran, here), (float(before[chosen].sum()), float(now[chosen].sum()))),
        check=_check(rows, off, n),
        agrees=off == 0,
    )


def _bucket(rows: Recorded, label: str, mine: Bools, widths: tuple[int, int], now: Ints) -> BucketChange:
    n, ranks = int(mine.sum()), rows.rank[mine]
    return BucketChange(
        label,
        n,
        *widths,
        _mean(ranks <= rows.given[mine]),
        _mean(ranks <= now[mine]),
        int(rows.given[mine].sum()),
        int(now[mine].sum()),
        tuple(float((ranks <= w).mean()) for w in range(1, MOST + 1)) if n else (),
    )


def _mean(flags: Bools) -> float | None:
    return float(flags.mean()) if flags.size else None


def _frontier(rows: Recorded, chosen: Bools) -> tuple[tuple[float, float, WidthTable], ...]:
    """For every number of children the most that a table of widths from 1 on covers, the root's own slot as it was.

    Without a 0 in it a table counts bucket by bucket, so all 160,000 are looked at.
    """
    root = chosen & rows.first
    cost, gain = np.float64(rows.given[root].sum()), np.float64((rows.rank <= rows.given)[root].sum())
    costs, gains = np.full((1,) * _N, cost), np.full((1,) * _N, gain)
    for b in range(_N):
        mine = chosen & ~rows.first & (rows.bucket == b)
        shape = [1] * _N
        shape[b] = MOST
        widths = np.arange(1, MOST + 1)
        costs = costs + np.minimum(widths[:, None], rows.most[mine]).sum(1).reshape(shape)
        gains = gains + _within(rows, mine, widths).reshape(shape)
    order = np.lexsort((-gains.ravel(), costs.ravel()))
    best = np.maximum.accumulate(gains.ravel()[order])
    steps = order[np.concatenate([[True], best[1:] > best[:-1]])]
    n = int(chosen.sum())
    out = []
    for place in steps:
        w = [int(k) + 1 for k in np.unravel_index(int(place), gains.shape)]
        table = WidthTable((w[0], w[1], w[2], w[3]), rows.own.beam)
        out.append((float(costs.ravel()[place]) / n, float(gains.ravel()[place]) / n, table))
    return tuple(out)


def _within(rows: Recorded, mine: Bools, widths: Ints) -> Floats:
    """How many are covered by each width, trims as they were."""
    inside = rows.rank[mine] <= np.minimum(widths[:, None], rows.most[mine])
    found: Floats = inside.sum(1).astype(np.float64)
    return found


def _steps(rows: Recorded, now: Ints, stops: bool) -> tuple[int, int]:
    """Places on the path where some expansion offers the token that was written: of those that went on, or ended."""
    at = rows.step >= 0
    hit = np.zeros(len(rows.stops), dtype=bool)
    np.logical_or.at(hit, rows.step[at], (rows.rank <= now)[at])
    mine = rows.stops == stops
    return int(hit[mine].sum()), int(mine.sum())


def _words(n: int, shares: tuple[float, float], children: tuple[float, float]) -> str:
    ran, here = shares
    before, now = children
    if (ran, before) == (here, now):
        return f"Of {n:,} expansions {percent(here)} offered the target's token, with {number(now / n)} children each."
    return (
        f"Of {n:,} expansions {percent(here)} would offer the target's token instead of {percent(ran)}, with "
        f"{_spent(before, now)} "
        f"({number(now / n)} instead of {number(before / n)} each)."
    )


def _check(rows: Recorded, off: int, n: int) -> str:
    if rows.mixed:
        return "The run used several tables; the sliders begin at the most frequent one."
    trims = f" {rows.n_trimmed:,} trims stay as recorded." if rows.n_trimmed else ""
    if off:
        return f"The run's own table gives other widths at {off:,} of {n:,} expansions than are on record.{trims}"
    return f"The run's own table gives the recorded widths at all {n:,} expansions.{trims}"


def _spent(before: float, now: float) -> str:
    """What the children are to those before; percents end at twofold."""
    if now == before:
        return "as many children"
    if not before or now >= 2 * before:
        return f"{times(now / before)} as many children" if before else "children where there were none"
    return f"{percent(abs(now / before - 1))} {'more' if now > before else 'fewer'} children"
