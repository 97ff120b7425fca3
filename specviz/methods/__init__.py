"""Named methods: a folder each, found by looking here. Its `spec` holds the `Method`s and needs no torch. Methods from
elsewhere are handed to `register`.

A method names its parts by path (`"package.module:attribute"`), so that reading the table, `--help` and the catalogue
import no torch. Which verifiers take what it drafts is asked of the verifiers themselves, on a sample draft, so that
a pair that cannot work is refused before any model is loaded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.knobs import Knobs, KnobSpec, KnobTable, table
from specviz.probability.draft import Draft
from specviz.probability.plan import Verifier
from specviz.registry import discover, pick
from specviz.traits import MethodTraits
from specviz.verifiers import get_verifier

Example = Callable[[Mapping[str, Any]], Draft]


@dataclass(frozen=True, slots=True)
class Part:
    """A trained part without which a method cannot draft.

    `what`: in words; `trainer`: the command that makes one; `beside`: the name of its folder where it lies with its
    target; `file`: what must lie in it; `knob`: names a folder by hand. `on`: the part that its trainer adds to.
    `own`: whether a target's own folder brings one as it was published; `unread`: what to say of one that it brings in
    a way that is not read here.
    """

    what: str
    trainer: str
    beside: str
    file: str = "config.json"
    on: "Part | None" = None
    knob: str = "drafter"
    own: Callable[[Path], bool] = lambda folder: False
    unread: Callable[[Path], str] = lambda folder: ""

    def lies_in(self, folder: Path) -> bool:
        """Whether a target's folder contains such a part."""
        return (folder / self.beside / self.file).is_file() or self.own(folder)

    def command(self, target: str | None = None, folder: bool = True, there: bool = False) -> str:
        """The line that makes one.

        `target`: as a command line names it, None: the embedded one; `folder`: it is a folder, where the part is found
        without being named; `there`: what it adds to is there already.
        """
        of = "" if target is None else f" --target {quote(target)}"
        if self.on is None:
            return self.trainer + of + (f" --out {quote(f'{target}/{self.beside}')}" if target and folder else "")
        before = "" if there else f"{self.on.command(target, folder)} && "
        return before + self.trainer + of + ("" if there or (target and folder) else f" --drafter {self.beside}")


@dataclass(frozen=True, slots=True)
class Method:
    """Drafter + verifier + knobs. `drafter` names a factory `(models, knobs) -> Drafter`; None drafts nothing.

    `example`: under these knob values, the smallest draft that shows what a verifier will be handed (structure only,
    laws left out); raises KnobError for values that do not go together. `traits`: what is to be known of it above,
    where nobody asks for its name. `walks`: under these knob values its drafts are for `walk` at any temperature, as
    point-mass trees and those that share the target's noise are. `cache_slots`: rows of the widest round under these
    knob values, where they are more than the 512 that every cache has room for.
    """

    name: str
    help: str
    drafter: str | None
    knobs: tuple[KnobSpec, ...] = ()
    needs_draft: bool = False
    part: Part | None = None
    verifiers: tuple[str, ...] = ("walk",)
    default_verifier: tuple[str, str] = ("walk", "walk")  # at T = 0, at T > 0
    example: Example = lambda knobs: Draft()
    walks: Callable[[Mapping[str, Any]], bool] = lambda knobs: knobs.get("draft_mode") == "shared"
    cache_slots: Callable[[Mapping[str, Any]], int] = lambda knobs: 0
    traits: MethodTraits = field(default_factory=MethodTraits)

    @property
    def own(self) -> tuple[KnobSpec, ...]:
        """The knobs that are not those of every run: its own, then those of its verifiers."""
        return (*self.knobs, *(spec for name in self.verifiers for spec in get_verifier(name).knobs))

    @property
    def table(self) -> KnobTable:
        """All knobs, those of sampling and run included."""
        return table(self.name, self.own)

    def verifier_for(self, knobs: Mapping[str, Any]) -> str:
        """The default verifier under these knob values."""
        if self.walks(knobs):
            return "walk"
        return self.default_verifier[0 if knobs.get("temperature", 0) == 0 else 1]

    def fitting(self, knobs: Mapping[str, Any]) -> list[str]:
        """The verifiers that take what is drafted under these knob values."""
        example = self.example(knobs)
        return [name for name in self.verifiers if get_verifier(name).refuses(example) is None]


_brought: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Register a method of another package, or replace one of the same name."""
    _brought[method.name] = method
    return method


def unregister(name: str) -> None:
    """Forget a method that was brought."""
    _brought.pop(name, None)


def all_methods() -> dict[str, Method]:
    """Every method by name."""
    return dict(sorted({**_found(), **_brought}.items()))


@cache
def _found() -> dict[str, Method]:
    return discover(__name__, Method, module="spec")


def get_method(name: str) -> Method:
    """The method of that name. Raises SpecvizError with the nearest name."""
    return pick("method", name, all_methods())


def pick_verifier(method: Method, name: str | None, knobs: Knobs) -> Verifier:
    """The verifier asked for, or the method's default, once it is known to take what will be drafted.

    Raises SpecvizError in one line naming those that fit.
    """
    wanted = get_verifier(name or method.verifier_for(knobs.values))
    if wanted.name not in method.verifiers:
        raise SpecvizError(
            f"method {method.name} takes no verifier '{wanted.name}'{suggestion(wanted.name, method.verifiers)}"
        )
    refusal = wanted.refuses(method.example(knobs.values))
    if refusal is not None:
        why = refusal.partition(";")[0]  # its advice is for any draft, the list below is for this one
        fitting = ", ".join(method.fitting(knobs.values))
        raise SpecvizError(f"verifier {wanted.name} does not fit: {why}; these do: {fitting}")
    return wanted.tuned(knobs)
