"""The expansions of a run as columns, and the children that any width table would give them (specblock.md 5.2)."""

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

MOST = 20  # ranks that a width can reach
_FAR = MOST + 1  # a token that no width reaches
_N = len(BUCKETS)
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

    return Recorded(
        own=own, mixed=mixed, bucket=column([each.bucket for each, _, _ in rows]),
        rank=column([min(_FAR, _rank(each) or _FAR) for each, _, _ in rows]),
        given=column([each.n_children for each, _, _ in rows]),
        most=column([_most(each) for each, _, _ in rows]),
        first=column([each.block == 1 and each.slot == 0 for each, _, _ in rows]),
        begins=column([begins for _, begins, _ in rows]),
        known=column([each.true_bucket is not None for each, _, _ in rows]),
        on_path=column([each.on_path for each, _, _ in rows]),
        block=column([each.block for each, _, _ in rows]), slot=column([each.slot for each, _, _ in rows]),
        step=column([step for _, _, step in rows]), stops=column(stops),
        n_trimmed=sum(each.width_reason == "trim" for each, _, _ in rows),
    )  # fmt: skip


def _rank(each: Expansion) -> int | None:
    return each.true_rank_emitted if each.on_path else each.true_rank_argmax


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
