"""The moments of a round as differences: made of the frames that other screens paint, so that there is one truth."""

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.text import LONGEST, running
from specviz.view.frame.frame import Cursor, Feed, Frame, Options, TreeNode, Values
from specviz.view.frame.parts import Why
from specviz.view.frame.steps import Moment, moment
from specviz.view.panels import remarks
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.parts import Gauge, StageEntry, StageMoment, StageNode, StageRow, StageWhy
from specviz.view.stage.words import said
from specviz.view.why.explain import why
from specviz.view.words.numbers import prob, ratio
from specviz.view.words.palette import CLOSING, ROOT, Phase

OPTIONS, FEED = Options(), Feed()
_DIGITS = 4  # of a bar
_GONE: dict[str, Any] = {"win": False, "note": ""}  # what a node has when nothing is said of it

State = dict[str, Any]


class RoundMoments:
    """Goes through one round. `whys` are all reasons that were given on the way, each once."""

    def __init__(self, builder: FrameBuilder, index: int, options: Options = OPTIONS) -> None:
        self.builder, self.index, self.options = builder, index, options
        self.run, self.family = builder.run, builder.family(index)
        self.whys: dict[StageWhy, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        self.nodes: dict[int, StageNode] = {}
        self.last: Frame | None = None

    def all(self) -> Iterator[StageMoment]:
        """Every moment, as what is other than in the one before."""
        before: dict[int, State] = {}
        steps = self.builder.steps(self.index)
        for phase, step in steps.moments:
            frame, now, states = self._at(Cursor(self.index, phase, step))
            yield self._moment(frame, now, {i: _other(states[i], before.get(i, _GONE)) for i in states})
            before = states

    def end(self) -> tuple[Frame, dict[int, State]]:
        """The round as it ended: its frame, and everything that is seen of its nodes."""
        at = self.builder.steps(self.index)
        frame, _, states = self._at(at.cursor(self.index, len(at.moments) - 1))
        return frame, states

    def _at(self, cursor: Cursor) -> tuple[Frame, Moment, dict[int, State]]:
        frame = self.last = self.builder.frame(cursor, self.options, FEED)
        now = moment(self.family, cursor)
        states = {node.id: self._state(node, now) for node in frame.tree.nodes}
        for node in frame.tree.nodes:
            self.nodes.setdefault(
                node.id, StageNode(node.id, node.parent, node.column, node.row, node.shown, self._reads(node.id))
            )
        return frame, now, states

    def _moment(self, frame: Frame, now: Moment, changed: Mapping[int, State]) -> StageMoment:
        maybe = tuple(t.node for t in frame.strip.tokens if t.provisional and t.node is not None)
        return StageMoment(
            phase=int(frame.phase),
            label=frame.phase_text,
            say=said(self.run, frame, self.family, now),
            at=frame.selected if frame.selected is not None else ROOT,
            counts=frame.counts.text,
            nodes={str(i): state for i, state in changed.items() if state},
            fresh=tuple(sorted(i for i in now.fresh if i in changed)),
            maybe=maybe,
        )

    def _reads(self, node: int) -> str:
        """How the node's token reads in the text; nothing for the root, which is text already."""
        born, closing = self.family.nodes.get(node), self.family.record.closing
        if born is not None:
            return running(born.text, born.bytes, LONGEST)
        if node != CLOSING or closing is None or closing.token is None:
            return ""
        return running(*self.run.words.get(closing.token, ("", None)), LONGEST)

    def _state(self, node: TreeNode, now: Moment) -> State:
        """What is seen of a node, and why it is so."""
        state: State = {"mark": node.mark, "why": self._why(node, now)}
        state["win"], state["note"] = node.winning, node.note
        return state | _numbers(node.values)

    def _why(self, node: TreeNode, now: Moment) -> int:
        """The place of the node's reasons in `whys`. What they depend on beside the node stands in the key."""
        phase = (now.phase == Phase.DRAFT, now.phase >= Phase.CLOSE)
        key = (node.id, node.mark, now.has_p, now.all_tested, node.values.u is None, *phase)
        if key not in self._known:
            found = why(self.run, self.family, node.id, now, False, remarks(self.run, self.family, node.id))
            self._known[key] = self.whys.setdefault(stage_why(found, node.values), len(self.whys))
        return self._known[key]


def _other(state: State, before: Mapping[str, Any]) -> State:
    """What is other than before; None for what is not known any more."""
    return {name: value for name, value in state.items() if before.get(name) != value} | {
        name: None for name in before if name not in state and name not in _GONE
    }


def _numbers(v: Values) -> State:
    """The numbers of a node as text, and q and p as bars; what is not known is left out."""
    said_q = v.q if v.q is not None else v.conf
    found: State = {}
    if said_q is not None:
        found |= {"q": prob(said_q), "qb": round(said_q, _DIGITS)}
    if v.p is not None:
        found |= {"p": prob(v.p), "pb": round(v.p, _DIGITS)}
    if v.ratio is not None:
        found["ratio"] = ratio(v.ratio)
    if v.u is not None:
        found["u"] = prob(v.u)
    return found


def stage_why(found: Why, values: Values) -> StageWhy:
    """The inspector's words and numbers, without what only a file is asked for."""
    left = found.residual
    return StageWhy(
        title=found.title,
        mark=found.mark,
        headline=found.headline,
        words=found.words,
        rule=found.rule,
        rows=tuple(StageRow(r.label, r.value, _short(r.bar), r.note) for r in found.rows),
        gauge=gauge(found, values),
        left=left.title if left else "",
        entries=tuple(StageEntry(e.shown, round(e.prob, _DIGITS), e.text, e.drawn, e.drafted) for e in left.entries)
        if left
        else (),
        left_note=left.note if left else "",
        flip=found.what_flips,
        cost=found.cost or "",
        rank=found.rank or "",
    )


def gauge(found: Why, values: Values) -> Gauge | None:
    """`u` against the band that keeps the token; None where nothing was drawn, or not yet."""
    lo, hi = (values.lo, values.hi) if values.lo is not None and values.hi is not None else (0.0, values.thr)
    if values.u is None or hi is None:
        return None
    row = next((row for row in found.rows if row.label == "u"), None)
    text = f"u {row.value} {row.note}".strip() if row else ""
    return Gauge(round(values.u, _DIGITS + 2), round(lo, _DIGITS + 2), round(min(1.0, hi), _DIGITS + 2), text)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
