"""`RankFacts`: the expansions of all finished rounds of a run, counted once and filtered when asked.

The arithmetic is that of `specviz.metrics.ranks`; here it is only known which round an expansion belongs to.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from specviz.events import Expansion
from specviz.runlog.fold import Run, kept_path
from specviz.runlog.run import RoundRecord
from specviz.view.panels import CachedValue
from specviz.view.panels.ranks.model import RankFilter
from specviz.view.words.palette import ROOT

if TYPE_CHECKING:
    from specviz.metrics.ranks import ScoredExpansion


@dataclass(frozen=True, slots=True)
class Placed:
    """An expansion of a finished round. `index` counts rounds over the run."""

    index: int
    seen: "ScoredExpansion"


@dataclass
class RankFacts:
    """Of one run. `update` takes in the rounds that have ended since."""

    run: Run
    placed: list[Placed] = field(default_factory=list)
    _done: int = 0
    _picked: "CachedValue[Picked]" = field(default_factory=CachedValue)

    @property
    def n_behind(self) -> int:
        """Rounds not counted yet."""
        return len(self.run.rounds) - self._done

    def update(self, n_rounds: int | None = None) -> None:
        """Count rounds, at most so many. They end in order; one that is still open waits."""
        rounds = self.run.rounds
        stop = len(rounds) if n_rounds is None else min(len(rounds), self._done + n_rounds)
        while self._done < stop and rounds[self._done].complete:
            self._next(rounds[self._done])

    def take(self, record: RoundRecord) -> None:
        """The next round, as it ended; another one is left to `update`."""
        if record.index == self._done and record.complete:
            self._next(record)

    def _next(self, record: RoundRecord) -> None:
        from specviz.metrics.ranks import seen

        self.placed += [Placed(record.index, seen(expansion)) for expansion in record.expansions]
        self._done += 1

    def kept(self) -> bytes:
        """As MessagePack."""
        return msgspec.msgpack.encode((self._done, [p.index for p in self.placed], [p.seen for p in self.placed]))

    def from_cache(self, data: bytes) -> None:
        """What was kept, in place of counting. Raises ValueError for something else."""
        from specviz.metrics.ranks import ScoredExpansion

        done, at, kept = msgspec.msgpack.decode(data, type=tuple[int, list[int], list[ScoredExpansion]])
        self.placed = [Placed(index, seen_expansion) for index, seen_expansion in zip(at, kept, strict=True)]
        self._done = done

    def pick(self, wanted: RankFilter) -> "Picked":
        """The expansions a filter lets through, counted once per filter and state of the run."""
        return self._picked.of(
            (wanted, self._done), lambda: Picked(tuple(p for p in self.placed if passes(p.seen, wanted)), wanted)
        )

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(sorted({placed.seen.block for placed in self.placed}))

    @property
    def slots(self) -> tuple[int, ...]:
        return tuple(sorted({placed.seen.slot for placed in self.placed}))


@dataclass
class Picked:
    """The expansions of one filter, unknown ones among them."""

    placed: tuple[Placed, ...]
    wanted: RankFilter

    @cached_property
    def seen(self) -> list["ScoredExpansion"]:
        return [placed.seen for placed in self.placed]

    @cached_property
    def known(self) -> list["ScoredExpansion"]:
        """The expansions whose parent the target verified, so that the true rank is known."""
        return [seen for seen in self.seen if seen.true is not None]


def passes(seen: "ScoredExpansion", wanted: RankFilter) -> bool:
    """Whether a filter lets an expansion through. Off the path nothing is known to lie on it."""
    return (
        (wanted.block is None or seen.block == wanted.block)
        and (wanted.slot is None or seen.slot == wanted.slot)
        and (not wanted.path_only or seen.on_path)
    )


def maker_of(record: RoundRecord, node: int) -> Expansion | None:
    """The expansion that made a node: named by it, or the one of its block and slot at its parent."""
    born = record.nodes.get(node)
    if born is None:
        return None
    named = born.src.get("expansion")
    if isinstance(named, int):
        return next((expansion for expansion in record.expansions if expansion.id == named), None)
    place = (born.parent, born.src.get("block"), born.src.get("slot"))
    return next(
        (expansion for expansion in record.expansions if (expansion.parent, expansion.block, expansion.slot) == place),
        None,
    )


def true_token(record: RoundRecord, expansion: Expansion, written: bool) -> int | None:
    """The token that was written after an expansion's parent, or the target's best there; None: not on record."""
    if written:
        path = [ROOT, *kept_path(record)]
        tokens = record.commit.tokens if record.commit is not None else []
        at = path.index(expansion.parent) if expansion.parent in path else len(tokens)
        return tokens[at] if at < len(tokens) else None
    rank = expansion.true_rank_argmax
    if rank is not None and expansion.top and rank <= len(expansion.top):
        return expansion.top[rank - 1][0]
    siblings = [i for i, node in record.nodes.items() if node.parent == expansion.parent and i in record.verdicts]
    return next((best for i in siblings if (best := record.verdicts[i].argmax_p) is not None), None)


def offering(record: RoundRecord, node: int) -> list[Expansion]:
    """Every expansion that offered a node: the one that made it, then those it was merged with."""
    born, maker = record.nodes.get(node), maker_of(record, node)
    merged = set(born.src.get("merged") or ()) if born is not None else set()
    return [expansion for expansion in record.expansions if expansion is maker or expansion.id in merged]
