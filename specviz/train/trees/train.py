"""What training a drafter of trees is, whatever its kind: text, the target's own words, training, saving, measuring.

Block drafters, EAGLE-3 and Medusa heads get the same text and the same share of the time for writing it, so that they
can be compared. Each part leaves a file in the work folder and is skipped when it is done, so an interrupted run goes
on where it was, and one that is over measures again. Several processes share the writing and the steps (`workers`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, get_args

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.specblock.losses import DraftLoss
from specviz.methods.trained.parts import Kind, Trained
from specviz.train import recipe as part
from specviz.train.common import head_text, workers
from specviz.train.common.job import Console
from specviz.train.common.tokens import Store
from specviz.train.recipe import Timed
from specviz.train.trees import block_text
from specviz.train.trees.block_text import Windows
from specviz.train.trees.loop import (
    MUON_RATE,
    RATE,
    WARM_UP,
    WINDOWS,
    DrafterRun,
    Held,
    Lesson,
    Made,
    Optimizer,
    Pace,
    Precision,
    Take,
)

WRITING = 0.15  # of the time goes into the target's own text
N_WINDOWS = 24
C = TypeVar("C", bound=Any)  # a kind's config
N = TypeVar("N", bound=torch.nn.Module)
R = TypeVar("R", bound="Request")


@dataclass(frozen=True, slots=True)
class Request(Timed):
    """What all kinds are asked. `length`: of the windows the target writes, 0: the usual one.

    `batch`, `accumulate`, `optimizer`, the rates, `warm_up`, `precision`: see `Pace`. `decay`: how much less each place
    ahead weighs than the one before; `draft_loss`: against the target's whole law, or its best 50 tokens as they stand.
    `processes` is found out, not asked.
    """

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

    @property
    def pace(self) -> Pace:
        """How the run steps."""
        names = ("batch", "accumulate", "optimizer", "rate", "muon_rate", "warm_up", "precision")
        return Pace(**{name: getattr(self, name) for name in names})

    def tells(self, name: str) -> bool:
        """How many processes there are is said by what starts them."""
        return name != "processes" and Timed.tells(self, name)


@dataclass(frozen=True, slots=True)
class Recipe(Generic[C, N, R]):
    """What differs from kind to kind.

    `begin`: a network with its first weights; `steps`: the loss of a part of a step; `completed`: the drafter with
    what is counted on held-out windows; `card`: measures the saved drafter and writes its card. `held`: at which
    temperatures held-out windows are written.
    """

    kind: Kind[C, N]
    begin: Callable[[R, ModelAdapter, Windows], Trained[C, N]]
    steps: Callable[[R, ModelAdapter, Lesson], Take]
    card: Callable[[R, ModelAdapter, Trained[C, N], Held, Made, Console], dict[str, Any]]
    completed: Callable[[ModelAdapter, Trained[C, N], Held], Trained[C, N]] = lambda target, trained, held: trained
    held: tuple[float, ...] = block_text.TEMPERATURES
    checkpoint: str = "drafter.pt"


def train(request: R, recipe: Recipe[C, N, R], console: Console) -> dict[str, Any] | None:
    """Do what is not done yet; write drafter and card; return the card's numbers, and None in further processes."""
    crew = workers.join(request.device)
    request = _settled(request, crew)
    console = console if crew.main else Console(quiet=True)
    if workers.launched_alone():
        console.say("accelerate started one process: on CPUs it takes --multi_gpu, torchrun or mpirun for several")
    with crew.in_turn():
        begun = part.begin(request, console, lambda target: _fits(request, target))
    target, source = begun.target, begun.source
    feed, time = head_text.beginnings(source.train), request.share(WRITING)
    windows = block_text.written(target.model, feed, request.work, time, request.seed, console, crew, request.length)
    trained = recipe.begin(request, target, windows)
    taps = trained.config.taps
    lesson = Lesson(target.model, trained, taps, windows, request.seed, request.batch)
    run = DrafterRun(
        trained.network, request.share(1 - WRITING), request.work / recipe.checkpoint,
        recipe.steps(request, target, lesson), request.pace, crew,
    )  # fmt: skip
    with console.bar(request.command_name, run.budget) as report:
        ledger = run.finish(report)
    crew.leave()
    if not crew.main:
        return None
    console.say("measuring; that is not in the minutes")
    held = _held(request, target, source, windows, recipe.held)
    recipe.kind.write(request.out, recipe.completed(target, trained, held))
    made = Made(request.command, request.settings, ledger.spent(request.minutes, windows))
    return recipe.card(request, target, recipe.kind.load(request.out, target), held, made, console)


def _settled(request: R, crew: workers.Workers) -> R:
    """The request with what the launcher decided. Raises SpecvizError for words that are not known."""
    for name, value, known in (
        ("optimizer", request.optimizer, get_args(Optimizer)), ("precision", request.precision, get_args(Precision)),
        ("draft-loss", request.draft_loss, get_args(DraftLoss)),
    ):  # fmt: skip
        refuse_unknown(name, value, known)
    precision = workers.asked_precision() or request.precision
    return replace(request, device=crew.device or request.device, processes=crew.count, precision=precision)


def refuse_unknown(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raises SpecvizError unless the value of an option is one of those known."""
    if value not in known:
        raise SpecvizError(f"--{name} {value}: unknown; use {' or '.join(known)}")


def _fits(request: Request, target: ModelAdapter) -> dict[str, Any]:
    """No settings of its own. Raises SpecvizError for windows that the target cannot hold."""
    least, most = 2 * block_text.PROMPT, getattr(target.config, "max_position_embeddings", None)
    if 0 < request.length < least:
        raise SpecvizError(f"--length {request.length}: windows of less than {least} tokens teach little")
    if most is not None and request.length > most:
        raise SpecvizError(f"--length {request.length}: the target holds {most} tokens")
    return {}


def _held(
    request: Request, target: ModelAdapter, source: Store, windows: Windows, temperatures: tuple[float, ...]
) -> Held:
    """Windows behind held-out beginnings."""
    feed = head_text.beginnings(source.held_out)
    key = (request.seed + 1, 0)
    ids = block_text.write_batch(target.model, feed, key, N_WINDOWS, temperatures, request.length)
    return Held(torch.from_numpy(ids).long(), windows.answer_from, source)
