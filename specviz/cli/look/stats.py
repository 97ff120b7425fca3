"""`specviz stats`: the metrics of recorded runs, and tables of them asked by SQL, for people or as JSON."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import msgspec

from specviz.cli.flags import flag, max_mb_option, text
from specviz.cli.look.watch import counters_object
from specviz.cli.printing import echo_json, narrate
from specviz.errors import SpecvizError, TraceError
from specviz.events import Calibration, End, Header
from specviz.judge.reading import RoundPlaces
from specviz.metrics import Metrics, Tally
from specviz.text import running
from specviz.trace import Trace
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.judge.judgement import judge
from specviz.view.panels.lanes.payoff import pay_object, pay_panel


class Measured(msgspec.Struct):
    """One trace: where it came from, how it ended, its numbers, and what they say."""

    file: str
    header: Header
    end: End | None
    growing: bool
    torn: bool
    metrics: Metrics
    judgement: RunJudgement = NO_JUDGEMENT
    costs: Calibration | None = None  # of passes on the machine that wrote it


@click.command("stats")
@click.argument("files", metavar="FILE [FILE]...", nargs=-1)
@flag("--json as_json", "One JSON object on standard output.")
@flag("--check", "Decide every recorded test again, and compare the file's hash.")
@text("--sql", "SELECT", "Ask the files by SQL (DuckDB), which only reads.")
@flag("--csv as_csv", "With --sql: CSV on standard output.")
@flag("--tables", "Show what --sql can ask: the tables, their columns and what these mean.")
@max_mb_option
def command(files: tuple[str, ...], as_json: bool, check: bool, sql: str | None, as_csv: bool, tables: bool) -> None:
    """Print what a trace says: the run in one line, what stands out with the rounds that show it, then every metric:
    whole run, per position, per depth, with 95 % intervals.

    Where the trace says what passes cost on its machine: which draft length would be fastest and by how much, and how
    much of what the machine allows a round reaches.

    Of a history of counters (specviz watch -o) it prints what those know.

    Intervals of ratios are by the delta method over rounds (over queries from 8 queries on), those of shares by
    Wilson. With several files --json gives {"runs": [..]}. A trace that is still being recorded is measured as far as
    it goes.

    With --sql the files may also be folders of traces, patterns in quotes, and folders that 'specviz export --parquet'
    wrote. Tables: runs, requests, rounds, nodes, tests; the column run says which recording a row is of.

    \b
      specviz stats run.sv.jsonl.gz
      specviz stats --sql 'select run, avg(n_emitted) from rounds group by run' 'runs/*.gz'
    """
    if tables or sql is not None:
        from specviz.cli.look import query

        if check:
            raise SpecvizError("--check says nothing of --sql; leave one of them out")
        query.print_tables(as_json) if tables else query.answer(sql or "", files, as_csv, as_json)
        return
    if as_csv:
        raise SpecvizError("--csv is for what --sql finds; 'specviz export --csv DIR' writes whole tables")
    if not files:
        raise click.MissingParameter(param_type="argument", param_hint="'FILE [FILE]...'")
    _measure([Path(name) for name in files], as_json, check)


def _measure(files: list[Path], as_json: bool, check: bool) -> None:
    from specviz.engines.watch import picture_of, read_history
    from specviz.engines.watch.history import is_history

    measured = [measure_file(path, check) for path in files]
    watched = {path: picture_of(read_history(path)) for path in files if is_history(path)}
    for path, run in zip(files, measured, strict=True):
        for line in remarks(run, path in watched):
            narrate(line)
    if as_json:
        objects = [
            {"file": run.file, "counters": counters_object(watched[path])} if path in watched else as_object(run)
            for path, run in zip(files, measured, strict=True)
        ]
        echo_json(objects[0] if len(objects) == 1 else {"runs": objects})
        return
    from specviz.cli.look.tables import print_panels, print_run  # rich is not needed for JSON
    from specviz.cli.look.watch import tell

    for number, (path, run) in enumerate(zip(files, measured, strict=True)):
        if path in watched:
            click.echo(f"{'' if number == 0 else chr(10)}{running(run.file)}")
            tell(watched[path], as_json=False)
            continue
        print_run(run.file, run.header, run.end, run.metrics, run.judgement, first=number == 0, costs=run.costs)
        print_panels(path, run.header)


def measure_file(path: Path, check: bool = False) -> Measured:
    """Reads a trace and measures it. Raises TraceError for anything that is no whole, readable trace."""
    with Trace(path, check) as trace:
        growing = trace.growing
        places = RoundPlaces()
        tally = Tally().add_all(places.passing(trace.read()))
        if trace.header is None:
            raise TraceError(f"{trace.path} has nothing in it yet: its recorder has only begun, try again in a moment")
        if check and trace.intact() is False:
            raise TraceError(
                f"{trace.path} was changed after it was recorded: its bytes do not have the hash in its end record"
            )
        if check and trace.n_trailing:
            raise TraceError(f"{trace.path}: {trace.n_trailing} bytes behind its end are no part of the gzip data")
        metrics = tally.summary()
        judgement = judge(tally.run, tally, metrics, places.find) if tally.run is not None else NO_JUDGEMENT
        return Measured(str(trace.path), trace.header, trace.end, growing, trace.torn, metrics, judgement, tally.costs)


def remarks(run: Measured, counters: bool = False) -> Iterator[str]:
    """What a reader must know besides the numbers. `counters`: of a history, which has no rounds to begin with."""
    file = running(run.file)
    if run.end is None:
        yield (
            f"specviz: {file}: still being recorded"
            if run.growing
            else f"specviz: {file}: cut off, there is no end record"
        )
    elif run.end.reason not in ("done", "stopped"):
        why = f": {running(run.end.message)}" if run.end.message else ""
        yield f"specviz: {file}: the run ended early ({running(run.end.reason)}{why})"
    if run.torn and not run.growing:
        yield f"specviz: {file}: the last line is torn and was left out"
    if run.header.level == "none" and run.header.outside is None and not counters:  # the card of an engine's run says
        yield f"specviz: {file}: recorded with --level none: nothing per position or depth"


def as_object(run: Measured) -> dict[str, Any]:
    """The object of `--json`: metrics by the names of the contract, an estimate as value, interval and n."""
    header = run.header
    return {
        "file": run.file,
        **{name: getattr(header, name) for name in ("method", "verifier", "lossless", "level", "sampling", "knobs")},
        "end": run.end.reason if run.end else None,
        "torn": run.torn,
        "judgement": judged_object(run.judgement),
        "metrics": run.metrics.as_dict(),
        **pay_object(pay_panel(header, run.costs, run.metrics, header.knobs)),
    }


def judged_object(judgement: RunJudgement) -> dict[str, Any]:
    """The run in one line and its parts; findings with the places that show them, as `specviz tui --at` takes them."""
    return {
        "line": judgement.line,
        **{name: getattr(judgement, name) for name in ("tokens", "speed", "basis", "basis_words")},
        "findings": [finding.as_object() for finding in judgement.findings],
        **({} if judgement.card is None else {"card": asdict(judgement.card)}),
    }
