"""What the early-exit methods share: their knobs, and how a setting is read for a model of L layers.

Layers count from 1. They are named by number or as a share of the model, so that a default fits every target:
`L/8, L/4, 3L/8, L/2` are layers 2, 3, 5 and 6 of 12. `auto` are the layers that the target's exit heads advise, chosen
by replay when they were trained; those four where there is no advice.

`layerskip`: the first layers always draft, a fixed number of tokens, through the shared head (Elhoushi et al. 2024).

The same loop as `specbound` with one exit layer and no threshold. Made for models trained for early exit, whose shared
head is right at every layer; on others it drafts badly, and trained `heads` may be put in its place.

`adadecode`: early exits at three layers with one plain threshold and no bound on depth (Wei et al. 2025).

The same loop as `specbound`: no annealing, its layers, its threshold (their gamma), at most five early predictions.

`specbound`: self-speculation with calibrated early exits, bounded in depth and width (Wen and Feng 2026).

A row climbs the target's own layers; where a small head is sure enough at an annealed temperature, its token becomes
the next row. Rows left behind are taken along when a later one needs the layer, so nothing is computed twice.
`walk` judges greedy and arg-max drafts by matching and goes with `shared` ones too; `tokenwise` judges arg-max and
sampled ones by their laws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from specviz.cost.exit_replay import UNADVISED, layers_named
from specviz.errors import KnobError
from specviz.knobs import KnobSpec, real, whole
from specviz.methods import Method
from specviz.methods.common.knobs import by_mode, draft_mode, part_folder, single, words
from specviz.probability.draft import Draft
from specviz.traits import MethodTraits

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Limits:
    """A round's setting, read for the target. `asked`: the layers named, `d_max` at most the last but one."""

    alpha: float
    tau: float
    d_max: int
    w_max: int
    asked: tuple[int, ...]

    @property
    def layers(self) -> tuple[int, ...]:
        """Those of `asked` that may stop a row."""
        return tuple(layer for layer in self.asked if layer <= self.d_max)


def read(knobs: Mapping[str, Any], n_layers: int, depth: float, advised: Sequence[int] = ()) -> Limits:
    """The setting of a round. `depth`: the share of the layers that `d_max = -1` stands for.

    With `advised` layers in use, -1 is the deepest of them.
    """
    asked = layers(knobs["exit_layers"], n_layers, advised)
    d_max, deepest = knobs.get("d_max", -1), math.ceil(depth * n_layers)
    if d_max < 0:
        d_max = max(asked, default=deepest) if advised and asked == sorted(advised) else deepest
    return Limits(
        alpha=knobs.get("alpha", 0.0),
        tau=knobs["tau"],
        d_max=min(d_max, n_layers - 1),
        w_max=knobs["w_max"],
        asked=tuple(asked),
    )


def layers(texts: Sequence[str], n_layers: int | None = None, advised: Sequence[int] = ()) -> list[int]:
    """The layers named in `3, 5`, `L/4`, `auto` or several of them, each once, below the last. Raises KnobError.

    Without `n_layers` the words are only read: shares come out empty.
    """
    numbers: set[int] = set()
    for word in words(texts if advised else [text.replace(AUTO, UNADVISED) for text in texts]):
        named = advised if word == AUTO else layers_named(word, n_layers)
        if named is None:
            raise KnobError(
                f"knob exit_layers: '{word[:40]}' is no layer; give numbers from 1, shares such as L/4, or auto"
            )
        numbers |= set(named)
    return sorted(layer for layer in numbers if n_layers is None or layer < n_layers)


def fitted(spec: KnobSpec, n_layers: int, depth: float, advised: Sequence[int] = ()) -> KnobSpec:
    """A knob of these methods with the range and default it has on a model of `n_layers`; others as they are."""
    if spec.name == "exit_layers":
        return msgspec.structs.replace(spec, default=[", ".join(map(str, layers(spec.default, n_layers, advised)))])
    if spec.name == "d_max":
        auto = {"exit_layers": [AUTO] if advised else [], "tau": 0.0, "w_max": 0}
        return msgspec.structs.replace(spec, lo=0, hi=n_layers - 1, default=read(auto, n_layers, depth, advised).d_max)
    return spec


def outside(texts: Sequence[str], n_layers: int) -> list[int]:
    """Layers named by number that are not below the last."""
    return [layer for layer in layers(texts) if layer >= n_layers]


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: one chain, of point masses unless drafts are drawn."""
    layers(knobs["exit_layers"])
    if "heads" in knobs:
        single(knobs, "heads")
    return by_mode(knobs)


def tau(
    default: float, help_: str = "a row stops at a layer whose head is at least this sure; above 1 never"
) -> KnobSpec:
    return real("tau", 0, 1.01, default, help_, symbol="τ")


def depth(meaning: str) -> KnobSpec:
    """The deepest layer that may stop a row."""
    return whole(
        "d_max", -1, 128, -1, f"deepest layer that may stop a token; 0 drafts nothing, -1 is {meaning}", symbol="d"
    )


def width(default: int) -> KnobSpec:
    return whole("w_max", 0, 16, default, "drafts fed per round; 0 decodes plainly", symbol="w", cuts="depth")


def tests(default: str) -> KnobSpec:
    return KnobSpec(
        name="exit_layers",
        symbol="E",
        kind="texts",
        default=[default],
        help="layers after which a head is asked: numbers from 1, shares such as L/4, or auto",
    )


def rest(heads: tuple[str, ...] = ()) -> tuple[KnobSpec, ...]:
    return (
        draft_mode("argmax", "sampled", "shared"),
        part_folder(
            "heads", "folder of exit heads, or lens for the model's own head; none: those trained for the target", heads
        ),
        KnobSpec(
            name="observe_all",
            kind="bool",
            default=False,
            help="also ask every layer about every row, after all is decided, for the record",
        ),
    )


LAYERSKIP = Method(
    name="layerskip",
    help="the target's first layers always draft, through its own head",
    drafter="specviz.methods.early_exit.drafter:layerskip",
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(exits="tested", replay_depth=1.0, page="docs/papers/specbound.md"),
    knobs=(
        tests("L/2"),
        width(6),
        tau(0.0, "0 drafts always; above, a row stops only where the head is at least this sure"),
        depth("no bound besides exit_layers"),
        *rest(("lens",)),
    ),
)


ADADECODE = Method(
    name="adadecode",
    help="early exits at a quarter, half and three quarters of the layers",
    drafter="specviz.methods.early_exit.drafter:adadecode",
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(exits="tested", replay_depth=1.0, page="docs/papers/specbound.md"),
    knobs=(
        tau(0.75),
        depth("the last layer but one"),
        width(5),
        tests("L/4, L/2, 3L/4"),
        *rest(),
    ),
)


SPECBOUND = Method(
    name="specbound",
    help="the target's own early layers draft, where an exit head is sure enough",
    drafter="specviz.methods.early_exit.drafter:specbound",
    verifiers=("walk", "tokenwise"),
    example=example,
    traits=MethodTraits(exits="tested", replay_depth=0.5, page="docs/papers/specbound.md"),
    knobs=(
        real(
            "alpha",
            0,
            4,
            0.5,
            "how much surer a shallow layer must be: its test is taken at temperature 1 + alpha (1 - layer/L)",
            symbol="α",
        ),
        tau(0.75),
        depth("the deepest layer that the exit heads advise, else half of the layers"),
        width(6),
        tests(AUTO),
        *rest(),
    ),
)
