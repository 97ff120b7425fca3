"""The cards of block drafters, EAGLE-3 drafters and Medusa heads: what they know, what decoding gains."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from specviz.engine.decode.drafter import Drafter
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import get_method
from specviz.methods.trained.parts import Trained
from specviz.train.cards import page as cards
from specviz.train.cards import plots
from specviz.train.common.console import Console
from specviz.train.common.tokens import TokenStore, beginnings
from specviz.train.trees.measure import arms, compared, side_by_side

N_PROMPTS, PROMPT, N_NEW = 8, 48, 64
MINUTES_A_PROMPT = 5  # short trainings are measured on fewer texts: measuring should not outlast them by far


@dataclass(frozen=True, slots=True)
class HeldOutWindows:
    """What is measured on: windows `[n, T]` the target wrote behind held-out beginnings, and held-out text."""

    windows: torch.Tensor
    answer_from: int
    source: TokenStore


@dataclass(frozen=True, slots=True)
class TreeCard:
    """What differs from kind to kind. `known`: what is counted on held-out windows; `said`: what its page says of it.

    `arms`: knobs that `method` is decoded with; `places`: what the first and the last place ahead are called.
    """

    template: str
    method: str
    drafter: Callable[[Any, ModelAdapter], Drafter]
    arms: tuple[Mapping[str, Any], ...]
    known: Callable[[ModelAdapter, Any, HeldOutWindows], dict[str, Any]]
    said: Callable[[Mapping[str, Any]], dict[str, Any]]
    places: tuple[str, str]

    def write(
        self,
        folder: Path,
        adapter: ModelAdapter,
        trained: Trained[Any, Any],
        held: HeldOutWindows,
        made: Mapping[str, Any],
        console: Console,
    ) -> dict[str, Any]:
        """Measure the saved drafter and write its card. `made`: command, settings and training."""
        known = self.known(adapter, trained, held)
        own = arms(self.method, partial(self.drafter, trained, adapter), self.arms)
        prompts = beginnings(held.source.held_out, n_prompts(made["training"]["minutes"]), PROMPT)
        beside = side_by_side(adapter, folder)
        total = sum(map(len, prompts.values())) * (len(own) + len(beside))
        with console.ticks("decoding", total, "texts") as tick:
            decoding, others = ([*compared(adapter, some, prompts, N_NEW, tick)] for some in (own, beside))
        numbers = {
            "n_params": sum(parameter.numel() for parameter in trained.network.parameters()),
            **known,
            "decoding": decoding,
            "side_by_side": others,
            "config": asdict(trained.config),
            **made,
            "versions": cards.versions(),
            "threads": torch.get_num_threads(),
        }
        self.draw(folder, numbers)
        return numbers

    def draw(self, folder: Path, numbers: dict[str, Any]) -> None:
        """Numbers, page and, where there is one, the curve."""
        picture = curve(numbers["training"]["curve"], self.places)
        cards.write(folder, self.template, numbers, self.words(numbers), **({"curve": picture} if picture else {}))

    def words(self, numbers: Mapping[str, Any]) -> dict[str, Any]:
        """What the page says besides its numbers."""
        return {**said(numbers), **self.said(numbers)}


def n_prompts(minutes: float) -> int:
    """How many texts of each domain are decoded after a training of so many minutes."""
    return min(N_PROMPTS, math.ceil(minutes / MINUTES_A_PROMPT))


def curve(points: Sequence[Sequence[float]], places: tuple[str, str]) -> str:
    """Loss of the first place, and how often the first and the last are right, over steps; empty without a curve."""
    if not points:
        return ""
    steps, loss, *right = zip(*points, strict=True)
    losses = plots.loss_plot(
        f"Loss of {places[0]} while training",
        [plots.Line(places[0], [*zip(steps, loss, strict=True)])],
        plots.Axes("steps; cross-entropy with the target's law in nats", 0.5, 10.0),
    )
    shares = plots.loss_plot(
        "Share right",
        [plots.Line(name, [*zip(steps, y, strict=True)]) for name, y in zip(places, right, strict=True)],
        plots.Axes("steps; share of places whose best token is the target's", 0.1, 1.0),
    )
    return plots.column([losses, shares])


def said(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What all kinds say of decoding and of how they were made."""
    spent, how = numbers["training"], numbers["settings"]
    rates = (
        f"Muon for the matrices between states, AdamW for the rest, peak rates {how['muon_rate']:g}, {how['rate']:g}"
    )
    return {
        "gains": [{**row, "words": ", ".join(_knobs(row["knobs"])) or "defaults"} for row in numbers["decoding"]],
        "beside": beside(numbers["side_by_side"]),
        "windows": how["batch"] * how["accumulate"] * how["processes"],
        "crew": f" of {how['processes']} processes" if how["processes"] > 1 else "",
        "law": "the target's law" if how["draft_loss"] == "full" else "its 50 likeliest tokens, not renormalised",
        "rates": f"AdamW, peak rate {how['rate']:g}" if how["optimizer"] == "adamw" else rates,
        "pictured": bool(spent["curve"]),
    }


def beside(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Kinds of drafters at the same number of nodes, relative to EAGLE-3; nothing where there is but one."""
    if len({row["method"] for row in rows}) < 2:
        return []
    eagle = {
        row["text"]: row["drafting_ms_per_round"] for row in rows if get_method(row["method"]).traits.tree == "levels"
    }

    def told(row: Mapping[str, Any]) -> dict[str, Any]:
        knobs = _knobs({name: value for name, value in row["knobs"].items() if name != "node_budget"})
        least = eagle.get(row["text"])
        relative = f"{row['drafting_ms_per_round'] / least:.2f}" if least else "-"
        return {**row, "words": "".join(f", {each}" for each in knobs), "relative": relative}

    return [told(row) for row in rows]


def _knobs(knobs: Mapping[str, Any]) -> list[str]:
    words = {True: "on", False: "off"}
    return [f"{name} {words[value] if isinstance(value, bool) else value}" for name, value in knobs.items()]
