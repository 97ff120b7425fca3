"""`RoundCounts`: of every finished round its counts, and of every drafted token's text how it fared, counted once."""

from array import array
from dataclasses import dataclass, field
from math import exp

import msgspec

from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.text import shown


class TokenFate(msgspec.Struct):
    """Drafted tokens of one text. `q`, `p`: sums of the probabilities that draft and target gave them, over the tests
    in which both are on record (`n_known`); `index`, `node`: the newest test that was lost."""

    n_tested: int = 0
    n_rejected: int = 0
    n_known: int = 0
    q: float = 0.0
    p: float = 0.0
    index: int = -1
    node: int = -1


@dataclass
class RoundCounts:
    """Of one run. Columns by round: tokens committed, accepted, drafted, nanoseconds."""

    run: Run
    emitted: "array[int]" = field(default_factory=lambda: array("q"))
    accepted: "array[int]" = field(default_factory=lambda: array("q"))
    drafted: "array[int]" = field(default_factory=lambda: array("q"))
    took_ns: "array[int]" = field(default_factory=lambda: array("q"))
    knobs: dict[int, str] = field(default_factory=dict)  # by round: what was set to what
    tokens: dict[str, TokenFate] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.emitted)

    @property
    def n_behind(self) -> int:
        """Rounds not counted yet."""
        return len(self.run.rounds) - len(self)

    def update(self, n_rounds: int | None = None) -> None:
        """Count rounds, at most so many. They end in order; one that is still open waits."""
        rounds = self.run.rounds
        stop = len(rounds) if n_rounds is None else min(len(rounds), len(self) + n_rounds)
        while len(self) < stop and rounds[len(self)].complete:
            self.take(rounds[len(self)])

    def take(self, record: RoundRecord) -> None:
        """The next round, as it ended; another one is left to `update`."""
        end = record.end
        if record.index != len(self) or end is None or not record.complete:
            return
        for column, value in zip(
            (self.emitted, self.accepted, self.drafted, self.took_ns),
            (end.n_emitted, end.n_accepted, end.n_drafted, record.took_ns),
            strict=True,
        ):
            column.append(value)
        if record.changes:
            self.knobs[record.index] = ", ".join(f"{knob.name} {shown(str(knob.new))}" for knob in record.changes)
        for number, verdict in record.verdicts.items():
            node = record.node(number)
            if node is not None and verdict.status in ("accepted", "rejected"):
                self._fate(shown(node.text, node.bytes), record, number)

    def _fate(self, text: str, record: RoundRecord, number: int) -> None:
        verdict, fate = record.verdicts[number], self.tokens.setdefault(text, TokenFate())
        fate.n_tested += 1
        if verdict.logp is not None and verdict.logq is not None:
            fate.n_known, fate.p, fate.q = fate.n_known + 1, fate.p + exp(verdict.logp), fate.q + exp(verdict.logq)
        if verdict.status == "rejected":
            fate.n_rejected, fate.index, fate.node = fate.n_rejected + 1, record.index, number

    def kept(self) -> bytes:
        """As MessagePack."""
        columns = [list(column) for column in (self.emitted, self.accepted, self.drafted, self.took_ns)]
        return msgspec.msgpack.encode((columns, self.knobs, self.tokens))

    def from_cache(self, data: bytes) -> None:
        """What was kept, in place of counting. Raises ValueError for something else."""
        columns, knobs, tokens = msgspec.msgpack.decode(
            data, type=tuple[tuple[list[int], list[int], list[int], list[int]], dict[int, str], dict[str, TokenFate]]
        )
        self.emitted, self.accepted, self.drafted, self.took_ns = (array("q", column) for column in columns)
        self.knobs, self.tokens = knobs, tokens
