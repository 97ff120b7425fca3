"""What a person may choose as target and as draft model, in the order in which it is offered: for every front-end."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.local_models.catalogue import KNOWN, KnownModel
from specviz.local_models.found import LocalModel, pairs
from specviz.local_models.shipped import shipped_draft
from specviz.local_models.store import stored
from specviz.model_folder import shown

EMBEDDED = "the embedded pair"


@dataclass(frozen=True, slots=True)
class Offer:
    """A model to choose. `name`: what `--target` or `--draft` takes; "": what is taken where nothing is named.

    `title`: as it is listed; `note`: what it is, in a few words; `problem`: why it cannot be chosen.
    """

    name: str
    title: str
    note: str = ""
    problem: str | None = None


# Draft models that are the target itself in fewer bits: nothing is trained, so that every target has them.
SELF_DRAFTS = (
    Offer("self:int4", "self:int4", "the target itself in 4 bits"),
    Offer("self:int8", "self:int8", "the target itself in 8 bits"),
)


def targets(found: Sequence[LocalModel]) -> list[Offer]:
    """Models that were found, ours first, then the embedded one, then those that cannot be used."""
    able = [Offer(model.name, shown(model.name), described(model)) for model in found if model.problem is None]
    broken = [
        Offer(model.name, shown(model.name), f"cannot be used: {model.problem}", model.problem)
        for model in found
        if model.problem is not None
    ]
    return [*able, Offer("", EMBEDDED, "4 million weights, goes on with code; nothing to fetch"), *broken]


def drafts(target: str, found: Sequence[LocalModel]) -> list[Offer]:
    """Draft models for a target: what comes with it, models here that number the same tokens, itself in fewer bits.

    `target`: as `Offer.name` has it.
    """
    if not target:
        own = Offer("", "embedded", "comes with the embedded target")
    elif shipped_draft(target) is not None:
        own = Offer("", "trained for it", "came along with this package")
    else:
        own = Offer("", "no draft model", "methods that need none")
    kin = [draft for large, draft in pairs(list(found)) if large.name == target]
    return [own, *(Offer(model.name, shown(model.name), described(model)) for model in kin), *SELF_DRAFTS]


def to_fetch(found: Sequence[LocalModel]) -> list[KnownModel]:
    """Known models that are not on this machine: `specviz models get NAME` brings one."""
    here = {model.name for model in found if model.problem is None} | set(stored())
    return [known for known in KNOWN.values() if not here & {known.name, known.hub}]


def described(model: LocalModel) -> str:
    """`llama, 269 MB, chat, hub cache`: architecture, size, whether it speaks, and where it lies."""
    parts = [model.architecture, f"{model.bytes / 1e6:,.0f} MB", "chat" if model.chat else "", model.place]
    return ", ".join(part for part in parts if part)
