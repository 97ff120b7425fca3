"""`--begin FOLDER`: a training that begins with the weights of a drafter that is there, on other text or for longer.

What the drafter is like must be what the options make; how it is taught, and how far ahead, is theirs to say. Which
tokens a smaller vocabulary holds is the drafter's: other rows of its head would mean other tokens.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import ModelError, SpecvizError
from specviz.methods.trained.parts import OPTION, DrafterKind, Trained, differing
from specviz_train.common.files import keep, kept

BEGIN = "--begin"
C = TypeVar("C", bound=Any)
N = TypeVar("N", bound=nn.Module)


def load(kind: DrafterKind[C, N], where: Path, adapter: ModelAdapter) -> Trained[C, N]:
    """The drafter in a folder. Raises SpecvizError, in one line, for one of another kind or target."""
    try:
        return kind.read(where, adapter)
    except ModelError as error:
        raise SpecvizError(str(error).replace(OPTION, BEGIN, 1)) from error


def with_weights_of(fresh: Trained[C, N], kind: DrafterKind[C, N], where: Path, adapter: ModelAdapter) -> Trained[C, N]:
    """`fresh`, as the options make it, with the weights and the tokens of the drafter in `where`.

    Raises SpecvizError for a drafter that is not like it.
    """
    theirs = load(kind, where, adapter)
    wrong = _unlike(fresh.network, theirs.network)
    if wrong is None and theirs.config.taps != fresh.config.taps:
        wrong = f"it reads layers {theirs.config.taps}, and the options make it {fresh.config.taps}"
    if wrong is not None:
        raise SpecvizError(f"{BEGIN} {where}: {wrong}; give the sizes that it was made with")
    fresh.network.load_state_dict(theirs.network.state_dict())
    if kind.join is not None:
        kind.join(fresh.network, adapter, theirs.vocabulary)
    return Trained(fresh.config, fresh.network, theirs.vocabulary)


def history(where: Path, work: Path) -> list[dict[str, Any]]:
    """How the drafter in `where` was made when the run in `work` began, the first training first."""
    path = work / "begun_with.json"  # the run may write its own card over that of the drafter
    if not path.exists():
        keep(path, {"trainings": _trainings(where)})
    trainings: list[dict[str, Any]] = kept(path)["trainings"]
    return trainings


def _trainings(where: Path) -> list[dict[str, Any]]:
    """What the card in a folder says; nothing without a card."""
    path = where / "card.json"
    card = kept(path) if path.is_file() else {}
    spent: Mapping[str, Any] = card.get("training", {})
    names = ("own_tokens", "steps", "pairs", "minutes")
    if "command" not in card or not all(name in spent for name in names):
        return []
    return [*card.get("begun", []), {"command": card["command"], **{name: spent[name] for name in names}}]


def _unlike(ours: nn.Module, theirs: nn.Module) -> str | None:
    """The first size or way of computing in which two networks differ; None: they are alike."""
    sizes = [dict(_facts(getattr(network, "shape", None))) for network in (theirs, ours)]
    for name, its in sizes[0].items():
        if its != sizes[1].get(name):
            return f"its {name} is {its}, and the options make it {sizes[1].get(name)}"
    return differing(ours, theirs.state_dict())


def _facts(shape: Any) -> Iterator[tuple[str, Any]]:
    """All fields of a shape, those of the shapes in it among them."""
    if is_dataclass(shape) and not isinstance(shape, type):
        for name, value in asdict(shape).items():
            yield from value.items() if isinstance(value, dict) else [(name, value)]
