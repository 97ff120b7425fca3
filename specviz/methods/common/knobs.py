"""Knobs that several methods have, and sample drafts: the structure their drafts will have, for verifiers to refuse.

The second half is for tree drafters with trained parts. None of their knobs changes the text: every tree is judged by
`walk`, whose draws never look at the draft.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from specviz.errors import KnobError
from specviz.knobs import KnobSpec, choice, whole
from specviz.methods import Part
from specviz.names import Mode
from specviz.probability.draft import ROOT, Draft

CHAIN, TREE = (ROOT, 0), (ROOT, ROOT, 0, 0)


def draft_mode(*choices: str, more: str = "") -> KnobSpec:
    """How a drafted token is chosen; the first of `choices` is the default."""
    help_ = f"how a drafted token is chosen at T > 0{more}"
    return choice("draft_mode", choices, choices[0], help_, applies="X")


def gamma(
    lo: int = 0, meaning: str = "most drafted tokens per chain", needs: dict[str, list[str]] | None = None
) -> KnobSpec:
    """Knob `gamma`: the length of a chain, in tokens."""
    return whole("gamma", lo, 64, 4, meaning, symbol="γ", needs=needs or {}, cuts="depth")


def part_folder(name: str, meaning: str, default: Sequence[str] = ()) -> KnobSpec:
    """Which trained part, named by its folder or by a word."""
    return KnobSpec(name=name, kind="texts", default=list(default), applies="X", help=meaning)


def single(knobs: Mapping[str, Any], name: str) -> str | None:
    """The one text of a knob, None when it has none. Raises KnobError for several: only one can be meant."""
    texts: list[str] = knobs[name]
    if len(texts) > 1:
        raise KnobError(f"knob {name}: {len(texts)} were given, only one can be used; give one of them")
    return texts[0] if texts else None


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


MOST_CHILDREN, N_BUCKETS = 20, 4
MOST_BLOCKS, MOST_STARTS = 4, 64
BLOCKS = Part("block drafter", "specviz train block-drafter", "block-drafter")
EAGLE = Part("EAGLE-3 drafter", "specviz train eagle3", "eagle3")
RANKED = Part(
    "EAGLE-3 drafter with a calibrated tree", "specviz train static-tree", "eagle3", "static_tree.json", EAGLE
)
HEADS = Part("set of Medusa heads", "specviz train medusa", "medusa")


def ints(name: str, texts: list[str], most: int = MOST_CHILDREN) -> tuple[int, ...]:
    """Four whole numbers 0..`most` of a knob such as `2,4,10,0`; empty when nothing is given. Raises KnobError."""
    values = words(texts)
    if not values:
        return ()
    if len(values) != N_BUCKETS or not all(word.isdecimal() and int(word) <= most for word in values):
        raise KnobError(
            f"knob {name}: '{', '.join(values)}' is not {N_BUCKETS} whole numbers in 0..{most}, one a rank bucket; "
            "for example 2,4,10,0"
        )
    return tuple(int(word) for word in values)


def reals(name: str, texts: list[str]) -> tuple[float, ...]:
    """Four numbers of a knob such as `0,0,.5,.5`; zeros when nothing is given. Raises KnobError."""
    numbers = words(texts)
    try:
        values = tuple(float(word) for word in numbers)
    except ValueError:
        values = (float("nan"),)
    if values and (len(values) != N_BUCKETS or not all(abs(value) <= 1e6 for value in values)):
        raise KnobError(
            f"knob {name}: '{', '.join(numbers)}' is not {N_BUCKETS} numbers, one a rank bucket; as 0,0,0.5,0.5"
        )
    return values or (0.0,) * N_BUCKETS


def example(knobs: Mapping[str, Any]) -> Draft:
    """What a verifier will be handed: a small tree of point masses, or of draws without replacement.

    Raises KnobError for lists that cannot be read and for values that do not go together.
    """
    ints("widths", knobs.get("widths", []))
    reals("bucket_bias", knobs.get("bucket_bias", []))
    sampled = knobs.get("siblings") == "sampled"
    if sampled and knobs["width_mode"] == "oracle":
        raise KnobError(
            "knob width_mode: oracle asks the target along the best tokens, siblings sampled goes along drawn ones; "
            "use width_mode rank or siblings topb"
        )
    return sample(TREE, sampled and knobs["temperature"] > 0)


MOST_NODES = 60  # of a tree that is as large as pays


def budget(most: str = "") -> KnobSpec:
    """Knob `node_budget` of drafters with trained parts; `most`: what bounds a tree that is as large as pays."""
    return whole(
        "node_budget",
        -1,
        256,
        -1,
        "nodes sent to the target, most likely first; 0 decodes plainly; -1: as many as are likely to pay for the pass "
        f"they take here{most}",
        symbol="N",
    )


def levels() -> KnobSpec:
    """Depth, where every level is a call."""
    return whole("d_max", 1, 16, 8, "deepest tree level; one call each", symbol="d", cuts="depth")


def folder(what: str) -> KnobSpec:
    return part_folder("drafter", f"folder of a trained {what}; none: the one that lies with the target")
