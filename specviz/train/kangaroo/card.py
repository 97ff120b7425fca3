"""The card of an adapter: what it was made from, how often its drafts are kept, what decoding gains, how to repeat it.

`card.json` holds every number; `README.md` and `reliability.svg` are drawn from it. No file names a path of the machine
that made them.
"""

import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import Tensor
from specviz.methods import get_method
from specviz.methods.early_exit.heads import LogitLens
from specviz.methods.kangaroo import drafter
from specviz.methods.kangaroo.adapter import AdapterModel
from specviz.methods.kangaroo.files import Config
from specviz.train.cards import head_plot
from specviz.train.common.own_text import TURNS, Decoded, Prompts, decode, gain
from specviz.train.exits.loop import States
from specviz.train.exits.measure import SURE, Reliability, binned

_ROWS = 8


@dataclass(frozen=True, slots=True)
class Made:
    """How the adapter came about. `tried`: by layer, what a briefly trained one made of a token."""

    config: Config
    command: str
    spent: dict[str, Any]
    tried: dict[int, dict[str, float]]


def write(
    folder: Path, made: Made, target: ModelAdapter, model: AdapterModel, prompts: Mapping[str, list[list[int]]],
    n_new: int, windows: NDArray[Any], tick: Callable[[int], None] = lambda n: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure the adapter as loaded again; write card, numbers and plot beside it. `tick` is told of texts decoded."""
    said, lens = reliabilities(target, model, torch.from_numpy(windows.astype(np.int64)))
    numbers = {
        "target": made.config.target_name,
        "layer": made.config.layer,
        "n_layers": target.n_layers,
        "parameters": model.adapter.n_params,
        "windows": {"adapter": _row(said), "lens": _row(lens)},
        "decoding": {domain: _decoding(target, model, own, n_new, tick) for domain, own in prompts.items()},
        "tried": {str(layer): row for layer, row in made.tried.items()},
        "command": made.command,
        "training": made.spent,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
        "threads": torch.get_num_threads(),
    }
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    curves = [head_plot.Curve("adapter", said.points()), head_plot.Curve("logit lens", lens.points())]
    (folder / "reliability.svg").write_text(head_plot.svg([(f"layer {made.config.layer}", curves)]), encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


@torch.inference_mode()
def reliabilities(target: ModelAdapter, model: AdapterModel, windows: Tensor) -> tuple[Reliability, Reliability]:
    """How sure and how right, over all positions of `windows` `[n, length]`: the adapter, and the lens there."""
    lens, parts = LogitLens(target), ([], [])  # type: ignore[var-annotated]
    n = windows.shape[1]
    for some in torch.split(windows, _ROWS):
        states = States.of(target.model, some, (model.layer,), target.vocab)
        best, read = states.final.argmax(-1), states.by_layer[model.layer]
        rows = read.reshape(len(some), n, -1)
        out = model.adapter(rows, model.block(rows, list(range(n)), None, None)[0]).flatten(0, 1)
        for logits, found in zip((model.logits(out[None]), lens.logits(model.layer, read)), parts, strict=True):
            top = logits.softmax(-1).max(-1)
            found.append((top.values.cpu(), (top.indices == best).cpu()))
    return binned(parts[0]), binned(parts[1])


def _row(found: Reliability) -> dict[str, float | None]:
    precision = found.precision
    return {
        "agreement": round(found.agreement, 4),
        "share_sure": round(found.share_sure, 4),
        "precision": None if precision is None else round(precision, 4),
        "calibration_error": round(found.error, 4),
    }


def n_decodings(prompts: Mapping[str, list[list[int]]]) -> int:
    """How many texts are decoded for a card: that is what measuring takes its time for, however short the training."""
    return sum(map(len, prompts.values())) * (3 + 2 * TURNS)


def _decoding(
    target: ModelAdapter, model: AdapterModel, prompts: list[list[int]], n_new: int, tick: Callable[[int], None]
) -> dict[str, Any]:
    """Default knobs; drafting on regardless, for the agreement by position; without the adapter; plain."""

    def run(method: str, adapter: AdapterModel | None, some: Prompts, **knobs: Any) -> Decoded:
        make = (lambda m: None) if get_method(method).traits.plain else (lambda m: drafter.over(m, adapter, "argmax"))
        found = decode(target, make, method, some, n_new, **knobs)
        tick(len(some))
        return found

    own, always = run("kangaroo", model, prompts), run("kangaroo", model, prompts, tau=0.0)
    lens = run("kangaroo", None, prompts, exit_layers=[str(model.layer)])
    return {
        "tokens_per_round": round(own.tokens_per_round, 3),
        "tokens_per_round_lens": round(lens.tokens_per_round, 3),
        "layer_calls_per_token": round(own.layer_calls / own.tokens, 3),
        "drafts_per_round": round(own.drafted / own.rounds, 3),
        "drafts_kept": round(own.accepted / max(1, own.drafted), 4),
        "kept_by_position": [round(share, 4) for share in always.by_position()],
        "speed": round(gain(lambda some: run("ar", None, some), lambda some: run("kangaroo", model, some), prompts), 3),
    }


_PAGE = """\
# Kangaroo adapter for {target}

A norm, one attention over the states after layer {layer} of {n_layers}, a norm ({parameters:,} weights, bfloat16);
then the target's own head. Method `kangaroo` drafts with it and lets the target verify, so the text stays the target's
own; a better adapter only makes it come sooner. The target itself is frozen; labels are its distribution.

## How sure, and how right

On text the target wrote after held-out beginnings. *agreement*: its best token is the target's. *sure*: share of tokens
at confidence {sure} or more; *precision*: how many of those are right. *error*: expected calibration error.

| behind layer {layer} | agreement | sure | precision | error |
|---|---|---|---|---|
{window_lines}

![How often drafts are right against how sure they are](reliability.svg)

## What decoding gains

Method `kangaroo` with its default knobs at temperature 0, held-out prompts; plain decoding takes {n_layers} layer calls
and one round a token. *by position*: of the drafts reached at position 1, 2, .., the share kept when drafting never
stops by itself. *time*: that of plain decoding divided by that of `kangaroo`, each prompt at its best of three turns in
turn about; below 1 it is slower. The machine was busy with other work when this was measured.

| text | tokens a round (lens) | layer calls a token | drafts a round | kept | by position | time |
|---|---|---|---|---|---|---|
{gain_lines}

## Why layer {layer}

Adapters behind several layers, trained together for a third of the time, decoded the same prompts. Of those whose time
is within 2 % of the least, the one that needs fewest rounds was trained on.

| layer | tokens a round | layer calls a token | predicted time a token |
|---|---|---|---|
{tried_lines}

## Made by

`{command}`

{own_tokens:,} tokens written by the target, {steps:,} steps, {positions:,} positions; {minutes:g} minutes on
{threads} thread(s) of a busy machine.
"""


def page(numbers: dict[str, Any]) -> str:
    """The card as a page."""
    spent = numbers["training"]
    return _PAGE.format(
        **{name: numbers[name] for name in ("target", "layer", "n_layers", "parameters", "command", "threads")},
        sure=SURE,
        window_lines="\n".join(_window_line(name, row) for name, row in numbers["windows"].items()),
        gain_lines="\n".join(_gain_line(domain, row) for domain, row in numbers["decoding"].items()),
        tried_lines="\n".join(_tried_line(layer, row) for layer, row in numbers["tried"].items()),
        own_tokens=spent["own_tokens"], steps=spent["steps"], positions=spent["tokens"], minutes=spent["minutes"],
    )  # fmt: skip


def _window_line(name: str, row: dict[str, Any]) -> str:
    precision = "-" if row["precision"] is None else f"{row['precision']:.0%}"
    label = {"lens": "the target's own head"}.get(name, name)
    return (
        f"| {label} | {row['agreement']:.0%} | {row['share_sure']:.0%} | {precision} | {row['calibration_error']:.3f} |"
    )


def _gain_line(domain: str, row: dict[str, Any]) -> str:
    places = " ".join(f"{share:.0%}" for share in row["kept_by_position"][:6])
    return (
        f"| {domain} | {row['tokens_per_round']:.2f} ({row['tokens_per_round_lens']:.2f}) | "
        f"{row['layer_calls_per_token']:.1f} | {row['drafts_per_round']:.1f} | {row['drafts_kept']:.0%} | {places} | "
        f"{row['speed']:.2f} |"
    )


def _tried_line(layer: str, row: dict[str, float]) -> str:
    return (
        f"| {layer} | {row['tokens_per_round']:.2f} | {row['layer_calls_per_token']:.1f} | "
        f"{row['ns_per_token'] / 1e6:.2f} ms |"
    )
