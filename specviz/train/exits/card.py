"""The card of exit heads: what they were made from, what they measure per layer, how to make them again.

`card.json` holds every number; `README.md` and `reliability.svg` are drawn from it and from the curves. No file names
a path of the machine that made them.
"""

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.cost.exit_replay import Setting, Table, advised
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import get_method
from specviz.methods.early_exit import spec
from specviz.methods.early_exit.head_files import Config
from specviz.methods.early_exit.heads import Heads, LogitLens, cost_in_layers
from specviz.train.cards import head_plot
from specviz.train.exits.measure import SURE, Reliability, reliabilities, replayed

DEPTH = 0.5  # the share of the layers that specbound's d_max stands for where nothing is advised


@dataclass(frozen=True, slots=True)
class Made:
    """How the heads came about, what they said of greedy texts, by domain, and windows `[n, length]` to measure on."""

    config: Config
    command: str
    spent: dict[str, Any]
    said: dict[str, list[Table]]
    said_by_lens: dict[str, list[Table]]
    windows: torch.Tensor


def write(folder: Path, made: Made, adapter: ModelAdapter, heads: Heads) -> dict[str, Any]:
    """Measure the heads as saved and as loaded again; write card, numbers and plot beside them."""
    lens = LogitLens(adapter)
    layers = made.config.layers
    trained, bare = (reliabilities(adapter, each, made.windows, layers) for each in (heads, lens))
    numbers = {
        "target": made.config.target_name,
        "kind": made.config.kind,
        "rank": made.config.rank,
        "shortlist": made.config.shortlist,
        "labels": made.config.labels,
        "c_h": round(cost_in_layers(adapter, heads), 3),
        "c_h_lens": round(cost_in_layers(adapter, lens), 3),
        "layers": {str(layer): {"heads": _row(trained[layer]), "lens": _row(bare[layer])} for layer in layers},
        "replay": _replays(made),
        "advised": list(made.config.advised),
        "n_layers": adapter.n_layers,
        "command": made.command,
        "training": made.spent,
        "versions": {"python": platform.python_version(), "torch": str(torch.__version__)},
    }
    (folder / "card.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    (folder / "reliability.svg").write_text(_plot(trained, bare), encoding="utf-8")
    (folder / "README.md").write_text(page(numbers), encoding="utf-8")
    return numbers


def _row(found: Reliability) -> dict[str, float | None]:
    precision = found.precision
    return {
        "agreement": round(found.agreement, 4),
        "share_sure": round(found.share_sure, 4),
        "precision": None if precision is None else round(precision, 4),
        "calibration_error": round(found.error, 4),
    }


def default_setting(config: Config) -> Setting:
    """Method `specbound` as it stands without any knob."""
    knobs = get_method("specbound").table.knobs().values
    limits = spec.read(knobs, config.n_layers, DEPTH, config.advised)
    return Setting(limits.alpha, limits.tau, limits.d_max, limits.w_max, limits.asked)


def advice(config: Config, heads_cost: float, said: dict[str, list[Table]]) -> tuple[int, ...]:
    """The layers worth testing at the default threshold: those that make a token of these texts cheapest."""
    return advised([table for own in said.values() for table in own], default_setting(config), heads_cost)


def _replays(made: Made) -> dict[str, dict[str, Any]]:
    setting = default_setting(made.config)
    return {
        domain: {
            name: {k: None if v is None else round(v, 3) for k, v in replayed(said[domain], setting).items()}
            for name, said in (("heads", made.said), ("lens", made.said_by_lens))
        }
        for domain in made.said
    }


def _plot(trained: dict[int, Reliability], bare: dict[int, Reliability]) -> str:
    panels = [("trained heads", trained), ("logit lens", bare)]
    return head_plot.svg(
        [(title, [head_plot.Curve(f"layer {k}", each.points()) for k, each in own.items()]) for title, own in panels]
    )


_PAGE = """\
# Exit heads for {target}

One small head ({shape}; {labels} labels) behind each layer listed, for methods that stop early: it says what the target
would say. The target itself is frozen. Whatever the heads say, the text stays the target's own; better heads only make
it come sooner.

## How sure, and how right

On text the target wrote after held-out beginnings. *agreement*: the head's best token is the target's. *sure*: share of
tokens at confidence {sure} or more; *precision*: how many of those are right. *error*: expected calibration error. In
brackets the logit lens, which is the target's own head read too early.

| layer | agreement | sure | precision | error |
|---|---|---|---|---|
{layer_lines}

![How often the heads are right against how sure they are](reliability.svg)

## What decoding gains

Method `specbound` with its default knobs at temperature 0, replayed over greedy texts; tested after {tested}. Plain
decoding takes {n_layers} layer calls a token and one round a token. Calls are given from least to most: what would have
been drafted behind a wrong draft is not in the text.

| text | tokens a round | layer calls a token | head tests a token | drafts right | tokens a round, logit lens |
|---|---|---|---|---|---|
{gain_lines}

One head test reads {c_h:g} layers' worth of weights ({c_h_lens:g} for the lens), and tests are not in the layer calls:
where that number is not small, fewer layer calls need not mean less time.

## Made by

`{command}`: {own_tokens:,} tokens written by the target, {steps:,} steps, {positions:,} positions, {minutes:g} minutes.
"""


def page(numbers: dict[str, Any]) -> str:
    """The card as a page."""
    spent = numbers["training"]
    shape = numbers["kind"] + (f", rank {numbers['rank']}" if numbers["rank"] else "")
    shape += f", shortlist of {numbers['shortlist']}" if numbers["shortlist"] else ""
    return _PAGE.format(
        **{name: numbers[name] for name in ("target", "labels", "n_layers", "c_h", "c_h_lens", "command")},
        shape=shape,
        sure=SURE,
        tested=f"layers {', '.join(map(str, numbers['advised']))}" if numbers["advised"] else "its usual layers",
        layer_lines="\n".join(_layer_line(layer, row) for layer, row in numbers["layers"].items()),
        gain_lines="\n".join(_gain_line(domain, row) for domain, row in numbers["replay"].items()),
        own_tokens=spent["own_tokens"],
        steps=spent["steps"],
        positions=spent["tokens"],
        minutes=spent["minutes"],
    )


def _layer_line(layer: str, row: dict[str, Any]) -> str:
    own, lens = row["heads"], row["lens"]
    cells = [f"{_share(own[key])} ({_share(lens[key])})" for key in ("agreement", "share_sure", "precision")]
    cells.append(f"{own['calibration_error']:.3f} ({lens['calibration_error']:.3f})")
    return f"| {layer} | {' | '.join(cells)} |"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _gain_line(domain: str, row: dict[str, Any]) -> str:
    own, lens = row["heads"], row["lens"]
    least, most = own["layer_calls_per_token_least"], own["layer_calls_per_token_most"]
    return (
        f"| {domain} | {own['tokens_per_round']:.2f} | {least:.1f} to {most:.1f} | {own['head_tests_per_token']:.1f} | "
        f"{_share(own['draft_precision'])} | {lens['tokens_per_round']:.2f} |"
    )


def prompts(streams: Mapping[str, Any], n_each: int, length: int) -> dict[str, list[list[int]]]:
    """Evenly spaced beginnings of held-out text, by domain."""
    found: dict[str, list[list[int]]] = {}
    for domain, ids in streams.items():
        room = len(ids) - length
        starts: Sequence[int] = sorted({room * k // max(1, n_each - 1) for k in range(n_each)}) if room > 0 else []
        found[domain] = [[int(token) for token in ids[start : start + length]] for start in starts]
    return {domain: own for domain, own in found.items() if own}
