"""`specviz diff`: two recordings or sets of them against each other, and a gate for regressions."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from specviz.cli.flags import flag, max_mb_option
from specviz.cli.printing import echo_json, narrate, table_of
from specviz.text import running

if TYPE_CHECKING:
    from specviz.diff import DiffReport
    from specviz.metrics.sets import NumberChange

_NARROWEST = 90
_PARTINGS = 3


@click.command("diff")
@click.argument("a")
@click.argument("b")
@click.option("--fail-if", "fail_if", multiple=True, metavar="RULE", help="Exit 1 where it holds; several with ; too.")
@flag("--json as_json", "One JSON object on standard output.")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="A report as one HTML file.")
@flag("--force", "Write over a file that is there.")
@max_mb_option
@click.pass_context
def command(
    ctx: click.Context, a: str, b: str, fail_if: tuple[str, ...], as_json: bool, out: Path | None, force: bool
) -> None:
    """Say what changed from A to B: acceptance by position, depth and domain, block efficiency, time, text, settings.

    A and B are traces, recordings of the package by name, folders of traces, or patterns in quotes. Numbers are those
    of stats and compare, with 95 % over the prompts that both have, else over rounds. A rule is METRIC
    drops|rises|changes N% (or N), with 'surely' behind it where the whole interval has to lie beyond, or 'text
    differs'. Metrics: block_efficiency, mean_accepted, draft_acceptance_rate, test_acceptance_rate, tokens_per_second,
    over_plain, drafting_share, survival@K, position_acceptance@K, depth_acceptance@K.

    Exit codes: 0 done · 1 a rule holds · 2 bad input.

    \b
      specviz diff before.sv.jsonl.gz after.sv.jsonl.gz
      specviz diff 'main/*.gz' 'branch/*.gz' --fail-if 'block_efficiency drops 5%; survival@1 drops 0.05 surely'
      specviz diff before after -o report.html
    """
    from specviz.diff import compare_sets, parse_rules, read_set

    rules = parse_rules(fail_if)
    before, after = read_set(a), read_set(b)
    if out is not None:
        _refuse(out, [path for each in (before, after) for path in each.files], force)
    report = compare_sets(before, after)
    gates = [(rule.text, rule.broken(report)) for rule in rules]
    if out is not None:
        from specviz.cli.look.written import unwritten
        from specviz.diff.page import report_page
        from specviz.trace import resolve
        from specviz.trace.private import open_like

        try:
            with open_like(out, [resolve(path) for path in (*before.files, *after.files)]) as file:
                file.write(report_page(report, gates).encode())
        except OSError as error:
            raise unwritten(out, error) from None
        narrate(f"specviz: report in {running(str(out))}")
    if as_json:
        found = [{"rule": text, "holds": why is not None, "why": why} for text, why in gates]
        echo_json({**msgspec.to_builtins(report), "fail_if": found})
    else:
        _print(report)
        for text, why in gates:
            click.secho(
                running(f"passes  {text}" if why is None else f"fails   {text}: {why}"), fg="red" if why else "green"
            )
    if any(why is not None for _, why in gates):
        ctx.exit(1)


def _refuse(out: Path, traces: Iterable[Path], force: bool) -> None:
    from specviz.cli.look.written import refuse_place
    from specviz.trace import resolve

    for path in traces:
        refuse_place(out, resolve(path), force)


def _print(report: "DiffReport") -> None:
    from specviz.console import standard_output
    from specviz.diff.measure import PLACED
    from specviz.diff.page import placed, text_lines

    with standard_output(_NARROWEST) as console:
        for letter, name, n_prompts, n_rounds in zip(
            "AB", (report.a, report.b), report.n_requests, report.n_rounds, strict=True
        ):
            of = "prompt" if n_prompts == 1 else "prompts"
            console.print(f"{letter} {running(name)}: {n_prompts:,} {of}, {n_rounds:,} rounds")
        console.print(f"95 % over {report.units}\n")
        _table(console, "whole runs", report.whole)
        for name, rows in placed(report).items():
            _table(console, f"by {PLACED[name]}", rows)
        for name, rows in report.domain.items():
            _table(console, running(name), rows)
        for line in text_lines(report):
            console.print(line)
        for each in report.partings[:_PARTINGS]:
            console.print(f"  {running(each.a_request)} parts after {each.at:,} tokens: …{running(each.before)}")
            console.print(f"    A {running(each.a_text) or '(ends)'}\n    B {running(each.b_text) or '(ends)'}")
        for name, (mine, other) in report.settings.items():
            console.print(f"set otherwise: {running(name)} {running(', '.join(mine))} → {running(', '.join(other))}")


def _table(console: object, title: str, rows: "Iterable[NumberChange]") -> None:
    from rich.console import Console

    from specviz.diff.page import cells

    assert isinstance(console, Console), type(console)
    table = table_of(title, "A", "B", "change", "95 %")
    for row in rows:
        table.add_row(row.metric, *cells(row))
    console.print(table)
    console.print()
