"""SpecBlock (arXiv 2605.07243) beside EAGLE-3: recorded trees cut to smaller budgets, and rank buckets."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from specviz.events import Expansion, Node
from specviz.metrics.estimate import Estimate, mean_difference
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.trace import read_events
from specviz.trace.bundled import bundled_traces
from specviz_lab.papers.table import ComputedTable, Paper, decimal, rows_of, within

_BLOCKS, _LEVELS, _STREAM = "explain-specblock", "explain-eagle3", "stream-specblock"
_BUDGETS = (1, 4, 8, 12, 16, 24)
_STEPS = (0.02, 0.05, 0.1)  # a drafter's call, in passes of the target
_CALLS = {_BLOCKS: 2, _LEVELS: 8}
# Llama-3.1-8B at T = 0: calls a round, share of drafting in a round, speed-up, tokens a round.
_PUBLISHED = "EAGLE-3 | 8 | .31 | 3.59 | 5.89\nSpecBlock | 2 | .16 | 3.92 | 5.16"


@cache
def _run(name: str) -> Run:
    return fold(read_events(bundled_traces()[name]))


def kept_within(record: RoundRecord, budget: int) -> int:
    """Tokens that the round keeps of its tree cut to `budget` nodes.

    Exact for budgets up to the recorded one: a smaller tree is made of the best nodes of the raw tree, in the same
    order, and the target's tokens are those it drew.
    """
    nodes = [node for node in record.nodes.values() if node.node >= record.born]
    best = sorted(nodes, key=lambda node: (-_score(node), node.depth, node.node))[:budget]
    inside = {node.node for node in best}
    return sum(v.status == "accepted" and v.node in inside for v in record.verdicts.values())


def _score(node: Node) -> float:
    score = node.src.get("cum")
    assert isinstance(score, float | int), "a tree without scores is cut by none"
    return float(score)


def _lengths(name: str, budget: int) -> list[int]:
    records = [record for record in _run(name).rounds if record.complete and record.verdicts]
    return [1 + kept_within(record, budget) for record in records]


def _mean(values: Sequence[int]) -> Estimate | None:
    return mean_difference(values, range(len(values)))


def _budget() -> ComputedTable:
    lines = []
    for budget in _BUDGETS:
        blocks, levels = _lengths(_BLOCKS, budget), _lengths(_LEVELS, budget)
        ratio = (sum(blocks) / len(blocks)) / (sum(levels) / len(levels))
        lines.append((str(budget), within(_mean(blocks), 2), within(_mean(levels), 2), decimal(ratio, 2)))
    return ComputedTable(("nodes", "SpecBlock, 2 calls", "EAGLE-3, 8 calls", "SpecBlock of EAGLE-3"), rows_of(lines))


def _clock() -> ComputedTable:
    lines = []
    for name, calls in _CALLS.items():
        lengths = _lengths(name, 24)
        tokens = sum(lengths) / len(lengths)
        speeds = (decimal(tokens / (1 + calls * step), 2) for step in _STEPS)
        lines.append((f"`{name}`", str(calls), decimal(tokens, 2), *speeds))
    return ComputedTable(
        ("recording", "calls", "tokens a round", *(f"a call {decimal(s, 2)}" for s in _STEPS)), rows_of(lines)
    )


def _published() -> ComputedTable:
    lines = []
    for line in _PUBLISHED.splitlines():
        method, calls, share, speed, tokens = (part.strip() for part in line.split("|"))
        spent = float(share) / (1 - float(share))
        lines.append((method, calls, share, speed, tokens, decimal(spent, 2), decimal(spent / int(calls))))
    names = (
        "calls",
        "share of drafting",
        "speed-up",
        "tokens a round",
        "drafting, in other work",
        "a call, in other work",
    )
    return ComputedTable(("method", *names), rows_of(lines))


def _ranks() -> ComputedTable:
    counts: Counter[tuple[int, int]] = Counter()
    for name in (_BLOCKS, _STREAM):
        for record in _run(name).rounds:
            for offer in record.every(Expansion):
                if offer.true_bucket is not None and offer.bucket is not None:
                    counts[offer.true_bucket, offer.bucket] += 1
    lines = []
    for true, words in enumerate(("1", "2 to 4", "5 to 10", "over 10")):
        row = [counts[true, told] for told in range(4)]
        lines.append((f"rank {words}", *map(str, row), decimal(row[true] / sum(row), 2)))
    return ComputedTable(("true \\ predicted", "1", "2 to 4", "5 to 10", "over 10", "right"), rows_of(lines))


def _widths() -> ComputedTable:
    from specviz.methods.specblock.growth import PRESETS  # which imports torch

    lines = [
        (f"`{name}`", *map(str, preset.widths), str(preset.budget), "on" if preset.trims else "off")
        for name, preset in PRESETS.items()
    ]
    return ComputedTable(("preset", "rank 1", "2 to 4", "5 to 10", "over 10", "nodes", "trims"), rows_of(lines))


PAPER = Paper(
    "specblock",
    "SpecBlock",
    {"widths": _widths, "budget": _budget, "clock": _clock, "published": _published, "ranks": _ranks},
)
