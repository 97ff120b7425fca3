"""A node decided again, for a person who asks "and if?": by every rule that takes the draft, and with another u.

The work is done by `specviz.whatif`, without a model; here its answers are put beside each other.
"""

from dataclasses import dataclass

from specviz.errors import SpecvizError
from specviz.events import Verify
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.view.whatif import WhatIf, what_if
from specviz.view.words.numbers import fine, within
from specviz.view.words.palette import CLOSING, glyph
from specviz.whatif import Change, decide, movable

NO_DRAW = "temperature 0: the target's most likely token is kept, no u is drawn"
NOT_DRAWN = "no u of its own decided this node; a tested node has one"


@dataclass(frozen=True, slots=True)
class RuleAgain:
    """One rule on the recorded draft. `mark`: what becomes of the node, None where the record leaves it open; `kept`:
    drafted tokens kept, `2`, `?`."""

    verifier: str
    own: bool
    mark: Mark | None
    glyph: str
    kept: str
    sentence: str


@dataclass(frozen=True, slots=True)
class NodeAgain:
    """What may be asked of a node. `u`: the one that decided; `no_u`: why there is none to change."""

    node: int
    u: float | None
    no_u: str
    was: Mark | None
    rules: tuple[RuleAgain, ...]


def node_again(run: Run, record: RoundRecord, node: int, ascii: bool = False) -> NodeAgain:
    """The node under every rule that takes its draft, the run's own first. Raises SpecvizError without a header."""
    own = run.header.verifier if run.header is not None else ""
    names = movable(run, record, Change()).verifiers
    rules = [_by_rule(run, record, node, name, ascii) for name in sorted(names, key=lambda name: name != own)]
    verdict = record.verdicts.get(node)
    u = None if verdict is None or record.temperature == 0 or not _decided(verdict) else verdict.u
    no_u = "" if u is not None else NO_DRAW if record.temperature == 0 else _not_moved(record, node)
    return NodeAgain(node, u, no_u, verdict.status if verdict is not None else None, tuple(rules))


def _not_moved(record: RoundRecord, node: int) -> str:
    """Why a node's u cannot be tried: it has none, or it drew the last token, from a row not on record whole."""
    closing = record.closing
    if node != CLOSING or closing is None or closing.u is None:
        return NOT_DRAWN
    u, stretch = within(closing.u, *closing.interval) if closing.interval else (fine(closing.u), "")
    other = f"; for u outside {stretch} it would have been another" if stretch else ""
    return f"u {u} drew this last token{other}"


def _decided(verdict: Verify) -> bool:
    return verdict.order is not None and verdict.u is not None


def with_u(run: Run, record: RoundRecord, node: int, u: float, ascii: bool = False) -> WhatIf:
    """The round with another u at a node. Raises SpecvizError for a u outside [0, 1) or a node without a test."""
    if not 0 <= u < 1:
        raise SpecvizError(f"u is drawn from [0, 1), and {u:g} is not in it")
    change = Change(uniforms={node: u})
    return what_if(run, decide(run, record, change), change, ascii)


def _by_rule(run: Run, record: RoundRecord, node: int, name: str, ascii: bool) -> RuleAgain:
    own = run.header is not None and run.header.verifier == name
    change = Change() if own else Change(verifier=name)
    try:
        whatif = what_if(run, decide(run, record, change), change, ascii)
    except SpecvizError as error:
        return RuleAgain(name, own, None, "?", "?", str(error))
    kept = "?" if whatif.kept is None else str(whatif.kept)
    mark = (
        whatif.marks.get(node)
        if any(whatif_node.node == node and whatif_node.now is not None for whatif_node in whatif.nodes)
        else None
    )
    sign = "" if node == CLOSING else "?" if mark is None else glyph(mark, ascii)
    return RuleAgain(name, own, mark, sign, kept, "as recorded" if own else _said(whatif))


def _said(whatif: WhatIf) -> str:
    """In a few words where nothing is another."""
    alike = whatif.decided and whatif.parting is None
    same = "; ".join(filter(None, ("the same tokens, the same text", whatif.law)))
    return same if alike else whatif.sentence


def least_u(lo: float, hi: float, u: float) -> str:
    """A u on the other side of `[lo, hi)`, to begin with: the middle of a stretch there, with the digits it needs."""
    inside = lo <= u < hi
    outside = (hi + 1) / 2 if 1 - hi >= lo else lo / 2  # the wider stretch: a u with few digits lies in it
    other = outside if inside else (lo + hi) / 2
    roundings = (f"{other:.{digits}f}" for digits in range(2, 17))
    return next((text for text in roundings if (lo <= float(text) < hi) != inside and float(text) < 1), f"{u:.6g}")
