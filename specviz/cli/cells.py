"""What tables on standard output are made of: columns, estimates as three cells, figures."""

from rich import box
from rich.table import Table

from specviz.metrics import Estimate
from specviz.view.words import numbers


def table_of(first: str, *others: str) -> Table:
    """A table; every column but the first is numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=bool(heading))
    return table


def cells(estimate: Estimate | None) -> tuple[str, str, str]:
    """Value, interval, n."""
    if estimate is None:
        return numbers.UNKNOWN, "", ""
    unknown = {"few": "n too small", "alike": "all alike"}.get(estimate.why_unknown or "", "")
    interval = unknown if estimate.interval is None else " .. ".join(map(figure, estimate.interval))
    return figure(estimate.value), interval, f"{estimate.n:,}"


def figure(value: float) -> str:
    """Two digits from 1 on, more below, so that a small share does not read as nothing."""
    size = abs(value)
    return numbers.number(value, 2 if size >= 1 or not size else 3 if size >= 0.01 else 5)
