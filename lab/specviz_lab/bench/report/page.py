"""What all reports of measurements say."""

from collections.abc import Sequence

from specviz.comparison.machine import Machine
from specviz.comparison.sheets import Column, Sheet, sheet
from specviz.metrics.estimate import Estimate
from specviz.numerals import UNKNOWN, number, percent
from specviz_lab.bench.statistics import Equality


def share(estimate: Estimate | None) -> str:
    return percent(None if estimate is None else estimate.value)


def value(estimate: Estimate | None) -> str:
    return number(None if estimate is None else estimate.value)


def interval(ends: tuple[float, float] | None, form: str = ".3f") -> str:
    """From one end to the other."""
    return UNKNOWN if ends is None else " .. ".join(format(end, form) for end in ends)


def plain(number: float | None, form: str = "g") -> str:
    """A number in a form of its own."""
    return UNKNOWN if number is None else format(number, form)


def machine_line(machine: Machine) -> str:
    """What was measured on, and how busy it was."""
    load = f"load {plain(machine.load_before)} before, {plain(machine.load_after)} after"
    return f"{machine.processor}, {machine.cores} cores, {machine.device}, {machine.threads} threads, {load}"


def equality_sheet(equalities: Sequence[Equality]) -> Sheet:
    """Whether texts were equal where that was promised."""

    def parting(equality: Equality) -> str:
        at = equality.worst
        return UNKNOWN if at is None else f"prompt {at.prompt}, token {at.position}, margin {at.margin:.2g}"

    columns: Sequence[Column[Equality]] = (
        ("method", lambda row: row.arm),
        ("as", lambda row: row.reference),
        ("equal", lambda row: f"{row.n_equal} of {row.n}"),
        ("first divergence", parting),
    )
    note = "texts equal token for token; margin: highest minus second highest logit where the worst pair parts"
    return sheet("Equality", equalities, columns, note)
