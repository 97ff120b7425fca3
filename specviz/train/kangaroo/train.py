"""The whole of `specviz train kangaroo`: text, the target's own words, several layers tried, the best one trained.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
Labels are soft, as in the source: cross-entropy with the target's own distribution (specbound.md 8.3, 14.2).

Training adapters: as exit heads are trained, but on whole windows, since an adapter reads the states before a row.

Several layers learn from the same passes of the target, so that comparing layers costs little more than one of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.early_exit.exit_head import FinalHead
from specviz.methods.kangaroo import drafter, files
from specviz.methods.kangaroo.adapter import Adapter, AdapterModel, Shape, rope_table
from specviz.methods.kangaroo.drafter import measured
from specviz.methods.trained.parts import fingerprint
from specviz.train import recipe
from specviz.train.common import head_text
from specviz.train.common.job import Console
from specviz.train.common.own_text import Decoded, decode
from specviz.train.common.tokens import Feed, Store
from specviz.train.exits import card as head_card
from specviz.train.exits.loop import HeadRun, Job, Ledger, States, loss_of
from specviz.train.kangaroo import card as kangaroo_card
from specviz.train.recipe import Timed

WRITING, TRYING = 0.2, 0.4  # of the time: the target's own text; of the rest: trying layers
SHARES = (1 / 12, 1 / 6, 1 / 4, 5 / 12, 1 / 2, 2 / 3)  # where adapters are tried
CLOSE = 1.02  # costs nearer than this are alike: they were measured
N_PROMPTS, PROMPT, N_NEW = 3, 48, 64


@dataclass(frozen=True, slots=True)
class Request(Timed):
    """What the command line asks for. `layers`: those tried, of which the best is trained; empty: some of the lower."""

    command_name: ClassVar[str] = "kangaroo"

    layers: tuple[int, ...] = ()


def train_kangaroo(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write adapter and card; return the card's numbers."""
    begun = recipe.begin(request, console, lambda target: {"layers": list(_layers(request, target))})
    target, source, layers = begun.target, begun.source, _layers(request, begun.target)
    path = request.work / "own_text.npz"
    own = head_text.written(target.model, source, path, request.share(WRITING), request.seed, console)
    feed, shape = head_text.feed_of(source, own), Shape.of(target)
    tried = _tried(request, target, shape, feed, layers, source, console)
    best = chosen(tried)
    console.say(f"training for layer {best}")
    adapters, ledger = _train(request, target, shape, feed, (best,), _rest(len(layers)), f"layer-{best}", console)
    config = files.Config(fingerprint(target), target.name, target.n_layers, best, shape)
    files.save(request.out, config, adapters[best])
    spent = {
        "steps": ledger.steps, "tokens": ledger.tokens, "own_tokens": int(own.size),
        "minutes": round(request.minutes, 2), "curve": [[step, round(loss, 4)] for step, loss in ledger.curve],
    }  # fmt: skip
    made = kangaroo_card.Made(config, request.command, spent, tried)
    prompts = head_card.prompts(source.held_out, 2 * N_PROMPTS, PROMPT)
    windows = head_text.write_batch(target.model, head_text.beginnings(source.held_out), (request.seed + 1, 0), 32)
    model = files.load(request.out, target)
    console.say("measuring; that is not in the minutes")
    with console.ticks("decoding", kangaroo_card.n_decodings(prompts), "texts") as tick:
        return kangaroo_card.write(request.out, made, target, model, prompts, N_NEW, windows, tick)


def chosen(tried: Mapping[int, Mapping[str, float]]) -> int:
    """The layer to train for: of those that make a token cheapest, or as good as, the one that takes fewest rounds."""
    least = min(row["ns_per_token"] for row in tried.values())
    close = [layer for layer, row in tried.items() if row["ns_per_token"] <= CLOSE * least]
    return max(close, key=lambda layer: tried[layer]["tokens_per_round"])


def _layers(request: Request, target: ModelAdapter) -> tuple[int, ...]:
    top = target.n_layers - 1
    wrong = [layer for layer in request.layers if not 1 <= layer <= top]
    if wrong:
        raise SpecvizError(f"--layers {wrong[0]}: the target has layers 1 to {top} below its last")
    usual = {min(max(1, round(share * target.n_layers)), top) for share in SHARES}
    return tuple(sorted(set(request.layers) or usual))


def _rest(n_layers: int) -> float:
    """The share of the time that the chosen layer is trained for."""
    return (1 - WRITING) * (1 - TRYING if n_layers > 1 else 1)


def _train(
    request: Request, target: ModelAdapter, shape: Shape, feed: Feed, layers: tuple[int, ...], share: float,
    name: str, console: Console,
) -> tuple[dict[int, Adapter], Ledger]:  # fmt: skip
    """Adapters for some layers, together, from where trying them left off; goes on from the checkpoint of that name."""
    adapters = {layer: Adapter(shape, device=target.device).begin(target.norm, request.seed) for layer in layers}
    if (before := request.work / "tried.pt").exists() and name != "tried":
        weights = torch.load(before, weights_only=True)["heads"]
        for layer, adapter in adapters.items():
            adapter.load_state_dict(weights[str(layer)])
    job = Job(
        target.model, FinalHead(target), adapters, feed, "soft", request.share(share), request.seed,
        request.work / f"{name}.pt",
    )  # fmt: skip
    with console.bar(name, job.budget) as report:
        return adapters, AdapterRun(job, shape).finish(report)


def _tried(
    request: Request, target: ModelAdapter, shape: Shape, feed: Feed, layers: tuple[int, ...], source: Store,
    console: Console,
) -> dict[int, dict[str, float]]:  # fmt: skip
    """What a token costs with a briefly trained adapter behind each layer; found once, layer by layer."""
    path = request.work / "tried.json"
    found = _found(path) if path.exists() else {}
    missing = [layer for layer in layers if layer not in found]
    if missing:
        n = len(layers)
        share = (1 - WRITING) * TRYING if n > 1 else 0.0
        adapters = (
            _train(request, target, shape, feed, layers, share, "tried", console)[0] if n > 1 else
            {layers[0]: Adapter(shape, device=target.device).begin(target.norm, request.seed)}
        )  # fmt: skip
        prompts = head_card.prompts(source.held_out, N_PROMPTS, PROMPT)
        console.say("measuring what a token costs behind each layer; that is not in the minutes")
        with console.ticks("trying", len(missing), "layers") as tick:
            for layer in missing:
                found[layer] = _cost(target, adapters[layer], shape, layer, prompts)
                recipe.keep(path, {str(layer): row for layer, row in sorted(found.items())})
                tick(1)
    return found


def _found(path: Path) -> dict[int, dict[str, float]]:
    """The layers tried so far. Raises SpecvizError for a file that holds no such thing."""
    try:
        return {int(layer): dict(row) for layer, row in recipe.kept(path).items()}
    except (TypeError, ValueError) as error:
        raise SpecvizError(f"{path} holds no trials of layers; remove it, or give another --work folder") from error


def _cost(
    target: ModelAdapter, adapter: Adapter, shape: Shape, layer: int, prompts: Mapping[str, list[list[int]]]
) -> dict[str, float]:  # fmt: skip
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


class AdapterRun(HeadRun):
    """A training of adapters in progress; `job.heads` are adapters by layer."""

    def __init__(self, job: Job, shape: Shape) -> None:
        super().__init__(job)
        self._rope = rope_table(shape, job.model.device)

    def _losses(self, windows: Tensor, keep: Tensor) -> Iterator[Tensor]:
        job, (rows, length) = self.job, windows.shape
        states = States.of(job.model, windows, tuple(job.heads), job.final.vocab)
        wanted, keep = states.final[keep.to(states.final.device)], keep.to(states.final.device)
        places = list(range(length))
        for layer, adapter in job.heads.items():
            read = states.by_layer[layer].reshape(rows, length, -1).to(adapter.norm.weight.dtype)
            rope = self._rope.at(read, places, torch.arange(length, device=read.device)[None])
            yield loss_of(scores(adapter, read, rope, job, keep), wanted, job.labels, job.final.ids)


def scores(adapter: Adapter, read: Tensor, rope: tuple[Tensor, Tensor], job: Job, keep: Tensor) -> Tensor:
    """`[n, V]` at the positions `keep` of windows of states `[rows, length, d]`."""
    out = adapter(read, rope).flatten(0, 1)[keep]
    return job.final.scores(adapter.norm(out))
