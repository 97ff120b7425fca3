"""What early exit costs, as rows of words."""

from collections.abc import Callable

from specviz.bench.exit_costs import ExitCosts, TimeAt
from specviz.bench.report.sheet import Sheet
from specviz.bench.results import Report
from specviz.view.words.numbers import UNKNOWN, number


def exit_sheets(report: Report) -> list[Sheet]:
    """Counts of every arm without a draft model; predicted beside measured times of those with a clock."""
    found = [(arm.name, arm.exits) for arm in report.arms if arm.exits is not None]
    rounds = _times("Rounds by rows", found, lambda costs: costs.rounds, _ROUNDS)
    layers = _times("Layer calls by rows", found, lambda costs: costs.layers, _LAYERS)
    return [_counts(found), rounds, layers]


_ROUNDS = (
    "microseconds of drafting and the target's pass, medians; predicted: every layer call by its rows, head tests and "
    "the final head, from costs measured once per model (specbound.md 11.3)"
)
_LAYERS = (
    "microseconds of one layer, medians; layers of one call share its time, and with it what a call costs besides its "
    "layers, which the prediction has not"
)


def _counts(found: list[tuple[str, ExitCosts]]) -> Sheet:
    head = ("method", "len", "layers/token", "cells/token", "tests/token", "rows a round")
    rows = [
        [
            name, number(costs.tokens_per_round), number(costs.layer_calls_per_token), number(costs.cells_per_token),
            number(costs.head_tests_per_token), _shares(costs.widths),
        ]
        for name, costs in found
    ]  # fmt: skip
    note = (
        "arms without a draft model; len: tokens a round (CR); layers: calls of a layer, sequential weight reads; "
        "cells: layers x rows, that is arithmetic; tests: head tests; rows a round: of the last pass, the root among "
        "them, and how often"
    )
    return Sheet("Early exit", head, rows, note)


def _shares(widths: dict[int, int]) -> str:
    total = sum(widths.values())
    return ", ".join(f"{width}: {count / total:.0%}" for width, count in widths.items())


def _times(
    title: str, found: list[tuple[str, ExitCosts]], part: Callable[[ExitCosts], list[TimeAt]], note: str
) -> Sheet:
    rows = []
    for name, costs in found:
        for k, at in enumerate(part(costs)):
            ratio = UNKNOWN if not at.predicted_us else f"{at.predicted_us / at.measured_us:.2f}"
            shown = [str(at.width), str(at.n), number(at.measured_us), number(at.predicted_us), ratio]
            rows.append([name if k == 0 else "", *shown])
    return Sheet(title, ("method", "rows", "n", "measured", "predicted", "predicted/measured"), rows, note)
