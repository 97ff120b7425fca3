"""What may be another in a round that is decided again: the verifier, its own knobs, uniforms, and less of the draft.

A cut keeps a part of what was drafted and invents nothing. Which knob cuts what stands with the knob (`KnobSpec.cuts`);
the same name may mean another thing with another method.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from specviz.cost.exit_grid import AXES
from specviz.errors import SpecvizError, suggestion
from specviz.events import DraftStep, Header
from specviz.knobs import KnobSpec
from specviz.methods import all_methods
from specviz.probability.draft import ROOT, Draft
from specviz.probability.plan import Verifier
from specviz.runlog.run import RoundRecord
from specviz.verifiers import all_verifiers, get_verifier
from specviz.verifiers.lossy import LossyRule, lossy_rules

NOT_SWEPT = (
    "the trace does not hold what the exit heads say of its text; "
    "'specviz whatif TRACE --sweep METHOD --write FILE' adds what they say"
)
ALONE = (
    "is replayed from what the exit heads say, with nothing else changed: leave the others out; where the trace does "
    "not hold that, 'specviz whatif TRACE --sweep METHOD --write FILE' adds what they say"
)


@dataclass(frozen=True, slots=True)
class Change:
    """What is another. `uniforms`: by node of the trace; `seed`: that of the query, for every draw of the round."""

    verifier: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    uniforms: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    @property
    def nothing(self) -> bool:
        """Whether all is as it was recorded."""
        return self == Change()


def checked(header: Header, change: Change) -> Change:
    """The change with its values in the knobs' own types. Raises SpecvizError for what the run cannot be asked."""
    rule = verifier_of(header, change)
    known = {spec.name: spec for spec in (*rule.knobs, *cutting(header))}
    for name in change.knobs:
        if name not in known:
            raise SpecvizError(_no_such_knob(header, rule, name, known))
    return replace(change, knobs={name: known[name].check(value) for name, value in change.knobs.items()})


def _no_such_knob(header: Header, rule: Verifier | LossyRule, name: str, known: Mapping[str, KnobSpec]) -> str:
    if name in AXES and header.method_traits.replay_depth is not None:
        return f"knob {name} {ALONE}"
    own = name in header.knobs or name in header.sampling
    why = (
        "changes what is drafted, and that needs the models" if own else f"is no knob of {header.method} or {rule.name}"
    )
    if not known:
        return f"knob {name} {why}; nothing that {header.method} drafts can be cut: change --verifier, --u or --seed"
    return f"knob {name} {why}{suggestion(name, known)}"


def cutting(header: Header) -> tuple[KnobSpec, ...]:
    """The knobs of the run's method that leave a part of a draft. A trace from before they said so asks the method."""
    own = tuple(spec for spec in header.knob_specs if spec.cuts)
    method = all_methods().get(header.method)
    own = own or (tuple(spec for spec in method.table.specs if spec.cuts) if method is not None else ())
    # A less deep tree of blocks has fewer blocks, so it is no part of the deeper one; older traces say it is.
    return tuple(spec for spec in own if header.method_traits.tree != "blocks" or spec.cuts != "depth")


def verifier_of(header: Header, change: Change) -> Verifier | LossyRule:
    """The rule that decides: the one asked for, or the run's own. Raises SpecvizError for one not known here."""
    if change.verifier is not None:
        return lossy_rules().get(change.verifier) or get_verifier(change.verifier)
    name = header.verifier
    if name not in all_verifiers():
        raise SpecvizError(f"the run's verifier {name} is not known here; name another one with --verifier")
    return get_verifier(name)


def known_lossy(verifier: str) -> bool:
    """Whether a rule is known here, and does not keep the target's law."""
    rule = all_verifiers().get(verifier) or lossy_rules().get(verifier)
    return rule is not None and not rule.lossless


def fitting(draft: Draft) -> tuple[str, ...]:
    """The verifiers that take a draft, those that are read and not run behind the others."""
    return tuple(
        name for rules in (all_verifiers(), lossy_rules()) for name in rules if rules[name].refuses(draft) is None
    )


def cut(header: Header, record: RoundRecord, draft: Draft, knobs: Mapping[str, Any]) -> Draft:
    """The part of a draft that its knobs at these values leave."""
    for spec in cutting(header):
        if spec.name in knobs:
            draft = _without(draft, _CUTS[spec.cuts](record, draft, knobs[spec.name]))
            if spec.cuts == "depth" and draft.planned is not None and knobs[spec.name] >= 0:
                draft = replace(draft, planned=min(draft.planned, knobs[spec.name]))
    return draft


def deepest_left(header: Header, record: RoundRecord, knobs: Mapping[str, Any]) -> int | None:
    """How deep a draft may be under knobs that cut nodes away for others to take their place; None: no such knob."""
    cuts = [(spec.cuts, knobs[spec.name]) for spec in cutting(header) if spec.name in knobs and spec.cuts != "unsure"]
    levels = max((node.depth for node in record.nodes.values()), default=0)
    return min([levels, *(most for kind, most in cuts if kind == "depth" and most >= 0)]) if cuts else None


def _without(draft: Draft, gone: set[int]) -> Draft:
    """The draft without some nodes and all that hangs below them."""
    for node, parent in enumerate(draft.parents):
        if parent in gone:
            gone.add(node)
    left = [node for node in range(len(draft)) if node not in gone]
    if len(left) == len(draft):
        return draft
    place = {node: k for k, node in enumerate(left)} | {ROOT: ROOT}
    fed = sum(node < draft.n_fed for node in left)
    numbers = iter(range(len(left)))
    return replace(
        draft,
        tokens=tuple(draft.tokens[node] for node in left),
        parents=tuple(place[draft.parents[node]] for node in left),
        ids=tuple(draft.ids[node] for node in left),
        n_judged=fed,
        n_fed=fed,
        row_of=tuple(next(numbers) if draft.row_of[node] >= 0 else -1 for node in left),
    )


def _deeper(record: RoundRecord, draft: Draft, most: int) -> set[int]:
    """Levels beyond so many; below 0 is no depth but a word for one that the method finds."""
    return {node for node, depth in enumerate(draft.depths) if 0 <= most < depth}


def _younger(record: RoundRecord, draft: Draft, most: int) -> set[int]:
    """Below the root every node keeps its first children, in the order they were drafted."""
    return {child for node, born in draft.children.items() if node != ROOT for child in born[most:]}


def _younger_heads(record: RoundRecord, draft: Draft, most: int) -> set[int]:
    return set(draft.children[ROOT][most:])


def _unsure(record: RoundRecord, draft: Draft, least: float) -> set[int]:
    """Nodes whose recorded draft confidence was below `least`; a node without one counts as sure."""
    conf = {step.node: step.conf for step in _looks(record) if step.node is not None and step.bound is not None}
    return {node for node, number in enumerate(draft.ids) if conf.get(number, least) < least}


def _looks(record: RoundRecord) -> list[DraftStep]:
    """Of this round, and of the earlier ones in which its pending tokens were drawn."""
    rounds = record.query.rounds
    here = record.index - record.query.first
    return [step for back in (0, 1, 2) if here >= back for step in rounds[here - back].every(DraftStep)]


_CUTS: dict[str, Any] = {
    "depth": _deeper,
    "children": _younger,
    "heads": _younger_heads,
    "unsure": _unsure,
}
