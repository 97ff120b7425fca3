"""The card of exit heads: what they were made from, what they measure per layer, how to make them again."""

from pathlib import Path
from typing import Any

import torch

from specviz.cost.exit_replay import ExitKnobs, HeadTable, advised
from specviz.engine.model.adapter import ModelAdapter
from specviz.methods import get_method
from specviz.methods.early_exit import spec
from specviz.methods.early_exit.heads import ExitHeadConfig, Heads, cost_in_layers
from specviz.train.cards import page as cards
from specviz.train.cards import plots
from specviz.train.exits.measure import SURE, reliabilities, replayed

DEPTH = 0.5  # the share of the layers that specbound's d_max stands for where nothing is advised
Said = dict[str, list[HeadTable]]  # what heads say of greedy texts, by domain


def write(
    folder: Path,
    config: ExitHeadConfig,
    adapter: ModelAdapter,
    said_by: dict[str, tuple[Heads, Said]],
    windows: torch.Tensor,
    command: str,
    spent: dict[str, Any],
) -> dict[str, Any]:
    """Measure on `windows` `[n, length]` and write the card. `said_by`: the `heads` as loaded again, and the `lens`."""
    found = {name: reliabilities(adapter, each, windows, config.layers) for name, (each, _) in said_by.items()}
    setting = default_setting(config)
    numbers = {
        "target": config.target_name,
        "kind": config.kind,
        "rank": config.rank,
        "shortlist": config.shortlist,
        "labels": config.labels,
        "c_h": round(cost_in_layers(adapter, said_by["heads"][0]), 3),
        "c_h_lens": round(cost_in_layers(adapter, said_by["lens"][0]), 3),
        "layers": {
            str(layer): {name: found[name][layer].as_dict() for name in ("heads", "lens")} for layer in config.layers
        },
        "replay": {
            domain: {name: replayed(tables[domain], setting) for name, (_, tables) in said_by.items()}
            for domain in said_by["heads"][1]
        },
        "advised": list(config.advised),
        "n_layers": adapter.n_layers,
        "command": command,
        "training": spent,
        "versions": cards.versions(),
    }
    panels = [
        (title, [plots.ReliabilityCurve(f"layer {layer}", each.points()) for layer, each in found[name].items()])
        for title, name in (("trained heads", "heads"), ("logit lens", "lens"))
    ]
    cards.write(folder, "exit-heads", numbers, said(numbers), reliability=plots.reliability_plot(panels))
    return numbers


def default_setting(config: ExitHeadConfig) -> ExitKnobs:
    """Method `specbound` as it stands without any knob."""
    knobs = get_method("specbound").table.knobs().values
    limits = spec.read(knobs, config.n_layers, DEPTH, config.advised)
    return ExitKnobs(limits.alpha, limits.tau, limits.d_max, limits.w_max, limits.asked)


def advice(config: ExitHeadConfig, heads_cost: float, said: Said) -> tuple[int, ...]:
    """The layers worth testing at the default threshold: those that make a token of these texts cheapest."""
    return advised([table for own in said.values() for table in own], default_setting(config), heads_cost)


def said(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    shape = numbers["kind"] + (f", rank {numbers['rank']}" if numbers["rank"] else "")
    shape += f", shortlist of {numbers['shortlist']}" if numbers["shortlist"] else ""
    layers = ", ".join(map(str, numbers["advised"]))
    return {"shape": shape, "sure": SURE, "tested": f"layers {layers}" if layers else "its usual layers"}
