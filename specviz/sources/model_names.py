"""The models of a core, as a command line names them; which stand between its other words (device, dtype, threads)."""

from collections.abc import Sequence
from dataclasses import dataclass

from specviz.events import Header
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.choices import EMBEDDED, NO_DRAFT, draft_choices, model_words
from specviz.local_models.found import LocalModel, local_path
from specviz.local_models.shipped import usual_draft
from specviz.model_folder import shown
from specviz.self_drafts import INT4, PREFIX

_NONE = "--no-draft"


@dataclass(frozen=True, slots=True)
class ModelNames:
    """By the names of `specviz.local_models.choices`: `draft` EMBEDDED: the one that is usual for the target."""

    target: str = EMBEDDED
    draft: str = EMBEDDED

    @classmethod
    def of(cls, words: Sequence[str]) -> "ModelNames":
        """The models that the words of a command line name."""
        return cls(_named(words, "--target"), NO_DRAFT if _NONE in words else _named(words, "--draft"))

    @classmethod
    def proposed(cls, target: str, models: Sequence[LocalModel]) -> "ModelNames":
        """A target with what comes along for it, else with a model that was found, else alone. The target itself in
        fewer bits takes time and room of its own: it is proposed for the known ones, which are small, and is for a
        person to choose otherwise."""
        own = None if target in KNOWN else INT4
        return cls(target, next(choice.name for choice in draft_choices(target, models) if choice.name != own))

    @property
    def said_plainly(self) -> "ModelNames":
        """The draft model that is usual for the target by its own name; none where there is none."""
        if self.draft != EMBEDDED or self.target == EMBEDDED:
            return self
        return ModelNames(self.target, usual_draft(self.target) or NO_DRAFT)

    def among(self, words: Sequence[str]) -> tuple[str, ...]:
        """The words of a command line with these models in place of its own."""
        out = [word for word in words if word != _NONE]
        for flag in ("--target", "--draft"):
            if flag in out:
                place = out.index(flag)
                del out[place : place + 2]
        return (*out, *model_words(self.target, self.draft))

    @property
    def text(self) -> str:
        """`smollm2 with self:int4`, to be shown."""
        target = shown(self.target) if self.target else "the embedded pair"
        return f"{target} with {shown(self.draft)}" if self.draft not in (EMBEDDED, NO_DRAFT) else target


def recorded_draft(header: Header) -> str | None:
    """What a recording's draft model is called here; None: what is usual for the target."""
    was = header.models.draft
    if was is None:
        return None
    if was.name.endswith(f":{was.dtype}"):  # the target itself in fewer bits is named after it
        return f"{PREFIX}{was.dtype}"
    return was.name if local_path(was.name) is not None else None


def _named(words: Sequence[str], flag: str) -> str:
    return words[words.index(flag) + 1] if flag in words else ""
