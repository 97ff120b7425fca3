"""The knob bar: every knob of the running method with its value, what is asked for, and what the last change did."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.knobs import KnobSpec
from specviz.view.fold import Run
from specviz.view.frame import KnobBar, KnobItem
from specviz.view.numbers import knob as shown
from specviz.view.numbers import number
from specviz.view.options import Feed, Options
from specviz.view.records import RoundRecord
from specviz.view.series import metrics_of

_WHEN = {"R": "next round", "Q": "next prompt", "X": "next run"}
_FEW = 2  # rounds on either side below which nothing can be compared
_PARTS = ("heads", "hrad", "adapter", "skip_set")


def knob_bar(run: Run, record: RoundRecord | None, options: Options, feed: Feed) -> KnobBar:
    """The knobs as they were in force in this round; the newest values when there is none."""
    values = record.knobs if record is not None else run.knobs
    specs = run.header.knob_specs if run.header is not None else []
    items = tuple(_item(spec, values, options, _disabled(spec, values, run, feed)) for spec in specs)
    return KnobBar(items, _pending(items), _last(run, record), run.mixed)


def _item(spec: KnobSpec, values: Mapping[str, Any], options: Options, disabled: str | None) -> KnobItem:
    value = values.get(spec.name, spec.default)
    staged, sent = (None if a == value else a for a in (options.staged.get(spec.name), options.sent.get(spec.name)))
    return KnobItem(
        name=spec.name, symbol=spec.symbol or spec.name, kind=spec.kind, value=value, text=_text(spec, value),
        fill=_fill(spec, value), lo=spec.lo, hi=spec.hi, choices=spec.choices, default=spec.default, help=spec.help,
        applies=spec.applies, applies_text=_WHEN[spec.applies], changes_text=spec.text != "K", lossy=spec.text == "L",
        staged=staged, staged_text=None if staged is None else shown(staged), sent=sent,
        sent_text=None if sent is None else shown(sent), disabled=disabled,
    )  # fmt: skip


def _text(spec: KnobSpec, value: Any) -> str:
    """The value; trained parts that nobody named are those that come with the models."""
    return "shipped" if spec.name in _PARTS and not value else shown(value)


def _fill(spec: KnobSpec, value: Any) -> float | None:
    if spec.lo is None or spec.hi is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(1.0, max(0.0, (value - spec.lo) / (spec.hi - spec.lo))) if spec.hi > spec.lo else 1.0


def _disabled(spec: KnobSpec, values: Mapping[str, Any], run: Run, feed: Feed) -> str | None:
    """Why the knob cannot be moved now, if it cannot."""
    for other, wanted in spec.needs.items():
        if other in values and str(values[other]) not in wanted:
            return f"no effect with {other} {values[other]}: needs {other} {' or '.join(wanted)}"
    if run.end is not None or not feed.steerable:
        return "the run has ended" if feed.steerable else "a recording: knobs are as they were"
    if spec.applies != "R":
        return f"fixed while a run lasts, applies at the {_WHEN[spec.applies]}"
    return None


def _pending(items: Sequence[KnobItem]) -> str:
    staged = [f"{i.symbol} {i.text}→{i.staged_text}" for i in items if i.staged is not None]
    sent = [f"{i.symbol} {i.text}→{i.sent_text} (sent, next round)" for i in items if i.sent is not None]
    return "  ".join(filter(None, ("pending " + ", ".join(staged) if staged else "", ", ".join(sent))))


def _last(run: Run, record: RoundRecord | None) -> str:
    """The last change at or before this round, with what it did to the length, if that can be told."""
    limit = (record.q, record.r) if record is not None else (0, 0)
    changes = [c for c in run.changes if (c.q, c.applied_r) <= limit]
    if not changes:
        return ""
    change = changes[-1]
    what = f"last r{change.applied_r}: {change.name} {shown(change.old)}→{shown(change.new)}"
    effect = _effect(run, [(c.q, c.applied_r) for c in changes], limit)
    return f"{what}, {effect}" if effect else what


def _effect(run: Run, changes: list[tuple[int, int]], limit: tuple[int, int]) -> str:
    """`len 3.1→3.4 (n 8, ±.9: cannot tell yet)`: the rounds since the last change against those before it."""
    earlier = [c for c in changes if c < changes[-1]]
    start = earlier[-1] if earlier else (0, 0)
    ended = [r for r in run.rounds if r.complete and start <= (r.q, r.r) <= limit]
    old = [r for r in ended if (r.q, r.r) < changes[-1]]
    new = [r for r in ended if (r.q, r.r) >= changes[-1]]
    if len(old) < _FEW or len(new) < _FEW:
        return ""
    before, after = (metrics_of(run, rounds).mean_acceptance_length for rounds in (old, new))
    if before is None or after is None or before.interval is None or after.interval is None:
        return ""
    halves = [(e.interval[1] - e.interval[0]) / 2 for e in (before, after) if e.interval]
    half = (halves[0] ** 2 + halves[1] ** 2) ** 0.5
    verdict = "" if abs(after.value - before.value) > half else ": cannot tell yet"
    return f"len {number(before.value, 1)}→{number(after.value, 1)} (n {len(new)}, ±{number(half, 1)}{verdict})"
