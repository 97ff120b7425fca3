"""The tables of `specviz lab prove`: a section a set of tables, the wrong rules, the verdict; and a progress bar."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from specviz import numerals
from specviz.console import standard_output
from specviz.text import running
from specviz_lab.prove.controls import Caught
from specviz_lab.prove.layouts import LAYOUTS
from specviz_lab.prove.report import ProofVerdict, ProvedJob, full, number

T = TypeVar("T")
_NARROWEST = 100  # columns when standard output is no terminal
_SMALL, _ROOMY, _WIDE = 72, 96, 124
WHAT = (
    "Every draft, every accept or reject and every resampled token is followed and summed with its probability; "
    "nothing is sampled. The law of the first gamma+1 tokens must be the target's: after one block, and block after "
    "block with every draw under the key it has in a session."
)
LEGEND = (
    "golden: worked out by other code · closed form: the sum over t of E_q[credit_t] · tokens/call: tokens of a block "
    "for each target call · law: exact means |law - target| = 0 for every text; TV is the total variation between them"
)


def print_proofs(done: Sequence[ProvedJob], caught: Sequence[Caught], verdict: ProofVerdict) -> None:
    """All of it on standard output."""
    with standard_output(_NARROWEST) as console:
        console.print(Text(WHAT, style="dim"))
        for _, group in groupby(done, key=lambda d: d.job.subject.title):
            rows = list(group)
            subject = rows[0].job.subject
            title = f"{running(subject.title)}: V = {subject.problem.vocab}{subject.about}"
            _show(console, title, _proofs(rows, console.width))
        if caught:
            _show(console, "wrong rules, which the check must catch", _controls(caught))
        console.print()
        console.print(Text(LEGEND, style="dim"))
        console.print()
        for good, line in verdict.lines:
            console.print(_line(good, line))


def _proofs(group: list[ProvedJob], width: int) -> Table:
    """One set of tables: its verifiers layout by layout, the more accepting ones further down."""
    order = list(LAYOUTS)
    rows = sorted(group, key=lambda d: (order.index(d.job.layout.name), d.proof.expected_accepted, d.proof.verifier))
    table = _table()
    columns = [column for column in _COLUMNS if column.least <= width and any(map(column.has, rows))]
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", no_wrap=True)
    for done in rows:
        table.add_row(*(column.cell(done) for column in columns))
    return table


def _controls(caught: Sequence[Caught]) -> Table:
    """The wrong rules with their distances, each named once."""
    table = _table()
    table.add_column("rule")
    for title in ("case, gamma", "TV from the target", "known"):
        table.add_column(title, no_wrap=True)
    before = ""
    for catch in caught:
        control = catch.control
        name = Text(control.name).append(f": {control.mistake}", style="dim") if control.name != before else Text()
        before = control.name
        known = "" if control.distance is None else f"{number(control.distance)} "
        mark = Text(f"{known}✓", style="green") if catch.fails else Text(f"{known}✗ missed", style="bold red")
        table.add_row(name, f"{control.case}, {control.gamma}", Text(f"✗ {full(catch.tv)}", style="yellow"), mark)
    return table


def _line(good: bool, text: str) -> Text:
    mark = Text("✓ ", style="bold green") if good else Text("✗ ", style="bold red")
    return Text.assemble(mark, (running(text), "" if good else "bold"))


def _show(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")


def _law_cell(done: ProvedJob) -> Text:
    proof = done.proof
    if proof.lossless:
        largest = max(proof.max_abs_err, proof.chained_max_abs_err)
        return Text("✓ exact" if proof.exact else f"✓ {float(largest):.0e}", style="green")
    return Text(f"✗ TV {number(proof.tv)}", style="red" if proof.claims_lossless else "yellow")


def _golden_cell(done: ProvedJob) -> Text:
    if done.golden is None:
        return Text(numerals.UNKNOWN, style="dim")
    good = bool(done.agrees)
    return Text(
        f"{number(done.golden.expected_accepted)} {'✓' if good else '✗'}", style="green" if good else "bold red"
    )


def _form_cell(done: ProvedJob) -> Text:
    good = done.proof.closed_form_holds
    if good is None:
        return Text(numerals.UNKNOWN, style="dim")
    return Text("✓", style="green") if good else Text(f"✗ {number(done.proof.closed_form)}", style="bold red")


def _accepted_cell(done: ProvedJob) -> Text:
    return Text(", ".join(number(x) for x in done.proof.accepted_law))


@dataclass(frozen=True, slots=True)
class _Column:
    """`least`: columns of the terminal that are needed to show it."""

    title: str
    cell: Callable[[ProvedJob], Any]
    least: int = 0
    right: bool = False
    has: Callable[[ProvedJob], bool] = lambda done: True


_COLUMNS = (
    _Column("verifier", lambda d: Text(running(d.proof.verifier))),
    _Column("draft", lambda d: Text(d.job.layout.words(d.proof.problem))),
    _Column("E[accepted]", lambda d: Text(full(d.proof.expected_accepted))),
    _Column("golden", _golden_cell, _SMALL, has=lambda d: d.golden is not None),
    _Column("closed form", _form_cell, _ROOMY, has=lambda d: d.proof.closed_form is not None),
    _Column("tokens/call", lambda d: Text(f"{float(d.proof.tokens_per_call):.4f}"), _ROOMY, right=True),
    _Column("law", _law_cell),
    _Column("law of the accepted length", _accepted_cell, _WIDE),
)


def in_turn(items: Sequence[T], words: Callable[[T], str]) -> Iterator[T]:
    """The items one after the other, with a bar on standard error that names each; nothing without a terminal."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(items))
        for item in items:
            bar.update(task, description=running(words(item)))
            yield item
            bar.advance(task)
