"""What a method and a verifier say of themselves, for everything above that would else have to know them by name.

Declared beside the method or the verifier, carried by catalogue and header, so that a front-end words a method it has
never heard of as it should be. A trait that is not given is the plainest there is.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

# Rules that are decided again on a recorded draft, by the names that metrics have for them.
Rule = Literal["tokenwise", "hsd", "hsd_naive"]
TOKENWISE: Rule = "tokenwise"
CAPPED: Rule = "hsd"  # which is blockwise
NAIVE: Rule = "hsd_naive"
RULES: tuple[Rule, ...] = (TOKENWISE, CAPPED, NAIVE)

Exits = Literal["none", "tested", "fixed", "skipped"]
TreeKind = Literal["none", "blocks", "levels", "fixed", "heads"]
Order = Literal["prefixes", "candidates", "leaves"]
Letter = Literal["c", "w", "r"]


class MethodTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Of a method."""

    plain: bool = False  # drafts nothing: the reference
    pipelined: bool = False  # drafts on in branches beside the target's pass; a later round settles the tokens
    # Whether the target's own layers draft. tested: a row stops where a test passes; fixed: every row stops at the same
    # layer; skipped: rows go to the top with some sublayers left out.
    exits: Exits = "none"
    # Its rounds can be replayed under other exit settings; by `d_max` -1 up to this share of the layers. None: they
    # cannot.
    replay_depth: Annotated[float, Meta(ge=0, le=1)] | None = None
    # A tree by ranks. blocks: predicted ranks make its width; levels: a call a level; fixed: so, on a calibrated shape;
    # heads: all in one call, on a fixed shape.
    tree: TreeKind = "none"
    learns: bool = False  # while it serves
    threshold_symbol: str = ""  # of the confidence below which drafting stops, in the letters of its paper
    page: str = ""  # of the documents, that explains it and its paper


class VerifierTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Of a verifier."""

    # backward: a draft is tested from its end, the longest prefix that passes is kept, and shorter ones with it. The
    # rate "accepted / tested" means nothing for such a rule; survival does.
    direction: Literal["forward", "backward"] = "forward"
    order: Order = "prefixes"  # what a backward rule scans: one chain; candidate by candidate; leaves to root
    letter: Letter = "c"  # the weight of a prefix in the letters of its paper
    capped: bool = True  # the joint ratio over its running maximum decides; else the ratio itself
    last_capped: bool = True  # so does the test of the last position
    draws: bool = False  # nothing is tested: the target draws and follows the draft
    adds_slack: bool = False  # the keep chance is p/q and something on top
    same_rule_as: str = ""  # another verifier, of which this is the other name
    replays_as: Rule | None = None  # which of RULES it is
    page: str = ""  # of the documents, that explains it and its paper

    @property
    def backward(self) -> bool:
        """Whether drafts are tested from their end."""
        return self.direction == "backward"
