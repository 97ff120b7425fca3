"""The whole of `specviz train exit-heads`: text, the target's own words, training, measuring, saving.

Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes on where it was.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import torch
from safetensors.torch import save_file

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.early_exit.exit_head import KINDS, ExitHead, FinalHead
from specviz.methods.early_exit.head_files import Config, fingerprint
from specviz.methods.early_exit.heads import LogitLens, cost_in_layers, load
from specviz.train import recipe
from specviz.train.common import head_text, tokens
from specviz.train.common.job import Console
from specviz.train.common.own_text import Ids
from specviz.train.exits import card
from specviz.train.exits.loop import HeadRun, Job, Labels
from specviz.train.exits.measure import greedy_texts, tables
from specviz.train.recipe import Timed

WRITING = 0.25  # of the time goes into the target's own text
N_WINDOWS, N_PROMPTS, PROMPT, N_NEW = 48, 6, 48, 96
RANKED = ("lowrank", "factored")
FEW_LAYERS = 24  # a model with no more gets a head at every layer


@dataclass(frozen=True, slots=True)
class Request(Timed):
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
        return self.kind in RANKED if name == "rank" else Timed.tells(self, name)


def train_exit_heads(request: Request, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write heads, card and plot; return the card's numbers."""
    _refuse(request)
    begun = recipe.begin(request, console, lambda target: {"layers": list(_layers(request, target))})
    adapter, source, layers = begun.target, begun.source, _layers(request, begun.target)
    own = head_text.written(
        adapter.model, source, request.work / "own_text.npz", request.share(WRITING), request.seed, console
    )
    ids = _shortlist(request, source, own, adapter)
    final = FinalHead(adapter, ids)
    heads = {layer: ExitHead(request.kind, final, request.rank) for layer in layers}  # type: ignore[arg-type]
    labels: Labels = request.labels  # type: ignore[assignment]
    job = Job(
        adapter.model, final, heads, head_text.feed_of(source, own), labels, request.share(1 - WRITING), request.seed,
        request.work / "heads.pt",
    )  # fmt: skip
    with console.bar("heads", job.budget) as report:
        ledger = HeadRun(job).finish(report)
    config = Config(
        target=fingerprint(adapter), target_name=adapter.name, n_layers=adapter.n_layers,
        width=int(adapter.head.weight.shape[1]), vocab=adapter.vocab, kind=request.kind, layers=layers,
        rank=request.rank if request.kind in RANKED else 0, shortlist=request.shortlist,
        labels=request.labels,
    )  # fmt: skip
    save(request.out, config, heads, ids)
    console.say("measuring; that is not in the minutes")
    spent = {
        "steps": ledger.steps, "tokens": ledger.tokens, "own_tokens": int(own.size),
        "minutes": round(request.minutes, 2), "curve": [[step, round(loss, 4)] for step, loss in ledger.curve],
    }  # fmt: skip
    texts, windows = _held_out(adapter, source, request.seed)
    trained = load(request.out, adapter)
    said, by_lens = (tables(adapter, heads_, texts) for heads_ in (trained, LogitLens(adapter)))
    config = replace(config, advised=card.advice(config, cost_in_layers(adapter, trained), said))
    config.write(request.out)
    made = card.Made(config, request.command, spent, said, by_lens, windows)
    return card.write(request.out, made, adapter, trained)


def _refuse(request: Request) -> None:
    if request.kind not in KINDS or request.kind == "tuned":
        raise SpecvizError(f"--kind {request.kind}: unknown; use one of {', '.join(k for k in KINDS if k != 'tuned')}")
    if request.labels not in get_args(Labels):
        raise SpecvizError(f"--labels {request.labels}: unknown; use {' or '.join(get_args(Labels))}")


def _layers(request: Request, adapter: ModelAdapter) -> tuple[int, ...]:
    """Those asked for, else all below the top, every other one of a deep model."""
    top = adapter.n_layers - 1
    if request.layers:
        wrong = [layer for layer in request.layers if not 1 <= layer <= top]
        if wrong:
            raise SpecvizError(f"--layers {wrong[0]}: the target has layers 1 to {top} below its last")
        return tuple(sorted(set(request.layers)))
    return tuple(range(1, top + 1, 1 if top <= FEW_LAYERS else 2))


def _shortlist(request: Request, source: tokens.Store, own: Ids, adapter: ModelAdapter) -> torch.Tensor | None:
    """The most frequent tokens of what the heads learn on, in token order; None for the whole vocabulary."""
    if not request.shortlist:
        return None
    counts = torch.bincount(torch.from_numpy(own.ravel()).long(), minlength=adapter.vocab).double() * 4
    for ids in source.train.values():
        counts += torch.bincount(torch.from_numpy(ids).long(), minlength=adapter.vocab)
    best = counts[: adapter.vocab].topk(min(request.shortlist, adapter.vocab)).indices
    return best.sort().values.to(adapter.device)


def _held_out(
    adapter: ModelAdapter, source: tokens.Store, seed: int
) -> tuple[dict[str, list[Any]], torch.Tensor]:  # fmt: skip
    """Greedy texts by domain, and windows the target wrote, all from held-out beginnings."""
    starts = card.prompts(source.held_out, N_PROMPTS, PROMPT)
    texts = {domain: greedy_texts(adapter.model, own, N_NEW) for domain, own in starts.items()}
    feed = head_text.beginnings(source.held_out)
    windows = head_text.write_batch(adapter.model, feed, (seed + 1, 0), N_WINDOWS)
    return texts, torch.from_numpy(windows).long()


def save(folder: Path, config: Config, heads: dict[int, ExitHead], ids: torch.Tensor | None) -> None:
    """`heads.safetensors` in bfloat16 and `config.json`."""
    tensors = {
        f"{layer}.{name}": tensor.detach().to(torch.bfloat16).cpu().contiguous()
        for layer, head in heads.items()
        for name, tensor in head.state_dict().items()
    }
    if ids is not None:
        tensors["shortlist"] = ids.cpu()
    path = folder / "heads.safetensors"
    save_file(tensors, path)
    path.chmod(0o644)  # weights are written for the owner alone, which a package must not carry on
    config.write(folder)
