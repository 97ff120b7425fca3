"""Rounds out of a profile of torch (its Chrome trace): when an engine drafted, verified and kept books. A profile names
no tokens and counts none, so times are all that is known.

A round is a step of the engine: from the first stage of one pass of the target up to the next. vLLM verifies and then
drafts for its next step; SGLang drafts, verifies, and runs the draft model over what was kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specviz.engines.rounds.chrome_events import ChromeEvents
from specviz.engines.rounds.importing import Imported, opened
from specviz.errors import TraceError
from specviz.trace.writer import SpanLane

_HOST, _DEVICE = "user_annotation", "gpu_user_annotation"  # categories: the program's own spans, where they ran
_MOST_NS = 1 << 53


@dataclass(frozen=True, slots=True)
class _Spans:
    """How one engine names its stages. `first`: stages that can begin a step; `last`: those that only end one."""

    engine: str
    prefix: str
    target: str
    lanes: dict[str, SpanLane]
    first: tuple[str, ...]
    last: tuple[str, ...] = ()


_SHAPES = (
    _Spans(
        "vLLM",
        "gpu_model_runner: ",
        "forward",
        {
            "preprocess": "sync",
            "forward": "target",
            "postprocess": "sync",
            "sample": "sync",
            "draft": "draft",
            "bookkeep": "sync",
        },
        first=("preprocess", "forward"),
    ),
    _Spans(
        "SGLang",
        "",
        "verify",
        {"draft": "draft", "verify": "target", "draft_extend": "draft"},
        first=("draft", "verify"),
        last=("draft_extend",),
    ),
)
_BY_NAME = {shape.prefix + stage: (shape, stage) for shape in _SHAPES for stage in shape.lanes}


@dataclass(frozen=True, slots=True, order=True)
class _Stage:
    """One span: microseconds of the profile's clock."""

    ts: float
    dur: float
    name: str = field(compare=False)


Thread = tuple[str, str, str]  # engine, category, and who ran it: process and thread, or the device


@dataclass
class _Found:
    """Spans of engines in a file, by who ran them."""

    threads: dict[Thread, list[_Stage]] = field(default_factory=dict)

    def take(self, event: dict[str, Any]) -> None:
        """One event; most are something else."""
        known, where = _BY_NAME.get(event.get("name", "")), event.get("cat")
        if known is None or where not in (_HOST, _DEVICE) or event.get("ph") != "X":
            return
        ts, dur = event.get("ts"), event.get("dur")
        if not (isinstance(ts, int | float) and isinstance(dur, int | float) and 0 <= dur < _MOST_NS / 1e3):
            return
        shape, stage = known
        # Kernels of one stage may run on several streams of a device; a program's stages run in one thread.
        place = f"{event.get('pid')}" if where == _DEVICE else f"{event.get('pid')}/{event.get('tid')}"
        self.threads.setdefault((shape.engine, where, place), []).append(_Stage(ts, dur, stage))

    def chosen(self) -> tuple[_Spans, Thread] | None:
        """Whose passes are shown: those of a device before those of a program, and of several the busiest."""
        for shape in _SHAPES:
            mine = [thread for thread in self.threads if thread[0] == shape.engine]
            passes = {t: sum(stage.name == shape.target for stage in self.threads[t]) for t in mine}
            there = [thread for thread in mine if passes[thread]]
            if there:
                return shape, max(there, key=lambda thread: (thread[1] == _DEVICE, passes[thread]))
        return None


def read(path: Path, out: Path, rule: str | None) -> Imported:
    """A profile into a trace. Raises TraceError where it holds no span of an engine that is known here."""
    found = _Found()
    with opened(path) as file:
        events = ChromeEvents(file)
        try:
            for event in events:
                found.take(event)
        except TraceError as error:
            raise TraceError(f"{path}: {error}") from None
    chosen = found.chosen()
    if chosen is None:
        raise TraceError(
            f"{path} is a Chrome trace without {_wanted(found)}{'' if events.whole else '; it is cut off'}"
        )
    shape, thread = chosen
    made = Imported(
        out,
        engine=shape.engine,
        rule=rule or "unknown",
        known="times",
        source="profile, spans on the device" if thread[1] == _DEVICE else "profile, spans of its program",
    )
    _write(made, shape, sorted(found.threads[thread]), thread[1] == _DEVICE)
    if not events.whole:
        made.trace.warn("cut_short", f"{path.name} was cut off: the rounds before that are shown")
    others = Counter(other[1] for other in found.threads if other[0] == shape.engine)[thread[1]] - 1
    if others:
        made.trace.warn("other_ranks", f"{others} more of its workers are in {path.name}: the busiest one is shown")
    return made


def _wanted(found: _Found) -> str:
    stages = {stage.name for spans in found.threads.values() for stage in spans}
    if stages:  # names of SGLang that others use too, say
        return f"a pass of the target: it holds spans of the name {', '.join(sorted(stages))} alone"
    return (
        "a stage of an engine: vLLM writes 'gpu_model_runner: forward' in its first model runner, started with "
        "VLLM_CUSTOM_SCOPES_FOR_PROFILING=1; SGLang writes 'draft' and 'verify'"
    )


def _steps(shape: _Spans, stages: Iterable[_Stage]) -> Iterator[list[_Stage]]:
    """Stages of one step at a time."""
    step: list[_Stage] = []
    for stage in stages:
        names = {each.name for each in step}
        over = bool(names & {shape.target, *shape.last})
        if step and ((over and stage.name in shape.first) or (stage.name in shape.last and stage.name in names)):
            yield step
            step = []
        step.append(stage)
    if step:
        yield step


def _write(made: Imported, shape: _Spans, stages: list[_Stage], device: bool) -> None:
    def ns(ts: float) -> int:
        return 1 + round((ts - stages[0].ts) * 1e3)  # a record at 0 has no time

    made.trace.request()
    for step in _steps(shape, stages):
        made.now = ns(step[0].ts)
        made.trace.round()
        for stage in step:
            made.trace.span(shape.lanes[stage.name], stage.name, ns(stage.ts), round(stage.dur * 1e3), device=device)
        made.now = max(ns(stage.ts + stage.dur) for stage in step)
        made.trace.committed([])
