"""The whole of `specviz train draft`: a small model that drafts for a target that is there already.

It begins as some of the target's layers and is distilled on what the target writes. As wide as its target it is saved
without embedding and head, which are the target's (`shared_ends`); narrower ones are ordinary model folders (`narrow`).
A draft step should cost a quarter of the target's. Two ways lead near it: two thirds of the layers, each corrected by a
little and read in four bits (`corrections`), which needs little text; or a few layers that learn everything anew, which
needs a lot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.drafts import corrected, shared_ends
from specviz.engine.model.files import loading
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz_train import recipe
from specviz_train.common import own_text
from specviz_train.common.console import Console
from specviz_train.common.decoding import n_texts
from specviz_train.common.files import save_corrections, save_model
from specviz_train.common.own_text import OwnWindows
from specviz_train.draft_model import card, corrections, narrow
from specviz_train.draft_model.objective import Distilled, between_ends
from specviz_train.recipe import OwnTextRequest
from specviz_train.trees.objective import TrainingPace, drafter_loop

WRITING = 0.25  # of the time goes into the target's own text, where none is given
SEEN = 8  # windows by which the target's states are seen
RATE, MUON_RATE, WARM_UP = 1e-3, 1e-2, 30
CORRECTION_RATE = 2e-3
ANEW, CORRECTED = 2, 2 / 3  # usual layers: so many that learn anew, or this share of the target's


@dataclass(frozen=True, slots=True)
class DraftRequest(OwnTextRequest):
    """What the command line asks for. `layers`: how many of the target's it begins with, 0: the usual number; `width`
    0: the target's; `rank`: of the corrections, 0: all weights of its layers learn, as those of a narrower one do.

    `tokens`: so many of the most frequent are learnt by, where it is as wide as its target; `keep`: see `KeptStates`;
    `begin`: the folder of a draft model made of corrected layers of this target, whose corrections learn on.
    """

    command_name: ClassVar[str] = "draft"
    named: ClassVar[tuple[str, ...]] = ("layers",)
    aside: ClassVar[tuple[str, ...]] = (*OwnTextRequest.aside, "begin")

    layers: int = 0
    width: int = 0
    rank: int = 32
    tokens: int = 8192
    batch: int = 8
    begin: Path | None = None

    @property
    def corrects(self) -> bool:
        """Whether its layers are the target's, corrected."""
        return self.rank > 0 and not self.width

    def n_layers(self, target: ModelAdapter) -> int:
        """How many of the target's layers it begins with."""
        usual = max(1, round(CORRECTED * target.n_layers)) if self.corrects else ANEW
        return self.layers or usual


@dataclass(frozen=True, slots=True)
class BegunDraft:
    """The library's causal LM `model` before its first step, what of it is `learnt`, and what writes its folder.

    `tokens` `[n]`: those that laws are compared over; None: all. `rate`: AdamW's at its peak.
    """

    model: Any
    learnt: nn.Module
    tokens: torch.Tensor | None
    save: Callable[[], None]
    rate: float = RATE


def train_draft(request: DraftRequest, console: Console) -> dict[str, Any]:
    """Do what is not done yet; write model and card; return the card's numbers."""
    begun = recipe.begin(request, console, lambda target: _fits(request, target))
    target = begun.target
    own = begun.given_windows(request)
    windows = own or own_text.written_for_trees(
        begun.writer(), request.work, request.share(WRITING), request.seed, console
    )
    draft = (_corrected if request.corrects else _anew)(request, begun, windows, console)
    states = request.kept_states(target, windows, ())
    loss = Distilled(target, draft.model, windows, request.seed, request.batch, draft.tokens, states)
    budget = request.share(request.learning(WRITING))
    pace = TrainingPace(request.batch, 1, "muon", draft.rate, MUON_RATE, WARM_UP)
    loop = drafter_loop(draft.learnt, budget, request.work / "draft.pt", loss, pace)
    with console.bar(request.command_name, budget) as report:
        ledger = loop.finish(report)
    draft.model.requires_grad_(False).eval()
    draft.save()
    console.say("measuring; that is not in the minutes")
    spent = request.spent(ledger, windows.ids, "places")
    facts = {"command": request.command, "settings": request.settings, "training": spent}
    small = loading.load(str(request.out), "draft", request.device, None, begun.loaded).adapter
    prompts = begun.source.prompts(
        "held_out", n_texts(request.minutes, card.N_PROMPTS, card.MINUTES_A_PROMPT), card.PROMPT
    )
    return card.write(request.out, target, small, prompts, facts, console)


def _fits(request: DraftRequest, target: ModelAdapter) -> dict[str, Any]:
    """No settings of its own. Raises SpecvizError for a shape that makes no smaller model."""
    full = int(target.head.weight.shape[1])
    if request.begin is not None:
        if not request.corrects:
            raise SpecvizError("--begin goes on with corrected layers; leave out --width, and --rank 0")
        _begun_as(request.begin, target)
    if request.n_layers(target) >= target.n_layers:
        raise SpecvizError(
            f"--layers {request.n_layers(target)}: the target has {target.n_layers}; a draft model has fewer"
        )
    if request.width > full:
        raise SpecvizError(f"--width {request.width}: the target's states are {full} wide; give less, or 0 for as wide")
    return {}


def _corrected(
    request: DraftRequest, begun: recipe.TrainingInputs, windows: OwnWindows, console: Console
) -> BegunDraft:
    """The layers of the target that are missed least when they are left out stay away; the others are corrected."""
    target, n = begun.target, request.n_layers(begun.target)
    if request.begin is not None:
        kept = _begun_as(request.begin, target)
    else:
        chosen_on = own_text.first_windows(request.work, windows)
        with console.ticks("layers", target.n_layers - n, "left out") as tick:
            kept = corrections.remaining(target, chosen_on, n, request.work / "layers.json", lambda: tick(1))
    console.say(f"layers {', '.join(str(layer + 1) for layer in kept)} stay")
    model = corrected.shortened(f"--target {target.name}", target.model, kept).requires_grad_(False).train()
    model.generation_config = target.model.generation_config
    if request.begin is not None:
        layer_corrections = corrections.begun(model, request.begin)
    else:
        layer_corrections = corrections.correct(model, request.rank, request.seed)
    ends = shared_ends.Ends(fingerprint(target), target.name, tuple(kept))

    def save() -> None:
        facts = {shared_ends.FILE: shared_ends.facts(ends)}
        save_corrections(model, corrections.weights(layer_corrections), request.out, facts)

    return BegunDraft(
        model, corrections.learnt(layer_corrections), _frequent(request, target, windows), save, CORRECTION_RATE
    )


def _begun_as(where: Path, target: ModelAdapter) -> list[int]:
    """The target's layers, from 0, that a draft model is made of. Raises SpecvizError for one made otherwise."""
    ends = shared_ends.needs("--begin", where, target)
    if ends is None or not ends.layers:
        raise SpecvizError(f"--begin {where}: no draft model made of its target's corrected layers")
    if ends.target != fingerprint(target):
        raise SpecvizError(f"--begin {where}: made for another target ({ends.target_name})")
    return list(ends.layers)


def _anew(request: DraftRequest, begun: recipe.TrainingInputs, windows: OwnWindows, console: Console) -> BegunDraft:
    """Layers spread over the target's, all of whose weights learn; a narrower model learns its embedding, too."""
    target, n = begun.target, request.n_layers(begun.target)
    full = int(target.head.weight.shape[1])
    width, seen = request.width or full, windows.at(slice(0, SEEN))[0].to(target.device)
    config = narrow.config_of(target.model, n, width)
    axes = torch.eye(full).double() if width == full else narrow.principal_axes(target.model, seen, width)
    layers = narrow.evenly(target.n_layers - 1, n)  # the very last takes apart what layers before built
    model = narrow.narrowed(target.model, config, layers, axes.to(target.device), request.seed).to(target.device)
    model.requires_grad_(False).train()
    model.generation_config = target.model.generation_config
    if width < full:
        return BegunDraft(model, model.model, None, lambda: save_model(model, begun.loaded.tokenizer, request.out))
    facts = {shared_ends.FILE: shared_ends.facts(shared_ends.Ends(fingerprint(target), target.name))}

    def save() -> None:
        save_model(model, None, request.out, facts, shared_ends.own_weights)

    return BegunDraft(model, between_ends(model), _frequent(request, target, windows), save)


def _frequent(request: DraftRequest, target: ModelAdapter, windows: OwnWindows) -> torch.Tensor:
    """The ids `[n]` that laws are compared over, the same when a run is gone on with."""
    ids = torch.from_numpy(own_text.first_windows(request.work, windows).ids.ravel()).long()
    counts = torch.bincount(ids, minlength=target.vocab)[: target.vocab]
    return counts.topk(min(request.tokens, target.vocab)).indices.sort().values.to(target.device)
