"""What a pipelined drafter (SpecBranch, PEARL) leaves besides counts: fates, branches, signals, drafting for nothing.

Its tokens are settled in a later round than they were born in, so nothing about them can be read off the counts of
one round. Everything here needs level `summary`.
"""

from collections import Counter
from fractions import Fraction

import msgspec

from specviz.events import DraftStep, Fork, Header, Match, Posterior, RoundEnd, Settle, Signal, TokenFate
from specviz.metrics.sums import Ratio
from specviz.runlog.run import RoundRecord


class Cells(msgspec.Struct):
    """Drafted positions of a round on one path and those of them thrown away; settled cells, and those not kept."""

    path: int = 0
    path_void: int = 0
    cells: int = 0
    cells_void: int = 0


class Pipeline:
    """Give it every finished round in order."""

    def __init__(self) -> None:
        self.active = False  # whether the run is a pipelined one
        self.matches: Counter[tuple[int, bool]] = Counter()  # by branches forked, and whether one was hit
        self.masses = Ratio()
        self.confusion: dict[int, Counter[int]] = {}  # predicted -> true
        self.wasted_ns = 0
        self._n_masses = 0

    def begin(self, header: Header) -> None:
        """A run begins."""
        self.active = header.method_traits.pipelined

    def take(self, record: RoundRecord, end: RoundEnd) -> Cells | None:
        """What the round adds; None where every draft is settled by its own round."""
        forks, settles = record.every(Fork), record.every(Settle)
        self.active = self.active or bool(forks or settles)
        if not self.active:
            return None
        fates = Counter(fate for settle in settles for _, fate in settle.fates)
        self.wasted_ns += sum(settle.wasted_ns for settle in settles)
        for match in record.every(Match):
            if forks and forks[0].k:
                self.matches[forks[0].k, match.branch is not None] += 1
            if match.mass is not None:
                self._n_masses += 1
                self.masses.add(self._n_masses, match.q, Fraction(match.mass), 1)
        self._judge_signal(record, fates, end)
        length = len({node.pos for node in record.nodes.values() if node.branch is not None})
        void = fates["rejected"] + fates["orphaned"] + (length if fates["branch_void"] else 0)
        path = _n_trunk(record) + length
        settled = sum(fates.values())
        return Cells(path, void, settled, settled - fates["accepted"])

    def _judge_signal(self, record: RoundRecord, fates: Counter[TokenFate], end: RoundEnd) -> None:
        """What the classifier should have said, where the verdict tells.

        A rejection does, wherever it falls: none or some of the draft was worth keeping. All kept and accepted says
        `all`, but only if the signal had cut nothing off. Nothing kept leaves the question open.
        """
        signal = next((signal for signal in record.every(Signal) if signal.source == "hrad"), None)
        if signal is None:
            return
        posteriors = record.every(Posterior)
        n_kept = posteriors[0].n_kept if posteriors else _n_trunk(record)
        cut = any(posterior.n_trimmed for posterior in posteriors)
        cut = cut or any(step.stopped for step in record.every(DraftStep) if step.branch is None)
        if fates["rejected"]:
            true = 1 if end.n_accepted else 0
        elif n_kept and not cut and not fates["unverified_at_end"]:
            true = 2
        else:
            return
        self.confusion.setdefault(signal.s, Counter())[true] += 1


def _n_trunk(record: RoundRecord) -> int:
    """Tokens drafted on the one path before branches."""
    return sum(node.branch is None for node in record.nodes.values())
