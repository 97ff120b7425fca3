"""What training a drafter of trees is, whatever its kind: text, the target's own words, training, saving, measuring.

Block drafters, EAGLE-3 and Medusa heads get the same text and the same share of the time for writing it, so that they
can be compared. Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes
on where it was, and one that is over measures again. Several processes share the writing and the steps (`workers`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import DrafterKind, Trained
from specviz_train import recipe as part
from specviz_train.common import own_text, workers
from specviz_train.common.console import Console
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.own_text import OwnWindows
from specviz_train.recipe import OwnTextRequest, TimedRequest
from specviz_train.trees import begun as earlier
from specviz_train.trees.card import HeldOutWindows, TreeCard
from specviz_train.trees.objective import (
    MUON_RATE,
    RATE,
    WARM_UP,
    WINDOWS,
    DrafterBatches,
    PartLoss,
    TrainingPace,
    drafter_loop,
)

WRITING = 0.15  # of the time goes into the target's own text
N_WINDOWS = 24
C = TypeVar("C", bound=Any)  # a kind's config
N = TypeVar("N", bound=torch.nn.Module)
R = TypeVar("R", bound="TreeDrafterRequest")


@dataclass(frozen=True, slots=True)
class TreeDrafterRequest(OwnTextRequest):
    """What all kinds are asked. `length`: of the windows the target writes, 0: the usual one.

    `batch`, `accumulate`, `optimizer`, the rates, `warm_up`, `precision`: see `TrainingPace`. `decay`: how much less
    each place ahead weighs than the one before; `draft_loss`: against the target's whole law, or its best 50 tokens as
    they stand. `keep`: see `KeptStates`. `processes` is found out, not asked. `begin`: the folder of a drafter of this
    kind and target whose weights learn on.
    """

    aside: ClassVar[tuple[str, ...]] = (*OwnTextRequest.aside, "begin")

    draft_vocab: int = 0
    batch: int = WINDOWS
    accumulate: int = 1
    length: int = 0
    optimizer: str = "muon"
    rate: float = RATE
    muon_rate: float = MUON_RATE
    warm_up: int = WARM_UP
    precision: str = "bf16"
    decay: float = 0.8
    draft_loss: str = "full"
    processes: int = 1
    begin: Path | None = field(default=None, kw_only=True)

    @property
    def pace(self) -> TrainingPace:
        names = ("batch", "accumulate", "optimizer", "rate", "muon_rate", "warm_up", "precision")
        return TrainingPace(**{name: getattr(self, name) for name in names})

    def tells(self, name: str) -> bool:
        """How many processes there are is said by what starts them."""
        return name != "processes" and TimedRequest.tells(self, name)


@dataclass(frozen=True, slots=True)
class DrafterRecipe(Generic[C, N, R]):
    """What differs from kind to kind.

    `begin`: a network with its first weights; `loss`: that of a part of a step; `completed`: the drafter with what is
    counted on held-out windows. `temperatures`: at which those are written; none: as for training.
    """

    kind: DrafterKind[C, N]
    begin: Callable[[R, ModelAdapter, OwnWindows], Trained[C, N]]
    loss: Callable[[R, ModelAdapter, DrafterBatches], PartLoss]
    card: TreeCard
    completed: Callable[[ModelAdapter, Trained[C, N], HeldOutWindows], Trained[C, N]] = lambda target, it, held: it
    temperatures: tuple[float, ...] = ()
    checkpoint: str = "drafter.pt"


def train(request: R, recipe: DrafterRecipe[C, N, R], console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write drafter and card; return the card's numbers, and None in further processes."""
    crew = workers.join(request.device)
    request = _settled(request, crew)
    console = console if crew.main else Console(quiet=True)
    if workers.launched_alone():
        console.say("accelerate started one process: on CPUs it takes --multi_gpu, torchrun or mpirun for several")

    def fits(target: ModelAdapter) -> dict[str, Any]:
        if request.begin is not None:
            earlier.load(recipe.kind, request.begin, target)  # refused before text is written
        return _fits(request, target)

    with crew.in_turn():
        begun = part.begin(request, console, fits)
    target, windows = begun.target, _own(request, begun, console, crew)
    with crew.in_turn():
        first = own_text.first_windows(request.work, windows)
    trained, before = recipe.begin(request, target, first), []
    if request.begin is not None:
        trained = earlier.with_weights_of(trained, recipe.kind, request.begin, target)
        with crew.in_turn():
            before = earlier.history(request.begin, request.work)
    taps = trained.config.taps
    with crew.in_turn():
        states = _states(request, target, windows, taps, console)
    parts = request.accumulate * crew.count
    batches = DrafterBatches(target.model, trained, taps, windows, request.seed, request.batch, states, parts)
    loss, budget = recipe.loss(request, target, batches), request.share(request.learning(WRITING))
    loop = drafter_loop(trained.network, budget, request.work / recipe.checkpoint, loss, request.pace, crew)
    with console.bar(request.command_name, budget) as report:
        ledger = loop.finish(report)
    trained.network.requires_grad_(False).eval()
    crew.leave()
    if not crew.main:
        return None
    console.say("measuring; that is not in the minutes")
    how = own_text.trees_writing(request.length)
    how = replace(how, temperatures=recipe.temperatures or how.temperatures)
    held = HeldOutWindows(begun.writer("held_out").batch((request.seed + 1, 0), how, N_WINDOWS), begun.source)
    recipe.kind.write(request.out, recipe.completed(target, trained, held))
    facts = {
        "command": request.command,
        "settings": request.settings,
        "training": request.spent(ledger, windows.ids, "pairs"),
        **({"begun": before} if before else {}),
    }
    return recipe.card.write(request.out, target, recipe.kind.load(request.out, target), held, facts, console)


def _own(
    request: TreeDrafterRequest, begun: part.TrainingInputs, console: Console, crew: workers.Workers
) -> OwnWindows:
    """What the target wrote: given, or written in a share of the time."""
    own = begun.given_windows(request)
    if own is not None:
        return own
    writing = request.share(WRITING)
    return own_text.written_for_trees(
        begun.writer(), request.work, writing, request.seed, console, crew, request.length
    )


def _states(
    request: TreeDrafterRequest, target: ModelAdapter, windows: OwnWindows, taps: tuple[int, ...], console: Console
) -> KeptStates | None:
    states = request.kept_states(target, windows, taps)
    if states is not None and request.own_text is not None:
        size = f"{states.n_bytes / 1e9:.1f} GB at most"
        console.say(f"keeping the target's states in {states.folder}, {size}, for other drafters")
    return states


def _settled(request: R, crew: workers.Workers) -> R:
    """The request with what the launcher decided."""
    precision = workers.asked_precision() or request.precision
    return replace(request, device=crew.device or request.device, processes=crew.count, precision=precision)


def _fits(request: TreeDrafterRequest, target: ModelAdapter) -> dict[str, Any]:
    """No settings of its own. Raises SpecvizError for windows that the target cannot hold."""
    least, most = 2 * own_text.TREES.prompt, getattr(target.config, "max_position_embeddings", None)
    if 0 < request.length < least:
        raise SpecvizError(f"--length {request.length}: windows of less than {least} tokens teach little")
    if most is not None and request.length > most:
        raise SpecvizError(f"--length {request.length}: the target holds {most} tokens")
    return {}
