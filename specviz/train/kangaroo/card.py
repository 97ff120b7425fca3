"""The card of an adapter: how it was made, how often its drafts are kept, what decoding gains."""

from collections.abc import Callable, Mapping
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
from specviz.methods.kangaroo.adapter import AdapterConfig, AdapterModel
from specviz.train.cards import page as cards
from specviz.train.cards import plots
from specviz.train.common.decoding import TURNS, Decoded, Prompts, decode, gain
from specviz.train.exits.measure import SURE, Reliability, binned
from specviz.train.exits.objective import LayerStates

_ROWS = 8


def write(
    folder: Path,
    config: AdapterConfig,
    target: ModelAdapter,
    model: AdapterModel,
    prompts: Mapping[str, list[list[int]]],
    n_new: int,
    windows: NDArray[Any],
    made: Mapping[str, Any],
    tick: Callable[[int], None] = lambda n: None,
) -> dict[str, Any]:
    """Measure the adapter as loaded again; write card, numbers and plot beside it. `tick` is told of texts decoded.

    `windows` `[n, length]`; `made`: layers tried, command and training, as they stand on the card.
    """
    own, lens = reliabilities(target, model, torch.from_numpy(windows.astype(np.int64)))
    numbers = {
        "target": config.target_name,
        "layer": config.layer,
        "n_layers": target.n_layers,
        "parameters": model.adapter.n_params,
        "windows": {"adapter": own.as_dict(), "lens": lens.as_dict()},
        "decoding": {domain: _decoding(target, model, some, n_new, tick) for domain, some in prompts.items()},
        **made,
        "versions": cards.versions(),
        "threads": torch.get_num_threads(),
    }
    curves = [plots.ReliabilityCurve("adapter", own.points()), plots.ReliabilityCurve("logit lens", lens.points())]
    picture = plots.reliability_plot([(f"layer {config.layer}", curves)])
    cards.write(folder, "kangaroo", numbers, said(numbers), reliability=picture)
    return numbers


def said(numbers: dict[str, Any]) -> dict[str, Any]:
    """What the page says besides its numbers."""
    names = {"lens": "the target's own head"}
    return {
        "sure": SURE,
        "rows": [(names.get(name, name), row) for name, row in numbers["windows"].items()],
        "gains": [
            (domain, row, " ".join(f"{share:.0%}" for share in row["kept_by_position"][:6]))
            for domain, row in numbers["decoding"].items()
        ],
        "trials": [(layer, row, row["ns_per_token"] / 1e6) for layer, row in numbers["tried"].items()],
    }


@torch.inference_mode()
def reliabilities(target: ModelAdapter, model: AdapterModel, windows: Tensor) -> tuple[Reliability, Reliability]:
    """How sure and how right, over all positions of `windows` `[n, length]`: the adapter, and the lens there."""
    lens, parts = LogitLens(target), ([], [])  # type: ignore[var-annotated]
    n = windows.shape[1]
    for some in torch.split(windows, _ROWS):
        states = LayerStates.of(target.model, some, (model.layer,), target.vocab)
        best, read = states.final.argmax(-1), states.by_layer[model.layer]
        rows = read.reshape(len(some), n, -1)
        out = model.adapter(rows, model.block(rows, list(range(n)), None, None)[0]).flatten(0, 1)
        for logits, found in zip((model.logits(out[None]), lens.logits(model.layer, read)), parts, strict=True):
            top = logits.softmax(-1).max(-1)
            found.append((top.values.cpu(), (top.indices == best).cpu()))
    return binned(parts[0]), binned(parts[1])


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
