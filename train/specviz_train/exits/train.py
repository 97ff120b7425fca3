"""The whole of `specviz train exit-heads`: text, the target's own words, training, measuring, saving.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.early_exit.heads import (
    KIND,
    ExitHead,
    ExitHeadConfig,
    FinalHead,
    Heads,
    LogitLens,
    cost_in_layers,
    load,
)
from specviz.methods.trained.part_kind import in_bfloat16
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.common import own_text
from specviz_train.common.console import Console
from specviz_train.common.loop import Loop
from specviz_train.common.training_text import Ids, TrainingText
from specviz_train.exits import card
from specviz_train.exits.card import GreedyText, greedy_texts, tables
from specviz_train.exits.objective import HeadObjective, Labels
from specviz_train.recipe import OwnTextRequest

WRITING = 0.25  # of the time goes into the target's own text
N_WINDOWS, N_PROMPTS, PROMPT, N_NEW = 48, 6, 48, 96
RANKED = ("lowrank", "factored")
FEW_LAYERS = 24  # a model with no more gets a head at every layer


@dataclass(frozen=True, slots=True)
class ExitHeadRequest(OwnTextRequest):
    """What the command line asks for. `layers` empty: every layer below the top (every other one of a deep model)."""

    command_name: ClassVar[str] = "exit-heads"
    named: ClassVar[tuple[str, ...]] = ("kind", "labels")

    kind: str = "lowrank"
    rank: int = 64
    shortlist: int = 0
    labels: str = "hard"
    layers: tuple[int, ...] = ()

    def tells(self, name: str) -> bool:
        """A rank belongs to the kinds that have one."""
        return self.kind in RANKED if name == "rank" else OwnTextRequest.tells(self, name)


def train_exit_heads(request: ExitHeadRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write heads, card and plot; return the card's numbers."""
    begun = recipe.begin(request, console, lambda target: {"layers": list(_layers(request, target))})
    adapter, source, layers = begun.target, begun.source, _layers(request, begun.target)
    own = begun.own_for_heads(request, WRITING, console)
    ids = _shortlist(request, source, own, adapter)
    final = FinalHead(adapter, ids)
    heads = {layer: ExitHead(request.kind, final, request.rank) for layer in layers}  # type: ignore[arg-type]
    feed, labels = own_text.heads_feed(source, own), cast(Labels, request.labels)
    states = begun.kept_states(request, layers)
    objective = HeadObjective(adapter.model, final, heads, feed, labels, request.seed, kept=states)
    loop = Loop(objective, request.share(request.learning(WRITING)), request.work / "heads.pt")
    with console.bar("heads", loop.budget) as report:
        ledger = loop.finish(report)
    config = ExitHeadConfig(
        target=fingerprint(adapter),
        target_name=adapter.name,
        n_layers=adapter.n_layers,
        width=int(adapter.head.weight.shape[1]),
        vocab=adapter.vocab,
        kind=request.kind,
        layers=layers,
        rank=request.rank if request.kind in RANKED else 0,
        shortlist=request.shortlist,
        labels=request.labels,
    )
    save(request.out, config, heads, ids)
    console.say("measuring; that is not in the minutes")
    texts, windows = _held_out(begun, request.seed)
    trained, lens = load(request.out, adapter), LogitLens(adapter)
    both: dict[str, Heads] = {"heads": trained, "lens": lens}
    by_name = {name: (head_set, tables(adapter, head_set, texts)) for name, head_set in both.items()}
    costs = cost_in_layers(adapter, trained), cost_in_layers(adapter, lens)
    config = replace(config, advised=card.advice(config, costs, by_name["heads"][1]))
    KIND.save(request.out, config)
    return card.write(request.out, config, adapter, by_name, windows, request.command, request.spent(ledger, own))


def _layers(request: ExitHeadRequest, adapter: ModelAdapter) -> tuple[int, ...]:
    """Those asked for, else all below the top, every other one of a deep model."""
    top = adapter.n_layers - 1
    return recipe.layers_below_last(request.layers, range(1, top + 1, 1 if top <= FEW_LAYERS else 2), adapter)


def _shortlist(request: ExitHeadRequest, source: TrainingText, own: Ids, adapter: ModelAdapter) -> torch.Tensor | None:
    """The most frequent tokens of what the heads learn on, in token order; None for the whole vocabulary."""
    if not request.shortlist:
        return None
    counts = torch.bincount(torch.from_numpy(own.ravel()).long(), minlength=adapter.vocab).double() * 4
    for ids in source.streams.values():
        counts += torch.bincount(torch.from_numpy(ids).long(), minlength=adapter.vocab)
    best = counts[: adapter.vocab].topk(min(request.shortlist, adapter.vocab)).indices
    return best.sort().values.to(adapter.device)


def _held_out(begun: recipe.TrainingInputs, seed: int) -> tuple[dict[str, list[GreedyText]], torch.Tensor]:
    """Greedy texts by domain, and windows `[n, length]` the target wrote, all from held-out beginnings."""
    starts = begun.source.prompts("held_out", N_PROMPTS, PROMPT)
    texts = {domain: greedy_texts(begun.target.model, own, N_NEW) for domain, own in starts.items()}
    windows = begun.writer("held_out").batch((seed + 1, 0), own_text.HEADS, N_WINDOWS)
    return texts, torch.from_numpy(windows.ids).long()


def save(folder: Path, config: ExitHeadConfig, heads: dict[int, ExitHead], ids: torch.Tensor | None) -> None:
    """`heads.safetensors` in bfloat16, with the shortlist `ids` `[K]` where there is one, and `config.json`."""
    tensors = {f"{layer}.{name}": weight for layer, head in heads.items() for name, weight in head.state_dict().items()}
    KIND.save(folder, config, in_bfloat16(tensors | ({} if ids is None else {"shortlist": ids})))
