"""How an early-exit round was set, as far as its trace says; and what a replay reads of a run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from specviz.cost.exit_replay import UNADVISED, layers_named
from specviz.events import Event, Gate, LayerTrace
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord

_RECENT = 64  # rounds


@dataclass(frozen=True, slots=True)
class ExitSetting:
    """What a round was drafted with. `layers`: those with a test, rising; None: the trace does not say."""

    n_layers: int
    layers: tuple[int, ...]
    alpha: float | None
    tau: float | None
    w_max: int | None

    @property
    def deepest(self) -> int:
        """The deepest layer that may stop a row; 0 when none may."""
        return max(self.layers, default=0)


def exit_setting(run: Run, record: RoundRecord, changed: Mapping[str, Any] | None = None) -> ExitSetting | None:
    """The setting of a round, or what it would be with knobs `changed`.

    None when the trace does not say how many layers the target has.
    """
    target = run.header.models.target if run.header else None
    if target is None or not target.n_layers:
        return None
    knobs = {**record.knobs, **(changed or {})}
    asked = _asked(run, knobs, target.n_layers)
    if "d_max" not in (changed or {}):
        asked |= {g.layer for g in record.every(Gate) if not g.observed_only}
    asked = {layer for layer in asked if 0 < layer < target.n_layers}  # a damaged record may name others
    return ExitSetting(
        target.n_layers,
        tuple(sorted(asked)),
        _real(knobs.get("alpha", 0.0)),
        _real(knobs.get("tau")),
        int(knobs["w_max"]) if isinstance(knobs.get("w_max"), int) else None,
    )


def _asked(run: Run, knobs: Mapping[str, Any], n_layers: int) -> set[int]:
    """Layers named by `exit_layers`, up to `d_max`; -1 leaves out none of those that are advised."""
    advised = run.header.models.parts.get("advised exit layers", "") if run.header else ""
    words = " ".join(map(str, knobs.get("exit_layers") or ()))
    if not advised and "auto" in words:
        return _seen(run) or _layers(UNADVISED, n_layers)
    layers = _layers(words.replace("auto", advised), n_layers)
    d_max = knobs.get("d_max", -1)
    if not isinstance(d_max, int):
        return layers
    if d_max < 0:
        by_hand = "auto" not in words and words.replace(",", " ").split() != advised.split()
        share = run.method_traits.replay_depth if by_hand else None
        d_max = n_layers if share is None else math.ceil(share * n_layers)
    return {layer for layer in layers if layer <= d_max}


def _seen(run: Run) -> set[int]:
    """Where the last rounds were asked: what `auto` stands for, when the trace does not say."""
    recent = run.rounds[-_RECENT:]
    return {gate.layer for record in recent for gate in record.every(Gate) if not gate.observed_only}


def _layers(text: str, n_layers: int) -> set[int]:
    """The layers of a list; words that name none are left out, as those above the target are by the caller."""
    return {layer for word in text.replace(",", " ").split() for layer in layers_named(word, n_layers) or ()}


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def replay_events(run: Run) -> list[Event]:
    """The events of a run that a replay reads, in order."""
    assert run.header is not None
    out: list[Event] = [run.header]
    for query in run.queries:
        out += [query.prefill] if query.prefill is not None else []
        for record in query.rounds:
            out += [event for event in (record.commit, record.end) if event is not None]
    return out + [event for query in run.queries for event in query.exit_table]


def head_costs(run: Run) -> tuple[float, float] | None:
    """What a head test took and what the final head takes, in layers of one row: medians of this run, and its clock.

    Without a clock on record the final head is taken to cost what a test does.
    """
    heads = [g.head_ns for r in run.rounds for g in r.every(Gate) if g.head_ns and not g.observed_only]
    layers = [
        ns
        for r in run.rounds
        for climb in r.every(LayerTrace)
        for ns, width in zip(climb.layer_ns, climb.width, strict=False)
        if width == 1 and ns
    ]
    if not heads or not layers:
        return None
    test, clock = median(heads) / median(layers), run.calibration
    timed = clock is not None and clock.layer_ns and clock.final_ns and clock.layer_ns[0]
    return test, clock.final_ns[0] / clock.layer_ns[0] if clock is not None and timed else test
