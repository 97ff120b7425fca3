"""What was held against plain decoding, as words."""

from collections.abc import Sequence

from specviz.comparison.sheets import Column, Sheet, sheet
from specviz.text import running
from specviz_lab.bench.identity import IdentityReport, MethodIdentity
from specviz_lab.bench.report.page import machine_line


def heading(report: IdentityReport) -> list[str]:
    """What must be known before any number, and what was found."""
    target = report.target
    left_out = [f"left out: {running(why)}" for why in report.left_out]
    return [
        machine_line(report.machine),
        f"target {running(target.name)}, {target.dtype}, {report.threads} threads; rows exact: {running(report.exact)}",
        *left_out,
        verdict(report),
        *(f"first differences: {running(text)}" for text in report.first[:3]),
    ]


def verdict(report: IdentityReport) -> str:
    """In one line, what differs."""
    mark = "✗" if report.n_differing or report.n_rows_differing else "✓"
    return (
        f"{mark} {report.n_differing:,} of {report.n_tokens:,} tokens and {report.n_rows_differing:,} of "
        f"{report.n_rows:,} law rows differ from plain decoding's{' (the time was up)' if report.cut else ''}"
    )


_COLUMNS: Sequence[Column[MethodIdentity]] = (
    ("method", lambda method: method.name),
    ("tokens", lambda method: f"{method.n_tokens:,}"),
    ("differing", lambda method: f"{method.n_differing:,}"),
    ("law rows", lambda method: f"{method.n_rows:,}"),
    ("differing bits", lambda method: f"{method.n_rows_differing:,}"),
    ("rounds", lambda method: f"{method.n_rounds:,}"),
    ("widest pass", lambda method: f"{method.n_widest:,} rows"),
)


def sheets(report: IdentityReport) -> list[Sheet]:
    """Every method by itself."""
    note = (
        "under walk, knobs drawn anew before every round, T in turn 0, .8 and 1, there by prompt top-p, top-k, min-p, "
        "a penalty or nothing of it; law rows: the logits and the law that decided each token, compared bit for bit "
        "until a token differs"
    )
    return [sheet("Against plain decoding", report.methods, _COLUMNS, note)]
