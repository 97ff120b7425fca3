"""Which models a screen offers: targets found on this machine, and the draft models that go with one. No torch.

One list for the terminal and the browser: our own first, what comes along, what others keep here, then what could be
here, with the line that gets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from specviz import model_folder
from specviz.errors import ModelError
from specviz.local_models.catalogue import KNOWN, brought_draft
from specviz.local_models.found import LocalModel, brought, has_template, local_models
from specviz.local_models.named import path_of
from specviz.local_models.shipped import known_name
from specviz.local_models.vocabulary import vocabulary_of
from specviz.self_drafts import INT4
from specviz.text import byte_size

EMBEDDED = ""  # the name of the pair that comes along; as a draft model: the one that is usual for the target
NO_DRAFT = "none"
_MUCH_LARGER = 1.5  # a draft model is worth its passes where the target has so many times its bytes


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that is offered. `name`: as a command line takes it; `label`: as it is listed; `what`: in a few words.

    `problem`: why it cannot be taken now, in a line; `command`: the line that mends that.
    """

    name: str
    label: str
    what: str
    chat: bool = False
    problem: str = ""
    command: str = ""

    @property
    def able(self) -> bool:
        return not self.problem


# Nothing is trained for it, so that every target has it.
SELF_DRAFT = ModelChoice(INT4, INT4, "the target itself in 4 bits")


def target_choices(models: Sequence[LocalModel] | None = None) -> list[ModelChoice]:
    """Targets in the order in which they are offered; the first one is proposed. `models`: what `local_models` said."""
    here = local_models() if models is None else models
    offered = [_of(model) for model in here]
    ours = [choice for model, choice in zip(here, offered, strict=True) if model.place == "store" and choice.able]
    others = [choice for choice in offered if choice.able and choice not in ours]
    pair = ModelChoice(EMBEDDED, "embedded pair", "bundled: 4 million weights that go on with code, prose and sums")
    named = {choice.name for choice in offered}
    wanted = [
        ModelChoice(name, name, known.what, True, f"{known.what}, is not here yet", f"specviz models get {name}")
        for name, known in KNOWN.items()
        if not {name, known.hub} & named
    ]
    return [*ours, pair, *others, *wanted, *(choice for choice in offered if not choice.able)]


def draft_choices(target: str, models: Sequence[LocalModel] | None = None) -> list[ModelChoice]:
    """Draft models for a target by name, folder or hub id; the first one is proposed."""
    none = ModelChoice(NO_DRAFT, "none", "for methods that draft without a second model")
    if target == EMBEDDED:
        return [ModelChoice(EMBEDDED, "embedded", "bundled"), SELF_DRAFT, none]
    here = local_models() if models is None else models
    kin = [_of(model) for model in _kin(target, here)]
    known = known_name(target)
    if known is None:
        return [*kin, SELF_DRAFT, none]
    name = brought_draft(known)
    return [SELF_DRAFT, *([ModelChoice(name, name, "bundled")] if name in brought() else []), *kin, none]


def choice_of(name: str, offered: Sequence[ModelChoice]) -> ModelChoice:
    """The offered model of that name, or one made of a folder, file or hub id that somebody typed."""
    known = next((choice for choice in offered if choice.name == name), None)
    if known is not None:
        return known
    try:
        folder = path_of(name)
        chat = folder is not None and has_template(folder)
    except (ModelError, OSError, ValueError):
        chat = False
    return ModelChoice(name, name, "a folder, a GGUF file or a hub id", chat)


def model_words(target: str, draft: str) -> list[str]:
    """The words of a worker's command line that name this pair."""
    words = ["--target", target] if target else []
    if draft == NO_DRAFT:
        return [*words, "--no-draft"]
    return [*words, "--draft", draft] if draft else words


def _of(model: LocalModel) -> ModelChoice:
    if model.problem:
        return ModelChoice(model.name, model.name, "cannot be used", False, f"cannot be used: {model.problem}")
    words = [model.architecture, byte_size(model.bytes), *(["chat"] if model.chat else [])]
    words += [f"from {model.place}"] if model.place != "store" else []
    return ModelChoice(model.name, model.name, ", ".join(words), model.chat)


def _kin(target: str, here: Sequence[LocalModel]) -> list[LocalModel]:
    """Smaller models that number the same tokens."""
    known = next((model for model in here if model.name == target), None)
    size, vocabulary = (known.bytes, known.vocabulary) if known is not None else _looked_at(target)
    if vocabulary is None:
        return []
    return [
        model
        for model in here
        if model.vocabulary == vocabulary and not model.problem and model.bytes * _MUCH_LARGER < size
    ]


@lru_cache(maxsize=8)
def _looked_at(target: str) -> tuple[int, str | None]:
    """Bytes and vocabulary of a folder that is in none of the known places; nothing for anything else."""
    try:
        folder = path_of(target)
        if folder is None or not folder.is_dir():
            return 0, None
        return sum(file.stat().st_size for file in model_folder.weight_files(folder)), vocabulary_of(folder)[1]
    except (ModelError, OSError, ValueError):
        return 0, None
