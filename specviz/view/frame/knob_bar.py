"""The knob bar: every knob of the running method with its value, what is asked for, and what the last change did."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from specviz.events import Fork
from specviz.knobs import KnobSpec
from specviz.numerals import number
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.view.frame.frame import Feed, Options
from specviz.view.frame.parts import KnobBar, KnobItem, KnobMoves
from specviz.view.words.numbers import half_width
from specviz.view.words.numbers import knob as shown

_WHEN = {"R": "next round", "Q": "next prompt", "X": "next run"}
_SHORT = 8  # cells of a name that a part gives itself before a colon
_MOST = 500  # rounds on either side that are compared
_effects: "WeakKeyDictionary[Run, tuple[Any, str]]" = WeakKeyDictionary()  # the last comparison of a run, and of what
_MOST_STEPS = 200  # a range of whole numbers up to here is a slider
_WIDEST = 10.0  # and one of numbers, in steps of .01
_PARTS = ("heads", "hrad", "adapter", "skip_set", "drafter")
# Names of values that stand for a computed one.
_STANDS_FOR: dict[tuple[str, Any], str] = {
    ("branch_len", 0): "γ",
    ("branch_len", -1): "auto",
    ("branch_len", -2): "likely",
    ("node_budget", -1): "auto",
    ("d_max", -1): "all levels",
    ("slots_used", 0): "all",
}
# Of a trace from before trees were as large as pays, whose help says so.
_PRESET_BUDGET, _PRESET = "-1: the preset's", "preset"
_EMPTY = {"widths": "preset", "bucket_bias": "0", "exit_layers": "advised"}
# Knobs that other methods are known by: (symbol, what is missing where a method lacks it).
_WELL_KNOWN = {
    "epsilon": ("ε", "it never stops drafting for a low draft confidence"),
    "alpha": ("α", "it exits no layer early"),
    "tau": ("τ", "it exits no layer early"),
    "d_max": ("d_max", "its draft is no tree"),
    "w_max": ("w_max", "its draft is no tree"),
    "k_max": ("k_max", "it opens no branches"),
}


def knob_bar(run: Run, record: RoundRecord | None, options: Options, feed: Feed) -> KnobBar:
    """The knobs as they were in force in this round; the newest values when there is none."""
    values = record.knobs if record is not None else run.knobs
    specs = run.header.knob_specs if run.header is not None else []
    parts = run.header.models.parts if run.header is not None else {}
    used = _used(record) if record is not None else {}
    now, waits = run.knobs if feed.steerable else values, run.end is not None
    here = (record.q, record.r) if record is not None else (0, 0)
    since = {c.name: f"r{c.applied_r}" for c in run.changes if (c.q, c.applied_r) <= here}
    items = tuple(
        msgspec.structs.replace(
            knob_item(spec, values, now, options, parts, used, waits),
            disabled=_disabled(spec, values, run, feed),
            since=since.get(spec.name, ""),
        )
        for spec in specs
    )
    absent = absent_knobs(run.header.method, specs) if run.header is not None and specs else ()
    return KnobBar(items, _last(run, record), run.mixed, absent)


def _used(record: RoundRecord) -> dict[str, int]:
    """What the round made of knobs that leave it open: a branch is never longer than gamma, the room and the cache
    allow, a tree is as large as pays."""
    forks = [fork for fork in record.every(Fork) if fork.k]
    used = {"branch_len": forks[-1].branch_len} if forks else {}
    if record.tree is not None and record.knobs.get("node_budget") == -1:
        used["node_budget"] = record.tree.n_kept
    return used


def absent_knobs(method: str, specs: Sequence[KnobSpec]) -> tuple[tuple[str, str], ...]:
    """Symbol and reason of every well-known knob that a method with these knobs lacks."""
    own = {spec.name for spec in specs}
    missing = {name: reason for name, reason in _WELL_KNOWN.items() if name not in own}
    return tuple((symbol, f"{method} has no {name}: {why}") for name, (symbol, why) in missing.items())


def knob_item(
    spec: KnobSpec,
    values: Mapping[str, Any],
    now: Mapping[str, Any],
    options: Options,
    parts: Mapping[str, str] | None = None,
    used: Mapping[str, int] | None = None,
    waits: bool = True,
) -> KnobItem:
    """`now`: the newest values, which what was chosen is compared with; `waits`: it is chosen for the next run.

    `parts`: the trained parts that came with the models; `used`: what a round made of values that leave it open.
    """
    parts, used = parts or {}, used or {}
    value, newest = values.get(spec.name, spec.default), now.get(spec.name, spec.default)
    sent = options.sent.get(spec.name)
    sent = None if sent == newest else sent
    staged = options.staged.get(spec.name)
    staged = None if staged == (newest if sent is None else sent) else staged
    wanted = next((a for a in (staged, sent) if a is not None), value)
    return KnobItem(
        name=spec.name,
        label=label(spec),
        kind=spec.kind,
        value=value,
        text=value_text(spec, value, parts, used.get(spec.name)),
        fill=_fill(spec, wanted),
        moves=_moves(spec),
        lo=spec.lo,
        hi=spec.hi,
        step=step_of(spec) if spec.kind in ("int", "float") else 1,
        choices=tuple(spec.choices),
        default=spec.default,
        help=spec.help,
        applies=spec.applies,
        applies_text=_WHEN["X" if waits else spec.applies],
        changes_text=spec.text != "K",
        staged=staged,
        staged_text=None if staged is None else value_text(spec, staged, parts),
        sent=sent,
        sent_text=None if sent is None else shown(sent),
        idle=without_effect(spec, values) is not None,
    )


def value_text(spec: KnobSpec, value: Any, parts: Mapping[str, str], used: int | None = None) -> str:
    """The value, or what it stands for, and what the round made of it where that is another number.

    Of a trained part that nobody named: which one came with the models, if any.
    """
    if spec.kind == "texts" and not value:
        if spec.name not in _PARTS:
            return _EMPTY.get(spec.name, shown(value))
        part = parts.get(spec.name, "")
        lacks = next((word for word in ("none", "logit lens") if part.startswith(word)), None)
        short, colon, _ = part.partition(": ")
        return lacks or (f"shipped, {short}" if colon and len(short) <= _SHORT else "shipped")
    text = _STANDS_FOR.get((spec.name, value), shown(value)) if isinstance(value, int) else shown(value)
    if (spec.name, value) == ("node_budget", -1) and spec.help.endswith(_PRESET_BUDGET):
        text = _PRESET
    return text if used is None or used == value else f"{text}: {used}"


def _fill(spec: KnobSpec, value: Any) -> float | None:
    if spec.lo is None or spec.hi is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if (spec.name, value) in _STANDS_FOR:
        return None  # no place in the range
    return min(1.0, max(0.0, (value - spec.lo) / (spec.hi - spec.lo))) if spec.hi > spec.lo else 1.0


def _disabled(spec: KnobSpec, values: Mapping[str, Any], run: Run, feed: Feed) -> str | None:
    """Why the knob cannot be moved now, if it cannot."""
    if idle := without_effect(spec, values):
        return idle
    if feed.name == "core_lost":
        return "the core has gone: knobs are as they were"
    if not feed.steerable:
        return "a recording: knobs are as they were"
    if run.end is not None:
        return None  # what is chosen now is for the next run
    if spec.applies == "Q" and _queries_left(run):
        return None
    if spec.applies != "R":
        return f"fixed while a run lasts, applies at the {_WHEN[spec.applies]}"
    return None


def without_effect(spec: KnobSpec, values: Mapping[str, Any]) -> str | None:
    """Why a knob does nothing with the other knobs as they are; None where it does something."""
    for other, wanted in spec.needs.items():
        if other in values and str(values[other]) not in wanted:
            return f"no effect with {other} {values[other]}: needs {other} {' or '.join(wanted)}"
    return None


def _queries_left(run: Run) -> bool:
    """Whether a stream has another prompt to come."""
    stream = run.header.env.get("stream") if run.header is not None else None
    n = stream.get("n_queries") if isinstance(stream, dict) else None
    return isinstance(n, int) and bool(run.queries) and run.queries[-1].number + 1 < n


def label(spec: KnobSpec) -> str:
    """The symbol where it is a Greek one, else the name, which tells `d_max` from every other d: `γ`, `top_p`."""
    return spec.name if spec.symbol.isascii() else spec.symbol


def _moves(spec: KnobSpec) -> KnobMoves:
    if spec.kind == "texts":
        return ""
    if spec.kind in ("choice", "bool"):
        return "choice" if spec.kind == "choice" else "switch"
    return "slide" if slides(spec) else "number"


def slides(spec: KnobSpec) -> bool:
    """Whether a slider reaches every value that matters: a few hundred steps, and the default on one of them."""
    if spec.lo is None or spec.hi is None:
        return False
    if spec.kind == "int":
        return spec.hi - spec.lo <= _MOST_STEPS
    return spec.kind == "float" and spec.hi - spec.lo <= _WIDEST and round(spec.default, 2) == spec.default


def step_of(spec: KnobSpec) -> float:
    """By how much a knob of numbers is moved at a time."""
    if spec.kind == "int":
        return 1
    return 0.01 if slides(spec) else 0.05 if spec.default >= 0.05 else 0.0005


def _last(run: Run, record: RoundRecord | None) -> str:
    """The last change at or before this round, with what it did to the length, if that can be told. Steps of one knob
    that follow each other too fast for any effect of their own are one change."""
    from specviz.metrics.sequential import LEAST_LOOK  # numpy: not needed to open a window

    limit = (record.q, record.r) if record is not None else (0, 0)
    changes = [c for c in run.changes if (c.q, c.applied_r) <= limit]
    if not changes:
        return ""
    first = len(changes) - 1
    names = {changes[first].name}
    turns = [bisect_left(range(len(run.rounds)), (c.q, c.applied_r), key=run.rounds.place) for c in changes]
    while first and (
        turns[first - 1] == turns[first]
        or (changes[first - 1].name in names and turns[first] - turns[first - 1] < LEAST_LOOK)
    ):
        first -= 1
        names.add(changes[first].name)
    steps = changes[first:]
    moved = {c.name: (next(x.old for x in steps if x.name == c.name), c.new) for c in steps}
    specs = {spec.name: label(spec) for spec in (run.header.knob_specs if run.header is not None else ())}
    changes_text = (
        f"{specs.get(name, name)} {shown(old)}→{shown(new)}" if old != new else f"{specs.get(name, name)} {shown(new)}"
        for name, (old, new) in moved.items()
    )
    before = (turns[first - 1] if first else 0, turns[first])
    stop = bisect_right(range(len(run.rounds)), limit, key=run.rounds.place)
    effect = _effect(run, before, (turns[-1], stop))
    # The effect comes first: a narrow line cuts off the list of knobs.
    return f"last r{changes[-1].applied_r}: {f'{effect} with ' if effect else ''}{', '.join(changes_text)}"


def _effect(run: Run, before: tuple[int, int], after: tuple[int, int]) -> str:
    """`tok/round 3.1→3.4 (n 18, ±.9: cannot tell yet)`: rounds behind a change against those before it.

    From index to index, at most `_MOST` on either side, those next to the change. Looked at after every round, so that
    the bound is one that allows it.
    """
    old, new = (max(before[0], before[1] - _MOST), before[1]), (after[0], min(after[1], after[0] + _MOST))
    if old[0] == old[1] or new[0] == new[1]:
        return ""
    key = (old, new, run.rounds[new[1] - 1].complete)
    if run not in _effects or _effects[run][0] != key:
        _effects[run] = (key, _compared(_lengths(run, old), _lengths(run, new)))
    return _effects[run][1]


def _lengths(run: Run, places: tuple[int, int]) -> list[int]:
    """Tokens of every block."""
    lengths: list[int] = []
    for record in run.rounds[places[0] : places[1]]:
        if record.end is None:
            continue
        if record.start.carry is not None and lengths:
            lengths[-1] += record.end.n_emitted
        else:
            lengths.append(record.end.n_emitted)
    return lengths


def _compared(old: Sequence[int], new: Sequence[int]) -> str:
    from specviz.metrics.sequential import lasting_difference

    difference = lasting_difference(old, new)
    if difference is None or difference.interval is None:
        return ""
    low, high = difference.interval
    verdict = ": cannot tell yet" if low <= 0 <= high else ""
    what = f"tok/round {number(sum(old) / len(old), 1)}→{number(sum(new) / len(new), 1)}"
    return f"{what} (n {len(new)}, {half_width((high - low) / 2)}{verdict})"
