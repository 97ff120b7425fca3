"""What a pipelined drafter (SpecBranch, PEARL) leaves besides counts: fates, branches, signals, drafting for nothing.

Its tokens are settled in a later round than they were born in, so nothing about them can be read off the counts of
one round. Everything here needs level `summary`.
"""

from collections import Counter
from fractions import Fraction

import msgspec

from specviz.events import DraftStep, Event, Fork, Header, Match, Node, Posterior, RoundEnd, Settle, Signal, TokenFate
from specviz.metrics.sums import Ratio


class Cells(msgspec.Struct):
    """Drafted positions of a round on one path and those of them thrown away; settled cells, and those not kept."""

    path: int = 0
    path_void: int = 0
    cells: int = 0
    cells_void: int = 0


class Pipeline:
    """Give it every record in order; `close` answers at a round's end."""

    def __init__(self) -> None:
        self.active = False  # whether the run is a pipelined one
        self.matches: Counter[tuple[int, bool]] = Counter()  # by branches forked, and whether one was hit
        self.masses = Ratio()
        self.confusion: dict[int, Counter[int]] = {}  # predicted -> true
        self.wasted_ns = 0
        self._n_masses = 0
        self._round: list[Event] = []

    def add(self, event: Event) -> None:
        """Take in a record of a round."""
        if isinstance(event, Header):
            self.active = event.method_traits.pipelined
        elif isinstance(event, Node | Fork | Match | Posterior | Settle | Signal | DraftStep):
            self._round.append(event)
            self.active = self.active or isinstance(event, Fork | Settle)

    def begin(self) -> None:
        """A round begins; what an aborted one left is dropped."""
        self._round = []

    def close(self, end: RoundEnd) -> Cells | None:
        """What the round adds; None where every draft is settled by its own round."""
        records, self._round = self._round, []
        if not self.active:
            return None
        fork = next((e for e in records if isinstance(e, Fork)), None)
        fates = Counter(fate for e in records if isinstance(e, Settle) for _, fate in e.fates)
        self.wasted_ns += sum(e.wasted_ns for e in records if isinstance(e, Settle))
        for match in (e for e in records if isinstance(e, Match)):
            if fork is not None and fork.k:
                self.matches[fork.k, match.branch is not None] += 1
            if match.mass is not None:
                self._n_masses += 1
                self.masses.add(self._n_masses, match.q, Fraction(match.mass), 1)
        self._judge_signal(records, fates, end)
        nodes = [e for e in records if isinstance(e, Node)]
        length = len({node.pos for node in nodes if node.branch is not None})
        void = fates["rejected"] + fates["orphaned"] + (length if fates["branch_void"] else 0)
        path = sum(node.branch is None for node in nodes) + length
        settled = sum(fates.values())
        return Cells(path, void, settled, settled - fates["accepted"])

    def _judge_signal(self, records: list[Event], fates: Counter[TokenFate], end: RoundEnd) -> None:
        """What the classifier should have said, where the verdict tells.

        A rejection does, wherever it falls: none or some of the draft was worth keeping. All kept and accepted says
        `all`, but only if the signal had cut nothing off. Nothing kept leaves the question open.
        """
        signal = next((e for e in records if isinstance(e, Signal) and e.source == "hrad"), None)
        if signal is None:
            return
        if fates["rejected"]:
            true = 1 if end.n_accepted else 0
        elif self._kept(records) and not self._was_cut(records) and not fates["unverified_at_end"]:
            true = 2
        else:
            return
        self.confusion.setdefault(signal.s, Counter())[true] += 1

    def _kept(self, records: list[Event]) -> int:
        posterior = next((e for e in records if isinstance(e, Posterior)), None)
        trunk = sum(isinstance(e, Node) and e.branch is None for e in records)
        return posterior.n_kept if posterior is not None else trunk

    def _was_cut(self, records: list[Event]) -> bool:
        trimmed = any(e.n_trimmed for e in records if isinstance(e, Posterior))
        return trimmed or any(e.stopped for e in records if isinstance(e, DraftStep) and e.branch is None)
