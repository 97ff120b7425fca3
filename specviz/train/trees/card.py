"""What the cards of block drafters, EAGLE-3 drafters and Medusa heads have in common: tables, curve, files.

`card.json` holds every number; `README.md` and `curve.svg` are drawn from it. No file names a path of the machine that
made them.
"""

import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import get_method
from specviz.methods.trained.parts import Trained
from specviz.train.cards import plot
from specviz.train.common.job import Console
from specviz.train.exits import card
from specviz.train.trees.loop import Held, Made
from specviz.train.trees.measure import Arm, compared, side_by_side

N_PROMPTS, PROMPT, N_NEW = 8, 48, 64
MINUTES_A_PROMPT = 5  # short trainings are measured on fewer texts: measuring should not outlast them by far
BUSY = "Times are of this machine, with whatever else it was doing."


def numbers(
    folder: Path, adapter: ModelAdapter, trained: Trained[Any, Any], held: Held, made: Made, own: Sequence[Arm],
    console: Console, known: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Everything a card states: `known` of its kind, what decoding gains with `own` arms and beside other kinds."""
    prompts = card.prompts(held.source.held_out, n_prompts(made.spent["minutes"]), PROMPT)
    beside = side_by_side(adapter, folder)
    total = sum(map(len, prompts.values())) * (len(own) + len(beside))
    with console.ticks("decoding", total, "texts") as tick:
        decoding = [*compared(adapter, own, prompts, N_NEW, tick)]
        others = [*compared(adapter, beside, prompts, N_NEW, tick)]
    return {
        "n_params": sum(parameter.numel() for parameter in trained.network.parameters()), **known,
        "decoding": decoding, "side_by_side": others, "config": asdict(trained.config), "command": made.command,
        "settings": made.settings, "training": made.spent,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "threads": torch.get_num_threads(),
    }  # fmt: skip


def n_prompts(minutes: float) -> int:
    """How many texts of each domain are decoded after a training of so many minutes."""
    return min(N_PROMPTS, math.ceil(minutes / MINUTES_A_PROMPT))


def write(folder: Path, found: dict[str, Any], page: Sequence[str], places: tuple[str, str]) -> dict[str, Any]:
    """Numbers, page and curve beside the weights. `places`: what the first and the last place ahead are called."""
    picture = curve(found["training"]["curve"], places)
    lines = [*page, "", *_made_by(found)]
    if picture:
        (folder / "curve.svg").write_text(picture, encoding="utf-8")
        lines += ["![Loss and accuracy while training](curve.svg)", ""]
    (folder / "card.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")
    return found


def curve(points: Sequence[Sequence[float]], places: tuple[str, str]) -> str:
    """Loss of the first place, and how often the first and the last are right, over steps; empty without a curve."""
    if not points:
        return ""
    steps, loss, first, last = zip(*points, strict=True)
    losses = plot.svg(
        f"Loss of {places[0]} while training", [plot.Line(places[0], [*zip(steps, loss, strict=True)])],
        plot.Axes("steps; cross-entropy with the target's law in nats", 0.5, 10.0),
    )  # fmt: skip
    shares = [plot.Line(name, [*zip(steps, y, strict=True)]) for name, y in zip(places, (first, last), strict=True)]
    right = plot.svg(
        "Share right", shares, plot.Axes("steps; share of places whose best token is the target's", 0.1, 1.0)
    )
    return plot.column([losses, right])


def gains(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """What `compared` found of one method, as lines of a page."""
    lines = [
        "| text | knobs | mean acceptance length | drafter calls a round | drafting's share of the time |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        knobs = ", ".join(f"{name} {_value(value)}" for name, value in row["knobs"].items()) or "defaults"
        lines.append(
            f"| {row['text']} | {knobs} | {row['mean_acceptance_length']:.2f} | {row['drafter_calls_per_round']:.2f} | "
            f"{share(row['drafting_share'])} |"
        )
    return lines


def beside(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Kinds of drafters at the same number of nodes; nothing where there is but one."""
    if len({row["method"] for row in rows}) < 2:
        return []
    lines = [
        "", "## Side by side", "",
        "Drafters for this target at temperature 0 and 60 nodes, the same held-out prompts, each decoded by all in "
        f"turn. *relative*: drafting time a round over that of `eagle3`. {BUSY}", "",
        "| text | method | mean acceptance length | drafter calls a round | drafting a round | relative |",
        "|---|---|---|---|---|---|",
    ]  # fmt: skip
    per_text = {
        row["text"]: row["drafting_ms_per_round"] for row in rows if get_method(row["method"]).traits.tree == "levels"
    }
    for row in rows:
        knobs = "".join(f", {name} {_value(value)}" for name, value in row["knobs"].items() if name != "node_budget")
        least = per_text.get(row["text"])
        relative = f"{row['drafting_ms_per_round'] / least:.2f}" if least else "-"
        lines.append(
            f"| {row['text']} | `{row['method']}`{knobs} | {row['mean_acceptance_length']:.2f} | "
            f"{row['drafter_calls_per_round']:.2f} | {row['drafting_ms_per_round']:.1f} ms | {relative} |"
        )
    return lines


def _made_by(found: Mapping[str, Any]) -> list[str]:
    spent, how = found["training"], found["settings"]
    windows = how["batch"] * how["accumulate"] * how["processes"]
    crew = f" of {how['processes']} processes" if how["processes"] > 1 else ""
    law = "the target's law" if how["draft_loss"] == "full" else "its 50 likeliest tokens, not renormalised"
    return [
        "## Made by", "",
        f"`{found['command']}`: {spent['own_tokens']:,} tokens written by the target, {spent['steps']:,} steps, "
        f"{spent['pairs']:,} places, {spent['minutes']:g} minutes{crew}.", "",
        f"A step: {windows} windows; {_rates(how)} after {how['warm_up']} steps, then "
        f"falling; {how['precision']} over float32 weights. Loss: cross-entropy with {law}; every place ahead weighs "
        f"{how['decay']:g} of the one before. The target wrote four windows of ten greedily, the rest at temperatures "
        ".3 to 1 inside the nucleus of .95.", "",
    ]  # fmt: skip


def _rates(how: Mapping[str, Any]) -> str:
    if how["optimizer"] == "adamw":
        return f"AdamW, peak rate {how['rate']:g}"
    return f"Muon for the matrices between states, AdamW for the rest, peak rates {how['muon_rate']:g}, {how['rate']:g}"


def share(value: float | None) -> str:
    """A percentage; a dash for one that is not there."""
    return "-" if value is None else f"{value:.0%}"


def _value(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value}"
