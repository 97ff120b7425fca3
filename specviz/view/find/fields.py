"""What a filter can ask of a drafted node and of its round: names, kinds and where each value comes from.

Nothing is worked out here: p, q and the rest are those of the screens. What a trace does not hold is None.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specviz.events import Node, RoundEnd, Verify, prob
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree

Kind = Literal["number", "text", "truth"]
Value = float | str | bool | None
MS = 1e6


@dataclass(frozen=True, slots=True)
class FilterSubject:
    """A node of a round, or the round alone (`node` None)."""

    tree: RoundTree
    node: int | None

    @property
    def record(self) -> RoundRecord:
        return self.tree.record

    @property
    def born(self) -> Node | None:
        return None if self.node is None else self.tree.nodes.get(self.node)

    @property
    def verdict(self) -> Verify | None:
        return None if self.node is None else self.record.verdicts.get(self.node)

    @property
    def status(self) -> str | None:
        """What became of the node; None while that is not known."""
        born, verdict = self.born, self.verdict
        if born is not None and not born.kept:
            return "pruned"
        return verdict.status if verdict is not None else None


@dataclass(frozen=True, slots=True)
class FilterField:
    """`of_node`: it differs from node to node of a round. `help`: a few words."""

    name: str
    kind: Kind
    of_node: bool
    help: str
    value: Callable[[FilterSubject], Value]


def _number(name: str, help: str, value: Callable[[FilterSubject], float | None], of_node: bool = True) -> FilterField:
    return FilterField(name, "number", of_node, help, value)


def _verdict(read: Callable[[Verify], float | None]) -> Callable[[FilterSubject], float | None]:
    def value(at: FilterSubject) -> float | None:
        return None if at.verdict is None else read(at.verdict)

    return value


def _born(read: Callable[[Node], Any]) -> Callable[[FilterSubject], Any]:
    def value(at: FilterSubject) -> Any:
        return None if at.born is None else read(at.born)

    return value


def _ended(read: Callable[[RoundEnd], float]) -> Callable[[FilterSubject], float | None]:
    def value(at: FilterSubject) -> float | None:
        return None if at.record.end is None else read(at.record.end)

    return value


def _became(status: str, help: str) -> FilterField:
    def value(at: FilterSubject) -> bool | None:
        return None if at.status is None else at.status == status

    return FilterField(status, "truth", True, help, value)


def _q(node: Node) -> float | None:
    return prob(node.log_conf if node.logq is None else node.logq)


def _p(at: FilterSubject) -> float | None:
    if at.node is None or at.node not in at.tree.nodes:
        return None
    return at.tree.raw_p(at.node) if at.record.temperature == 0 else at.tree.p(at.node)


def _took(at: FilterSubject) -> float | None:
    end = at.record.end
    return None if end is None else (end.t - at.record.start.t) / MS


def _stage(name: str) -> Callable[[FilterSubject], float | None]:
    def value(at: FilterSubject) -> float | None:
        end = at.record.end
        return end.stage_ns[name] / MS if end is not None and name in end.stage_ns else None

    return value


def _tested(at: FilterSubject) -> bool | None:
    return None if at.verdict is None else at.verdict.order is not None


def _depth(at: FilterSubject) -> float | None:
    return None if at.node is None else at.tree.depth.get(at.node)


FIELDS: tuple[FilterField, ...] = (
    _number("depth", "levels below the root", _depth),
    _number("q", "the draft's probability; its softmax where nothing was drawn", _born(_q)),
    _number("p", "the target's probability", _p),
    _number("u", "the number that was drawn", _verdict(lambda verdict: verdict.u)),
    _number("thr", "what u is held against", _verdict(lambda verdict: verdict.thr)),
    _number("conf", "the draft's raw softmax", _born(lambda node: prob(node.log_conf))),
    _number("rank", "place among the target's tokens, 1 the likeliest", _verdict(lambda verdict: verdict.rank_p)),
    _number("order", "number of its test, from 0", _verdict(lambda verdict: verdict.order)),
    _number("node", "its id, as in n14", lambda at: at.node),
    _number("token", "id in the vocabulary", _born(lambda node: node.token)),
    FilterField("text", "text", True, "of the token", _born(lambda node: node.text)),
    _became("accepted", "kept"),
    _became("rejected", "tested and lost"),
    _became("untested", "its turn never came"),
    _became("pruned", "the target never saw it"),
    FilterField("tested", "truth", True, "its turn came", _tested),
    _number("round", "number of the round", lambda at: at.record.r, False),
    _number("query", "number of the prompt", lambda at: at.record.q, False),
    _number("n_drafted", "tokens drafted in the round", _ended(lambda end: end.n_drafted), False),
    _number("n_tested", "of them tested", _ended(lambda end: end.n_tested), False),
    _number("n_accepted", "of them kept", _ended(lambda end: end.n_accepted), False),
    _number("n_emitted", "tokens of text the round brought", _ended(lambda end: end.n_emitted), False),
    _number("ms", "how long the round took", _took, False),
    _number("draft_ms", "of it drafting", _stage("draft"), False),
    _number("verify_ms", "of it the target's pass", _stage("verify"), False),
    FilterField("bonus", "truth", False, "a token came free", lambda at: at.record.closing_mark == "bonus"),
    FilterField("recovered", "truth", False, "drawn again", lambda at: at.record.closing_mark == "recovered"),
    FilterField("bookmarked", "truth", False, "has a bookmark", lambda at: bool(at.record.notes)),
    FilterField("warned", "truth", False, "the core warned", lambda at: bool(at.record.warnings)),
    FilterField("changed", "truth", False, "a knob changed", lambda at: bool(at.record.changes)),
)

HINT = 'depth>2 and p/q<.3 · rejected and q>.5 · text ~ "the" · n_accepted=0'
NAMES = " · ".join(f"{field.name}: {field.help}" for field in FIELDS)


def fields(knobs: Iterable[str] = ()) -> Mapping[str, FilterField]:
    """Every field by name, with the knobs of a run, as numbers, behind them."""
    knob_fields = {name: _number(name, "a knob", _knob(name), False) for name in knobs}
    return knob_fields | {field.name: field for field in FIELDS}


def _knob(name: str) -> Callable[[FilterSubject], float | None]:
    def value(at: FilterSubject) -> float | None:
        knob = at.record.knobs.get(name)
        return float(knob) if isinstance(knob, int | float) else None

    return value
