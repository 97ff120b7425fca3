"""Knobs that several methods have, and sample drafts: the structure their drafts will have, for verifiers to refuse."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec
from specviz.names import Mode
from specviz.probability.draft import ROOT, Draft

CHAIN, TREE = (ROOT, 0), (ROOT, ROOT, 0, 0)


def draft_mode(*choices: str, more: str = "") -> KnobSpec:
    """How a drafted token is chosen; the first of `choices` is the default."""
    help_ = f"how a drafted token is chosen at T > 0{more}"
    return KnobSpec(name="draft_mode", kind="choice", choices=choices, default=choices[0], applies="X", help=help_)


def gamma(
    lo: int = 0, meaning: str = "most drafted tokens per chain", needs: dict[str, list[str]] | None = None
) -> KnobSpec:
    """The length of a chain, in tokens."""
    return KnobSpec(name="gamma", symbol="γ", kind="int", lo=lo, hi=64, default=4, help=meaning, needs=needs or {})


def part_folder(name: str, meaning: str, default: Sequence[str] = ()) -> KnobSpec:
    """Which trained part, named by its folder or by a word."""
    return KnobSpec(name=name, kind="texts", default=list(default), applies="X", help=meaning)


def single(knobs: Mapping[str, Any], name: str) -> str | None:
    """The one text of a knob, None when it has none. Raises KnobError for several: only one can be meant."""
    given: list[str] = knobs[name]
    if len(given) > 1:
        raise KnobError(f"knob {name}: {len(given)} were given, only one can be used; give one of them")
    return given[0] if given else None


def words(texts: Sequence[str]) -> list[str]:
    """The words of a knob that is a list: commas part them as spaces do."""
    return " ".join(texts).replace(",", " ").split()


def sample(parents: Sequence[int], drawn: bool, shared: bool = False) -> Draft:
    """A draft of that shape, siblings apart. `drawn`: every token from a law, else point masses."""
    n = len(parents)
    return Draft(
        tokens=tuple(list(parents[:k]).count(parent) for k, parent in enumerate(parents)),
        parents=tuple(parents),
        ids=tuple(range(n)),
        n_judged=n,
        n_fed=n,
        row_of=tuple(range(n)) if drawn else (-1,) * n,
        shared=drawn and shared,
    )


def by_mode(knobs: Mapping[str, Any], parents: Sequence[int] = CHAIN, mode: Mode | None = None) -> Draft:
    """A sample draft by temperature and `mode` (none: the knob `draft_mode`): at temperature 0 nothing is drawn."""
    chosen = mode or knobs["draft_mode"]
    return sample(parents, knobs["temperature"] > 0 and chosen != "argmax", chosen == "shared")
