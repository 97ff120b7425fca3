"""The whole of `specviz train draft`: a small model that drafts for a target that is there already.

It begins as some of the target's layers (`narrow`) and is distilled on what the target writes. As wide as its target it
is saved without embedding and head, which are the target's (`shared_ends`); narrower ones are ordinary model folders.
A draft step must cost a quarter of the target's or less: four layers of thirty do, because the shared head is read in
four bits.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from specviz.engine.model import loading, shared_ends
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz.train import recipe
from specviz.train.common import own_text
from specviz.train.common.console import Console
from specviz.train.common.files import save_model
from specviz.train.common.target_text import OwnWindows
from specviz.train.draft_model import card, narrow
from specviz.train.draft_model.objective import Distilled, learnt
from specviz.train.recipe import OwnTextRequest
from specviz.train.trees.kept_states import KeptStates
from specviz.train.trees.objective import TrainingPace, drafter_loop

WRITING = 0.25  # of the time goes into the target's own text, where none is given
SEEN = 8  # windows by which the target's states are seen
RATE, MUON_RATE, WARM_UP = 1e-3, 1e-2, 30


@dataclass(frozen=True, slots=True)
class DraftRequest(OwnTextRequest):
    """What the command line asks for. `layers`: how many of the target's it begins with; `width` 0: the target's.

    `tokens`: so many of the most frequent are learnt by, where it is as wide as its target; `keep`: see `KeptStates`.
    """

    command_name: ClassVar[str] = "draft"
    named: ClassVar[tuple[str, ...]] = ("layers",)
    aside: ClassVar[tuple[str, ...]] = (*OwnTextRequest.aside, "keep")

    layers: int = 4
    width: int = 0
    tokens: int = 8192
    batch: int = 8
    keep: float = 8.0


def train_draft(request: DraftRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write model and card; return the card's numbers."""
    begun = recipe.begin(request, console, lambda target: _fits(request, target))
    target = begun.target
    given = begun.given(request)
    windows = given or own_text.written_for_trees(
        begun.writer(), request.work, request.share(WRITING), request.seed, console
    )
    draft, whole = _begun(request, target, windows)
    tokens = None if whole else _frequent(request, target, windows)
    folder = request.work / "states" if request.own_text is None else request.own_text.with_suffix(".states")
    states = KeptStates.begun(folder, target, windows, (), request.keep) if request.keep else None
    loss = Distilled(target, draft, windows, request.seed, request.batch, tokens, states)
    budget = request.share(request.learning(WRITING))
    pace = TrainingPace(request.batch, 1, "muon", RATE, MUON_RATE, WARM_UP)
    loop = drafter_loop(learnt(draft, whole), budget, request.work / "draft.pt", loss, pace)
    with console.bar(request.command_name, budget) as report:
        ledger = loop.finish(report)
    draft.generation_config = target.model.generation_config
    _save(draft.requires_grad_(False).eval(), request, begun, whole)
    console.say("measuring; that is not in the minutes")
    spent = request.spent(ledger, windows.ids, "places")
    made = {"command": request.command, "settings": request.settings, "training": spent}
    small = loading.load(str(request.out), "draft", request.device, None, begun.loaded).adapter
    prompts = begun.source.prompts("held_out", card.n_prompts(request.minutes), card.PROMPT)
    return card.write(request.out, target, small, prompts, made, console)


def _fits(request: DraftRequest, target: ModelAdapter) -> dict[str, Any]:
    """No settings of its own. Raises SpecvizError for a shape that makes no smaller model."""
    full = int(target.head.weight.shape[1])
    if request.layers >= target.n_layers:
        raise SpecvizError(f"--layers {request.layers}: the target has {target.n_layers}; a draft model has fewer")
    if request.width > full:
        raise SpecvizError(f"--width {request.width}: the target's states are {full} wide; give less, or 0 for as wide")
    return {}


def _begun(request: DraftRequest, target: ModelAdapter, windows: OwnWindows) -> tuple[Any, bool]:
    """The model before its first step, and whether its embedding learns too."""
    full = int(target.head.weight.shape[1])
    width, seen = request.width or full, windows.at(slice(0, SEEN))[0].to(target.device)
    config = narrow.config_of(target.model, request.layers, width)
    axes = torch.eye(full).double() if width == full else narrow.principal_axes(target.model, seen, width)
    layers = narrow.evenly(target.n_layers - 1, request.layers)  # the very last takes apart what layers before built
    draft = narrow.narrowed(target.model, config, layers, axes.to(target.device), request.seed).to(target.device)
    return draft.requires_grad_(False).train(), width < full


def _save(draft: Any, request: DraftRequest, begun: recipe.TrainingInputs, whole: bool) -> None:
    """All of it, or what stands between the embedding and the head that it shares with its target."""
    if whole:
        save_model(draft, begun.loaded.tokenizer, request.out)
        return
    ends = shared_ends.Ends(fingerprint(begun.target), begun.target.name)
    facts = {shared_ends.FILE: shared_ends.facts(ends)}
    save_model(draft, None, request.out, facts, shared_ends.own_weights)


def _frequent(request: DraftRequest, target: ModelAdapter, windows: OwnWindows) -> torch.Tensor:
    """The ids `[n]` that laws are compared over, the same when a run is gone on with."""
    ids = torch.from_numpy(own_text.first_windows(request.work, windows).ids.ravel()).long()
    counts = torch.bincount(ids, minlength=target.vocab)[: target.vocab]
    return counts.topk(min(request.tokens, target.vocab)).indices.sort().values.to(target.device)
