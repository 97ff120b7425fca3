"""Drafted chains of recorded rounds, and how much of each every rule keeps in expectation.

What a rule keeps of a drawn chain is, over the draws, the sum of its credits: the chance that the first t tokens are
kept, given that they were drafted, which `p` and `q` of the drafted tokens decide alone. So a recorded chain says of
every rule what it is worth, whichever rule judged it, without its luck: differences of rules are paired draft by draft.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.metrics.estimate import Estimate, mean_difference
from specviz.metrics.replay_rules import links
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.trace import read_events
from specviz.trace.bundled import assets, traces_in
from specviz.traits import TOKENWISE, Rule
from specviz_lab.clinic.case import cases_in, usual_folders

_FEW = 12  # rounds of a pair below which nothing is said
_ENOUGH = 8  # recordings from which on they are the units of an interval, and not their rounds


@dataclass(frozen=True, slots=True)
class RecordedChain:
    """One round. `credits`: by rule, one a position; `kept`: tokens that the run's own rule kept; `tested`: those that
    a forward rule looked at."""

    recording: str
    credits: dict[Rule, tuple[float, ...]]
    kept: int
    tested: int

    def expected(self, rule: Rule, gamma: int | None = None) -> float:
        """Tokens that the rule keeps of such a chain, or of its first `gamma` tokens."""
        return sum(self.credits[rule][:gamma])


def bundled_recordings() -> list[Path]:
    """Those that come with the package, lessons included."""
    return [path for folder in ("traces", "lessons") for path in traces_in(assets(folder))]


def healthy_recordings() -> list[Path]:
    """The healthy twins of the clinic. Raises SpecvizError outside a checkout, which alone holds them."""
    recordings = [f / "run.sv.jsonl.gz" for root in usual_folders() for case, f in cases_in(root) if not case.ill]
    if not recordings:
        raise SpecvizError("the recordings of benchmarks/clinic are part of a checkout: run it there, or with --quick")
    return recordings


def by_pair(paths: list[Path]) -> dict[str, list[RecordedChain]]:
    """Drawn chains by the pair and temperature they were decoded with, in that order."""
    pairs: dict[str, list[RecordedChain]] = defaultdict(list)
    for path in paths:
        title, chains = _chains(path)
        if chains:
            pairs[title].extend(chains)
    return dict(sorted(pairs.items()))


@cache
def _chains(path: Path) -> tuple[str, tuple[RecordedChain, ...]]:
    run = fold(read_events(path))
    if run.header is None or not run.header.models.draft or not run.header.sampling.get("temperature"):
        return "", ()
    return _title(run.header), tuple(chains_of(run, path.parent.name + path.name))


def chains_of(run: Run, recording: str) -> Iterator[RecordedChain]:
    """Those of its rounds that hold one, drawn, with both probabilities."""
    for record in run.rounds:
        chain = _chain(recording, record)
        if chain is not None:
            yield chain


def _title(header: Header) -> str:
    target, draft = header.models.target, header.models.draft
    names = [model.name if model is not None else "?" for model in (target, draft)]
    return f"`{' ⇐ '.join(names)}`, T = {header.sampling['temperature']:g}"


def _chain(recording: str, record: RoundRecord) -> RecordedChain | None:
    """None where the round drafted no single drawn chain, or does not hold both probabilities of all its tokens."""
    nodes = [node for node in record.nodes.values() if node.kept]
    in_line = all(node.parent == before.node for before, node in pairwise(nodes))
    if not record.complete or not nodes or not in_line or any(node.branch is not None for node in nodes):
        return None
    positions = links(nodes, record.verdicts, {}, None, None)
    if len(positions) < len(nodes):
        return None
    credits = {rule: tuple(position.credit[rule] for position in positions) for rule in positions[0].credit}
    kept = sum(record.verdicts[node.node].status == "accepted" for node in nodes)
    return RecordedChain(recording, credits, kept, min(kept + 1, len(nodes)))


def difference(chains: list[RecordedChain], rule: Rule, base: Rule) -> Estimate | None:
    """Tokens a round that `rule` keeps more than `base`, paired by draft."""
    return mean_difference([c.expected(rule) - c.expected(base) for c in chains], units(chains))


def mean_kept(chains: list[RecordedChain], rule: Rule) -> float:
    """Tokens of a round that the rule keeps in expectation."""
    return sum(chain.expected(rule) for chain in chains) / len(chains)


def units(chains: list[RecordedChain]) -> Sequence[int]:
    """What counts as independent: recordings where there are enough of them, else rounds."""
    names = sorted({chain.recording for chain in chains})
    if len(names) < _ENOUGH:
        return range(len(chains))
    return [names.index(chain.recording) for chain in chains]


def pairs_of(quick: bool) -> Iterator[tuple[str, list[RecordedChain]]]:
    """Pairs whose rounds say something; `quick`: out of the recordings of the package alone."""
    paths = bundled_recordings() if quick else [*bundled_recordings(), *healthy_recordings()]
    for title, chains in by_pair(paths).items():
        # Of a chain of one token all rules keep the same.
        if len(chains) >= _FEW and max(len(chain.credits[TOKENWISE]) for chain in chains) > 1:
            yield title, chains
