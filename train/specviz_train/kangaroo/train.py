"""The whole of `specviz train kangaroo`: text, the target's own words, several layers tried, the best one trained.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
Labels are soft, as in the source: cross-entropy with the target's own distribution.

Training adapters: as exit heads are trained, but on whole windows, since an adapter reads the states before a row.

Several layers learn from the same passes of the target, so that comparing layers costs little more than one of them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods import get_method
from specviz.methods.early_exit.heads import FinalHead, LogitLens
from specviz.methods.kangaroo import drafter
from specviz.methods.kangaroo.adapter import Adapter, AdapterConfig, AdapterModel, AdapterShape, load, rope_table, save
from specviz.methods.kangaroo.drafter import measured
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.cards import page as cards
from specviz_train.common import own_text
from specviz_train.common.console import Console
from specviz_train.common.decoding import TURNS, Decoded, Prompts, decode, gain
from specviz_train.common.files import keep, kept
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.loop import Loop, TrainingLedger
from specviz_train.common.training_text import WindowFeed
from specviz_train.exits.card import SURE, Says, reliabilities
from specviz_train.exits.objective import HeadObjective, LayerStates, loss_of
from specviz_train.recipe import OwnTextRequest

WRITING, TRYING = 0.2, 0.4  # of the time: the target's own text; of the rest: trying layers
SHARES = (1 / 12, 1 / 6, 1 / 4, 5 / 12, 1 / 2, 2 / 3)  # where adapters are tried
CLOSE = 1.02  # costs nearer than this are alike: they were measured
N_PROMPTS, PROMPT, N_NEW = 3, 48, 64


@dataclass(frozen=True, slots=True)
class KangarooRequest(OwnTextRequest):
    """What the command line asks for. `layers`: those tried, of which the best is trained; empty: some of the lower."""

    command_name: ClassVar[str] = "kangaroo"

    layers: tuple[int, ...] = ()


def train_kangaroo(request: KangarooRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write adapter and card; return the card's numbers."""
    begun = recipe.begin(request, console, lambda target: {"layers": list(_layers(request, target))})
    target, source, layers = begun.target, begun.source, _layers(request, begun.target)
    own, states = begun.own_for_heads(request, WRITING, console), begun.kept_states(request, layers)
    feed = own_text.heads_feed(source, own)
    training = _AdapterTraining(request, target, feed, states, AdapterShape.of(target), console)
    tried = training.tried(layers, source.prompts("held_out", N_PROMPTS, PROMPT))
    best = chosen(tried)
    console.say(f"training for layer {best}")
    share = request.learning(WRITING) * (1 - TRYING if len(layers) > 1 else 1)
    adapters, ledger = training.run((best,), share, f"layer-{best}")
    config = AdapterConfig(fingerprint(target), target.name, target.n_layers, best, training.shape)
    save(request.out, config, adapters[best])
    tried_rows = {str(layer): row for layer, row in tried.items()}
    facts = {"tried": tried_rows, "command": request.command, "training": request.spent(ledger, own)}
    prompts = source.prompts("held_out", 2 * N_PROMPTS, PROMPT)
    windows = begun.writer("held_out").batch((request.seed + 1, 0), own_text.HEADS, 32).ids
    model = load(request.out, target)
    console.say("measuring; that is not in the minutes")
    with console.ticks("decoding", n_decodings(prompts), "texts") as tick:
        return write_card(request.out, config, target, model, prompts, N_NEW, windows, facts, tick)


def _layers(request: KangarooRequest, target: ModelAdapter) -> tuple[int, ...]:
    usual = (min(max(1, round(share * target.n_layers)), target.n_layers - 1) for share in SHARES)
    return recipe.layers_below_last(request.layers, usual, target)


def chosen(tried: Mapping[int, Mapping[str, float]]) -> int:
    """The layer to train for: of those that make a token cheapest, or as good as, the one that takes fewest rounds."""
    least = min(row["ns_per_token"] for row in tried.values())
    close = [layer for layer, row in tried.items() if row["ns_per_token"] <= CLOSE * least]
    return max(close, key=lambda layer: tried[layer]["tokens_per_round"])


@dataclass(frozen=True, slots=True)
class _AdapterTraining:
    """What adapters are trained with, whatever their layers."""

    request: KangarooRequest
    target: ModelAdapter
    feed: WindowFeed
    kept: KeptStates | None
    shape: AdapterShape
    console: Console

    def fresh(self, layers: tuple[int, ...]) -> dict[int, Adapter]:
        """Untrained adapters by layer."""
        target, seed = self.target, self.request.seed
        return {layer: Adapter(self.shape, device=target.device).begin(target.norm, seed) for layer in layers}

    def run(self, layers: tuple[int, ...], share: float, name: str) -> tuple[dict[int, Adapter], TrainingLedger]:
        """Adapters for some layers, together, from where trying them left off; goes on from that checkpoint."""
        adapters, work = self.fresh(layers), self.request.work
        if (before := work / "tried.pt").exists() and name != "tried":
            weights = torch.load(before, weights_only=True)["heads"]
            for layer, adapter in adapters.items():
                adapter.load_state_dict(weights[str(layer)])
        final, seed = FinalHead(self.target), self.request.seed
        objective = AdapterObjective(
            self.target.model, final, adapters, self.feed, "soft", seed, self.shape, kept=self.kept
        )
        loop = Loop(objective, self.request.share(share), work / f"{name}.pt")
        with self.console.bar(name, loop.budget) as report:
            return adapters, loop.finish(report)

    def tried(self, layers: tuple[int, ...], prompts: Mapping[str, list[list[int]]]) -> dict[int, dict[str, float]]:
        """What a token costs with a briefly trained adapter behind each layer; found once, layer by layer.

        Raises SpecvizError for a file of trials that holds none.
        """
        path = self.request.work / "tried.json"
        try:
            costs = {int(layer): dict(row) for layer, row in kept(path).items()} if path.exists() else {}
        except (TypeError, ValueError) as error:
            raise SpecvizError(f"{path} holds no trials of layers; remove it, or give another --work folder") from error
        missing = [layer for layer in layers if layer not in costs]
        if not missing:
            return costs
        one = len(layers) == 1
        adapters = self.fresh(layers) if one else self.run(layers, self.request.learning(WRITING) * TRYING, "tried")[0]
        self.console.say("measuring what a token costs behind each layer; that is not in the minutes")
        with self.console.ticks("trying", len(missing), "layers") as tick:
            for layer in missing:
                costs[layer] = _cost(self.target, adapters[layer], self.shape, layer, prompts)
                keep(path, {str(layer): row for layer, row in sorted(costs.items())})
                tick(1)
        return costs


def _cost(
    target: ModelAdapter, adapter: Adapter, shape: AdapterShape, layer: int, prompts: Mapping[str, list[list[int]]]
) -> dict[str, float]:
    model = AdapterModel(target, adapter.requires_grad_(False), shape, layer)
    clock = measured(target, model)
    out = Decoded()
    for own in prompts.values():
        out += decode(target, lambda m: drafter.over(m, model, "argmax"), "kangaroo", own, N_NEW, clock)
    return {
        "tokens_per_round": round(out.tokens_per_round, 3),
        "layer_calls_per_token": round(out.layer_calls / out.tokens, 3),
        "ns_per_token": round(out.predicted_ns / out.tokens),
    }


@dataclass
class AdapterObjective(HeadObjective):
    """Adapters by layer, which learn on whole windows: an adapter reads the states before a row."""

    shape: AdapterShape

    def __post_init__(self) -> None:
        HeadObjective.__post_init__(self)
        self.rope = rope_table(self.shape, self.model.device)

    def learnt(self, states: LayerStates, shape: torch.Size, keep: Tensor) -> Iterator[Tensor]:
        """The loss of every adapter on positions `keep` `[n]` of the flattened windows of `shape` `[rows, length]`."""
        rows, length = shape
        keep = keep.to(states.final.device)
        for layer, adapter in self.heads.items():
            read = states.by_layer[layer].reshape(rows, length, -1).to(adapter.norm.weight.dtype)
            rope = self.rope.at(read, list(range(length)), torch.arange(length, device=read.device)[None])
            out = adapter(read, rope).flatten(0, 1)[keep]
            yield loss_of(self.final.scores(adapter.norm(out)), states.final, self.labels, self.final.ids)


def write_card(
    folder: Path,
    config: AdapterConfig,
    target: ModelAdapter,
    model: AdapterModel,
    prompts: Mapping[str, list[list[int]]],
    n_new: int,
    windows: NDArray[Any],
    facts: Mapping[str, Any],
    tick: Callable[[int], None] = lambda n: None,
) -> dict[str, Any]:
    """Measure the adapter as loaded again; write card, numbers and plot beside it. `tick` is told of texts decoded.

    `windows` `[n, length]`; `facts`: layers tried, command and training, as they stand on the card.
    """
    heads = heads_of(target, model, windows.shape[1])
    own, lens = reliabilities(target, heads, torch.from_numpy(windows.astype(np.int64))).values()
    numbers = {
        "target": config.target_name,
        "layer": config.layer,
        "n_layers": target.n_layers,
        "parameters": model.adapter.n_params,
        "windows": {"adapter": own.as_dict(), "lens": lens.as_dict()},
        "decoding": {domain: _decoding(target, model, some, n_new, tick) for domain, some in prompts.items()},
        **facts,
        "versions": cards.versions(),
        "threads": torch.get_num_threads(),
    }
    curves = [cards.ReliabilityCurve("adapter", own.points()), cards.ReliabilityCurve("logit lens", lens.points())]
    picture = cards.reliability_plot([(f"layer {config.layer}", curves)])
    cards.write(folder, "kangaroo", numbers, page_facts(numbers), reliability=picture)
    return numbers


def page_facts(numbers: dict[str, Any]) -> dict[str, Any]:
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


def heads_of(target: ModelAdapter, model: AdapterModel, length: int) -> dict[tuple[str, int], Says]:
    """What the adapter says of states of windows of `length`, and the lens behind the same layer."""

    def adapted(states: Tensor) -> Tensor:
        rows = states.reshape(-1, length, states.shape[-1])
        out = model.adapter(rows, model.inputs(rows, list(range(length)), None, None)[0]).flatten(0, 1)
        return model.logits(out[None])

    return {("adapter", model.layer): adapted, ("lens", model.layer): partial(LogitLens(target).logits, model.layer)}


def n_decodings(prompts: Mapping[str, list[list[int]]]) -> int:
    """How many texts are decoded for a card: that is what measuring takes its time for, however short the training."""
    return sum(map(len, prompts.values())) * (3 + 2 * TURNS)


def _decoding(
    target: ModelAdapter, model: AdapterModel, prompts: list[list[int]], n_new: int, tick: Callable[[int], None]
) -> dict[str, Any]:
    """Default knobs; drafting on regardless, for the agreement by position; without the adapter; plain."""

    def run(method: str, adapter: AdapterModel | None, some: Prompts, **knobs: Any) -> Decoded:
        make = (lambda m: None) if get_method(method).traits.plain else (lambda m: drafter.over(m, adapter, "argmax"))
        decoded = decode(target, make, method, some, n_new, **knobs)
        tick(len(some))
        return decoded

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
