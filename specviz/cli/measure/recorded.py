"""Recorded runs side by side, for `specviz compare RUN RUN ..`: nothing is decoded."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from specviz.cli.look.written import read_run
from specviz.cli.printing import echo_json, table_of
from specviz.console import standard_output
from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.trace import resolve
from specviz.view.compare import MOST, CompareRow, RunLane, SideBySide, comparison
from specviz.view.stage.notebook import trace_title
from specviz.view.words.numbers import UNKNOWN, number, percent, plural, prob, uncertainty

_NARROWEST = 100  # columns when standard output is no terminal
_AROUND = 6  # tokens that are shown before and behind a parting


def print_compared(runs: Sequence[tuple[str, Run]], prompt: int, as_json: bool) -> None:
    """Print what `comparison` finds. Raises SpecvizError for a prompt that is not there."""
    found = comparison(runs, prompt - 1)
    if as_json:
        echo_json(as_object(found))
        return
    with standard_output(_NARROWEST) as console:
        for lane in found.text.lanes:
            console.print(Text.assemble((f"{lane.letter}  ", "bold"), running(lane.name), f"  {lane.title}"))
        console.print()
        if found.n_prompts > 1:
            console.print(Text(f"prompt {found.prompt + 1} of {found.n_prompts} that all were given"))
        console.print(Text(found.text.words))
        for part in (*_excerpt(found), _numbers(found), *_places(found), *_domains(found), *_settings(found)):
            console.print()
            console.print(part)


def read_runs(names: Sequence[str]) -> Iterator[tuple[str, Run]]:
    """The traces by their names. Raises SpecvizError for what is none, and for too few or too many."""
    if not 2 <= len(names) <= MOST:
        more = ", or give a setting to decode its prompt again with, as --gamma 2" if len(names) == 1 else ""
        raise SpecvizError(f"{len(names)} recorded runs to compare; name 2 to {MOST}{more}")
    for name in names:
        path = resolve(name)
        yield trace_title(Path(path)), read_run(path).run


def as_object(found: SideBySide) -> dict[str, Any]:
    """The object of `--json`: everything but the texts themselves."""
    text, numbers = found.text, found.numbers
    return {
        "runs": [_run_object(lane) for lane in text.lanes],
        "same_prompt": text.same_prompt,
        "n_same": text.n_same if text.known else None,  # nobody knows
        "parted": text.parted if text.known else None,
        "words": text.words,
        "metrics": {row.name: _row_object(row) for row in numbers.rows},
        "by_place": {name: list(map(msgspec.to_builtins, series)) for name, series in numbers.series.items()},
        "by_domain": list(map(msgspec.to_builtins, numbers.domains)),
        "settings": {setting.name: list(setting.values) for setting in (*found.differing, *found.partly)},
        "calls": [dict(zip(each.positions, each.calls, strict=True)) for each in found.steps],
    }


def _run_object(lane: RunLane) -> dict[str, Any]:
    counts = {"n_tokens": len(lane.tokens), "n_rounds": len(lane.rounds), "parts_at": lane.parts_at}
    return {"letter": lane.letter, "name": lane.name, "title": lane.title, **counts}


def _row_object(row: CompareRow) -> dict[str, Any]:
    return {
        "values": [value.value for value in row.values],
        "intervals": [value.interval for value in row.values],
        "differences": list(row.differences),
        "apart": list(row.apart),
    }


def _excerpt(found: SideBySide) -> Iterator[Table]:
    """The tokens around the first parting, one below the other."""
    text = found.text
    if not (text.parted and text.same_prompt):
        return
    first = max(0, text.n_same - _AROUND)
    table = table_of("around the parting", *(str(at + 1) for at in range(first, text.n_same + _AROUND)))
    for lane in text.lanes:
        table.add_row(lane.letter, *(_token(lane, at, text.n_same) for at in range(first, text.n_same + _AROUND)))
    yield table


def _token(lane: RunLane, at: int, parting: int) -> Text:
    if at >= len(lane.tokens):
        return Text("")
    return Text(lane.tokens[at].shown, style="bold" if at == parting else "dim" if at > parting else "")


def _numbers(found: SideBySide) -> Table:
    """Every number of every run, and how far it is from the first."""
    letters = [lane.letter for lane in found.text.lanes]
    heads = [head for n, letter in enumerate(letters) for head in ((letter, f"{letter} − A") if n else (letter,))]
    table = table_of("whole runs, 95 %", *heads)
    for row in found.numbers.rows:
        cells: list[str | Text] = [row.values[0].text]
        for value, difference, apart in zip(row.values[1:], row.differences[1:], row.apart[1:], strict=True):
            cells += [value.text, Text(difference, style="bold" if apart else "")]
        table.add_row(row.label, *cells)
    return table


def _places(found: SideBySide) -> Iterator[Table]:
    """Acceptance by place in the draft."""
    letters = [lane.letter for lane in found.text.lanes]
    for name, each_run in found.numbers.series.items():
        axis = found.numbers.axes[name]
        table = table_of(f"{name}, by {axis}", *letters)
        for x in sorted({x for series in each_run for x in series.xs}):
            cells = []
            for series in each_run:
                place = series.xs.index(x) if x in series.xs else None
                if place is None:
                    cells.append(UNKNOWN)
                    continue
                low, high = series.lows[place], series.highs[place]
                spread = "" if low is None or high is None else f" [{prob(low)}, {prob(high)}]"
                cells.append(f"{prob(series.values[place])}{spread}")
            table.add_row(str(x), *cells)
        yield table


def _domains(found: SideBySide) -> Iterator[Table]:
    letters = [lane.letter for lane in found.text.lanes]
    if found.numbers.domains:
        heads = [f"{letter} {what}" for letter in letters for what in ("tokens per call", "accepted")]
        table = table_of("by kind of prompt", *heads)
        for row in found.numbers.domains:
            cells = []
            for calls, kept in zip(row.calls, row.kept, strict=True):
                cells.append(UNKNOWN if calls is None else f"{number(calls.value)} {uncertainty(calls)}".strip())
                cells.append(UNKNOWN if kept is None else f"{percent(kept.value)} {uncertainty(kept, percent)}".strip())
            table.add_row(running(row.domain), *cells)
        yield table


def _settings(found: SideBySide) -> Iterator[Table | Text]:
    letters = [lane.letter for lane in found.text.lanes]
    if found.differing:
        table = table_of("set otherwise", *letters)
        for setting in found.differing:
            table.add_row(setting.name, *setting.values)
        yield table
    some = f"; only some have {', '.join(setting.name for setting in found.partly)}" if found.partly else ""
    yield Text(f"{plural(found.n_alike, 'setting')} alike{some}")
