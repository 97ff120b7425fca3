"""Sample drafts: the structure that a method's drafts will have, for verifiers to refuse before any model is loaded."""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.names import Mode
from specviz.probability.draft import ROOT, Draft

CHAIN, TREE = (ROOT, 0), (ROOT, ROOT, 0, 0)


def sample(parents: Sequence[int], drawn: bool, shared: bool = False) -> Draft:
    """A draft of that shape, siblings apart. `drawn`: every token from a law, else point masses."""
    n = len(parents)
    return Draft(
        tokens=tuple(list(parents[:k]).count(parent) for k, parent in enumerate(parents)), parents=tuple(parents),
        ids=tuple(range(n)), n_judged=n, n_fed=n, row_of=tuple(range(n)) if drawn else (-1,) * n,
        shared=drawn and shared,
    )  # fmt: skip


def by_mode(knobs: Mapping[str, Any], parents: Sequence[int] = CHAIN, mode: Mode | None = None) -> Draft:
    """The same by temperature and `mode` (none: the knob `draft_mode`): at temperature 0 nothing is drawn."""
    chosen = mode or knobs["draft_mode"]
    return sample(parents, knobs["temperature"] > 0 and chosen != "argmax", chosen == "shared")
