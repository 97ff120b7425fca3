"""The moments of a round, made of the frames that other screens paint, so that there is one truth."""

from collections.abc import Iterable
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from specviz.runlog.run import TextToken
from specviz.view.frame.frame import Cursor, Feed, Frame, Options, TreeNode
from specviz.view.frame.parts import Why
from specviz.view.frame.steps import Moment, moment
from specviz.view.panels import remarks
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.parts import StageMoment
from specviz.view.stage.words import moment_sentence
from specviz.view.why.explain import why
from specviz.view.words.palette import ROOT, Phase

OPTIONS, FEED = Options(), Feed()
# What of a node changes with the moment: the browser knows how marks look and what is under its cursor, and shows
# every value.
_PASSING: dict[str, Any] = {"glyph": "", "word": "", "cursor": False, "fresh": False, "value": "", "bar": None}
T = TypeVar("T")


class RoundMoments:
    """Goes through one round. `looks`, `whys`, `texts`: every node, reason and token that was come by, each once."""

    def __init__(self, builder: FrameBuilder, index: int, options: Options = OPTIONS) -> None:
        self.builder, self.index, self.options = builder, index, options
        self.run, self.round_tree = builder.run, builder.round_tree(index)
        self.looks: tuple[TreeNode, ...] = ()
        self.whys: tuple[Why, ...] = ()
        self.texts: tuple[TextToken, ...] = ()
        self._known: dict[tuple[Any, ...], Why] = {}
        self.last: Frame | None = None

    def all(self) -> tuple[StageMoment, ...]:
        """Every moment, in order."""
        moments = []
        for phase, step in self.builder.steps(self.index).moments:
            cursor = Cursor(self.index, phase, step)
            frame, now = self._at(cursor), moment(self.round_tree, cursor)
            nodes = frame.tree.nodes
            strip = [t for t in frame.strip.tokens if t.provisional and t.node is not None]
            looks = [msgspec.structs.replace(node, **_PASSING) for node in nodes]
            reasons = [self._why(node.id, (node.mark, node.values.u is None), now) for node in nodes]
            moments.append((frame, now, looks, reasons, strip))
        *_, own_looks, own_whys, own_texts = zip(*moments, strict=True)
        at_look, at_why, at_text = _places(own_looks, "id"), _places(own_whys, "node"), _places(own_texts, "pos")
        self.looks, self.whys, self.texts = tuple(at_look), tuple(at_why), tuple(at_text)
        staged = []
        for frame, now, seen, reasons, strip in moments:
            staged.append(
                StageMoment(
                    phase=int(frame.phase),
                    phase_text=frame.phase_text,
                    sentence=moment_sentence(self.run, frame, self.round_tree, now),
                    selected=frame.selected if frame.selected is not None else ROOT,
                    counts=frame.counts,
                    nodes=tuple(map(at_look.__getitem__, seen)),
                    whys=tuple(map(at_why.__getitem__, reasons)),
                    texts=tuple(map(at_text.__getitem__, strip)),
                    fresh=tuple(node.id for node in frame.tree.nodes if node.fresh),
                )
            )
        return tuple(staged)

    def end(self) -> tuple[Frame, dict[int, Why]]:
        """The round as it ended, and the reasons of its nodes."""
        at = self.builder.steps(self.index)
        cursor = at.cursor(self.index, len(at.moments) - 1)
        frame, now = self._at(cursor), moment(self.round_tree, cursor)
        return frame, {node.id: why(self.run, self.round_tree, node.id, now) for node in frame.tree.nodes}

    def _at(self, cursor: Cursor) -> Frame:
        self.last = self.builder.frame(cursor, self.options, FEED)
        return self.last

    def _why(self, node: int, state: tuple[Any, ...], now: Moment) -> Why:
        """What the reasons depend on beside the node stands in the key."""
        key = (node, *state, now.has_p, now.all_tested, now.phase == Phase.DRAFT, now.phase >= Phase.CLOSE)
        if key not in self._known:
            reasons = why(self.run, self.round_tree, node, now, False, remarks(self.run, self.round_tree, node))
            self._known[key] = msgspec.structs.replace(reasons, glyph="", decided=True)
        return self._known[key]


def _places(parts: Iterable[list[T]], key: str) -> dict[T, int]:
    """Every part once, with its place: those of one node stand together, which packs best."""
    return {part: k for k, part in enumerate(sorted(dict.fromkeys(chain.from_iterable(parts)), key=attrgetter(key)))}
