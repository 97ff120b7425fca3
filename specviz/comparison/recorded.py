"""Recordings for `specviz compare A B ..`, and what came of them as tables and as an object: nothing is decoded."""

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specviz.comparison.sheets import Sheet, gate_sheet
from specviz.errors import TraceError
from specviz.metrics import METRICS, Estimate
from specviz.numerals import UNKNOWN, plural
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.trace import Trace, resolve
from specviz.trace.files import PACKED, PLAIN
from specviz.view.compare import AXES, CompareRow, RunLane, RunSet, SideBySide, set_of, set_of_all
from specviz.view.stage.notebook import trace_title
from specviz.view.words.numbers import MINUS

Gates = Sequence[tuple[str, str | None]]  # every condition as it was written, and why it holds, None where it does not
_AROUND = 6  # tokens that are shown before and behind a parting
_PARTINGS = 20  # that are shown of every set
_OF_KINDS = ("block_efficiency", "draft_acceptance_rate")


def files_of(name: str) -> list[Path]:
    """A trace or a recording of the package by its name, the traces of a folder, or what a pattern fits. Raises
    TraceError where there is nothing."""
    path = Path(name)
    if path.is_dir():
        paths = sorted(entry for entry in path.iterdir() if entry.name.endswith((PLAIN, PACKED)))
        if not paths:
            raise TraceError(f"{name} is a folder without a trace (they end in {PLAIN} or {PACKED})")
        return paths
    if glob.has_magic(name) and not path.exists():
        paths = [Path(entry) for entry in sorted(glob.glob(name, recursive=True))]
        if not paths:
            raise TraceError(f"no file fits '{name}'; put a pattern in quotes and look at its folder")
        return paths
    return [resolve(path)]


def read_set(name: str) -> RunSet:
    """The recordings of a name. Of several no more is kept than is compared. Raises TraceError and SpecvizError."""
    sets = [set_of(trace_title(path) or name, _run(path)) for path in files_of(name)]
    return sets[0] if len(sets) == 1 else set_of_all(name, sets)


def _run(path: Path) -> Run:
    with Trace(path) as opened:
        return Run().extend(opened.read())


def as_object(side: SideBySide, gates: Gates) -> dict[str, Any]:
    """The object of `--json`: everything but the texts themselves."""
    text, numbers = side.text, side.numbers
    return {
        "runs": [_run_object(lane, bool(side.steps)) for lane in text.lanes],
        "same_prompt": text.same_prompt,
        "n_same": text.n_same if text.known else None,  # nobody knows
        "parted": text.parted if text.known else None,
        "words": text.words,
        "over": numbers.over,
        "metrics": {
            row.name: row.beside for row in (*numbers.rows, *(r for rows in numbers.places.values() for r in rows))
        },
        "by_kind": {kind: {row.name: row.beside for row in rows} for kind, rows in numbers.kinds.items()},
        "texts": side.texts,
        "settings": {setting.name: list(setting.values) for setting in (*side.differing, *side.partly)},
        "calls": [dict(zip(step.positions, step.calls, strict=True)) for step in side.steps],
        "fail_if": [{"rule": rule, "holds": why is not None, "why": why} for rule, why in gates],
    }


def _run_object(lane: RunLane, single: bool) -> dict[str, Any]:
    """`single`: whether all sets are one recording each, so that their texts are laid side by side."""
    counts = {"n_tokens": len(lane.tokens), "n_rounds": len(lane.rounds), "parts_at": lane.parts_at} if single else {}
    return {"letter": lane.letter, "name": lane.name, "title": lane.title, **counts}


# As tables -----------------------------------------------------------------------------------------------------------


def heading(side: SideBySide) -> list[str]:
    """Which letter is which, and what is to be said of the texts."""
    out = [f"{lane.letter}  {running(lane.name)}  {lane.title}" for lane in side.text.lanes]
    if side.n_prompts > 1:
        out.append(f"prompt {side.prompt + 1} of {side.n_prompts} that all were given")
    out.append(side.text.words)
    if side.n_prompts > 1:
        others = zip(side.text.lanes[1:], side.texts, strict=True)
        out += [f"{lane.letter} beside A, all prompts: {texts.words}" for lane, texts in others]
    return out


def sheets(side: SideBySide, gates: Gates) -> list[Sheet]:
    """What was found, table by table."""
    numbers, letters = side.numbers, [lane.letter for lane in side.text.lanes]
    kinds = [(kind, row) for kind, rows in numbers.kinds.items() for row in rows if row.name in _OF_KINDS]
    parts = [
        *_excerpt(side),
        *_partings(side),
        _rows("whole", [(row.label, row) for row in numbers.rows], letters, f"95 % over {numbers.over}"),
        *(
            _rows(
                f"{name}, by {AXES[name]}",
                [(row.name.partition("@")[2], row) for row in rows],
                letters,
                METRICS[name].help,
            )
            for name, rows in numbers.places.items()
            if _told_once(side, name)
        ),
        _rows("by kind of prompt", [(f"{running(kind)}: {row.label}", row) for kind, row in kinds], letters, ""),
        _settings(side, letters),
        gate_sheet(gates),
    ]
    return [sheet for sheet in parts if sheet.rows or sheet.note]


def _told_once(side: SideBySide, name: str) -> bool:
    """On chains acceptance by depth is that by position."""
    places = side.numbers.places
    before = list(places)[: list(places).index(name)]
    return all([r.beside for r in places[name]] != [r.beside for r in places[earlier]] for earlier in before)


def _rows(title: str, rows: Sequence[tuple[str, CompareRow]], letters: Sequence[str], note: str) -> Sheet:
    """Numbers of every set, and how far each is from the first: absolute, and in percent of it."""
    others = [head for letter in letters[1:] for head in (letter, f"{letter} − A", f"{letter} / A")]
    cells = []
    for name, row in rows:
        cells.append([name, row.values[0].text])
        for value, difference, beside in list(zip(row.values, row.differences, row.beside, strict=True))[1:]:
            cells[-1] += [value.text, difference, _percent(beside.ratio)]
    return Sheet(title, ("", letters[0], *others), cells, note if rows else "")


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    value, *ends = (f"{share:+.1%}".replace("-", MINUS) for share in (estimate.value, *(estimate.interval or ())))
    return value + (f" [{', '.join(ends)}]" if ends else "")


def _excerpt(side: SideBySide) -> Iterator[Sheet]:
    """The tokens around the first parting, one below the other."""
    text = side.text
    if not (text.parted and text.same_prompt):
        return
    places = range(max(0, text.n_same - _AROUND), text.n_same + _AROUND)
    rows = [
        [lane.letter, *(lane.tokens[at].shown if at < len(lane.tokens) else "" for at in places)] for lane in text.lanes
    ]
    yield Sheet(
        "around the parting", ("", *(str(at + 1) for at in places)), rows, f"they part at token {text.n_same + 1}"
    )


def _partings(side: SideBySide) -> Iterator[Sheet]:
    """Where the texts of all prompts part."""
    if side.n_prompts == 1:
        return
    for lane, texts in zip(side.text.lanes[1:], side.texts, strict=True):
        rows = []
        for parting in texts.partings[:_PARTINGS]:
            rows.append(
                [
                    running(parting.a_request),
                    f"{parting.at:,}",
                    f"…{running(parting.before)}",
                    "A",
                    _ends(parting.a_text),
                ]
            )
            rows.append([running(parting.b_request), "", "", lane.letter, _ends(parting.b_text)])
        more = f"{len(texts.partings):,} of the texts part" if rows else ""
        yield Sheet(f"{lane.letter} beside A", ("prompt", "alike", "before", "", "goes on"), rows, more)


def _ends(text: str) -> str:
    return running(text) or "(ends)"


def _settings(side: SideBySide, letters: Sequence[str]) -> Sheet:
    some = f"; only some have {', '.join(setting.name for setting in side.partly)}" if side.partly else ""
    rows = [[setting.name, *setting.values] for setting in side.differing]
    return Sheet("set otherwise", ("", *letters), rows, f"{plural(side.n_alike, 'setting')} alike{some}")
