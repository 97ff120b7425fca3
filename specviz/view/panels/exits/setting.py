"""Which layers may stop a row, read off a recording: knobs in force, and what the exit heads advised.

The layers are named as on the command line: numbers, shares of the model (`L/4`), or `auto`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.cost.exit_replay import shares
from specviz.events import Gate
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord

_RECENT = 64  # rounds
_UNADVISED = "L/8, L/4, 3L/8, L/2"
_SHARE = re.compile(r"(\d*)\*?L(?:/(\d+))?")


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


def exit_setting(run: Run, record: RoundRecord) -> ExitSetting | None:
    """The setting of a round; None when the trace does not say how many layers the target has."""
    target = run.header.models.target if run.header else None
    if target is None or not target.n_layers:
        return None
    knobs = record.knobs
    asked = _asked(run, knobs, target.n_layers) | {g.layer for g in record.every(Gate) if not g.observed_only}
    asked = {layer for layer in asked if 0 < layer < target.n_layers}  # a record may name layers that are none
    return ExitSetting(
        target.n_layers, tuple(sorted(asked)), _real(knobs.get("alpha", 0.0)), _real(knobs.get("tau")),
        int(knobs["w_max"]) if isinstance(knobs.get("w_max"), int) else None,
    )  # fmt: skip


def _asked(run: Run, knobs: Mapping[str, Any], n_layers: int) -> set[int]:
    """Layers named by `exit_layers`, up to `d_max`; -1 leaves out none of those that are advised."""
    advised = run.header.models.parts.get("advised exit layers", "") if run.header else ""
    words = " ".join(map(str, knobs.get("exit_layers") or ()))
    if not advised and "auto" in words:
        return _seen(run) or {layer for word in _UNADVISED.split(", ") for layer in _layers(word, n_layers)}
    named = words.replace("auto", advised).replace(",", " ").split()
    found = {layer for word in named for layer in _layers(word, n_layers)}
    d_max = knobs.get("d_max", -1)
    if not isinstance(d_max, int):
        return found
    if d_max < 0:
        by_hand = "auto" not in words and words.replace(",", " ").split() != advised.split()
        share = run.method_traits.replay_depth if by_hand else None
        d_max = n_layers if share is None else math.ceil(share * n_layers)
    return {layer for layer in found if layer <= d_max}


def _seen(run: Run) -> set[int]:
    """Where the last rounds were asked: what `auto` stands for, when the trace does not say."""
    recent = run.rounds[-_RECENT:]
    return {gate.layer for record in recent for gate in record.every(Gate) if not gate.observed_only}


def _layers(word: str, n_layers: int) -> list[int]:
    share = _SHARE.fullmatch(word)
    if share:
        return shares([int(share[1] or 1) / max(1, int(share[2] or 1))], n_layers)
    return [int(word)] if word.isdecimal() and 0 < int(word) < n_layers else []


def _real(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
