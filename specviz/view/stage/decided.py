"""A round decided otherwise, as the stage paints it: one moment, its nodes as they would have ended."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from specviz.knobs import KnobSpec
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, TextToken
from specviz.text import LONGEST, running
from specviz.view.frame.frame import Frame, Options, TreeNode, Values
from specviz.view.frame.knob_bar import knob_item
from specviz.view.frame.parts import Counts, KnobItem, Why, WhyRow
from specviz.view.play.build import FrameBuilder
from specviz.view.play.tree import value_texts
from specviz.view.stage.document import in_force, place_of
from specviz.view.stage.parts import StageMoment, StageRound
from specviz.view.words.palette import STYLES, Phase


class DecidedRound:
    """`nodes` with their `whys`, in the order in which they are added."""

    def __init__(self, builder: FrameBuilder, index: int, frame: Frame) -> None:
        self.builder, self.index, self.frame = builder, index, frame
        self.run: Run = builder.run
        self.nodes: dict[int, TreeNode] = {}
        self.whys: dict[int, Why] = {}

    def add(self, node: TreeNode, why: Why) -> None:
        self.nodes[node.id], self.whys[node.id] = node, why

    def add_new(self, id: int, parent: int, row: int, token: int, mark: Mark, values: Values, why: Why) -> None:
        """A node that the round did not have, a column behind its parent."""
        above, style = self.nodes[parent], STYLES[mark]
        node = TreeNode(
            id=id,
            parent=parent,
            column=above.column + 1,
            row=row,
            token=token,
            shown=self.run.word(token),
            mark=mark,
            glyph=style.glyph,
            word=style.word,
            values=values,
            texts=value_texts(values),
            value="",
            bar=values.conf,
            winning=mark != "rejected",
        )
        self.add(node, why)

    def page(
        self, sentence: str, selected: int, counts: str, kept: Sequence[int], badges: Mapping[int, str]
    ) -> StageRound:
        """`kept`: nodes that would become text, in its order."""
        nodes, tree = tuple(self.nodes.values()), self.frame.tree
        places = tuple(range(len(nodes)))
        return StageRound(
            index=self.index,
            place=place_of(self.builder, self.index),
            n_columns=1 + max(node.column for node in nodes),
            n_rows=1 + max(node.row for node in nodes),
            looks=nodes,
            moments=(
                StageMoment(
                    phase=int(Phase.CLOSE),
                    phase_text="what if",
                    sentence=sentence,
                    selected=selected,
                    counts=Counts(counts),
                    nodes=places,
                    whys=places,
                    texts=tuple(range(len(kept))),
                ),
            ),
            whys=tuple(self.whys.values()),
            texts=tuple(map(self._text, kept)),
            knobs=in_force(self.frame.knobs),
            missing=tree.missing or "",
            badges=dict(badges),
        )

    def _text(self, id: int) -> TextToken:
        node = self.nodes[id]
        reads = running(*self.run.words.get(node.token, ("", None)), LONGEST)
        return TextToken(node.shown, reads, node.token, node.mark, self.frame.round, 0, id, provisional=True)


def as_if(node: TreeNode, mark: Mark, winning: bool, values: Values, note: str) -> TreeNode:
    """A node of the round with another end."""
    style = STYLES[mark]
    changes = {"mark": mark, "glyph": style.glyph, "word": style.word, "winning": winning, "values": values}
    return msgspec.structs.replace(node, **changes, texts=value_texts(values), note=note, cursor=False, fresh=False)


def what_if_knob(spec: KnobSpec, value: Any, **changes: Any) -> KnobItem:
    """A knob that a round may be decided again with."""
    item = knob_item(spec, {spec.name: value}, {}, Options(), waits=False)
    return msgspec.structs.replace(item, applies_text="round that is looked at, as what if", **changes)


def what_if_why(node: int, shown: str, mark: Mark, words: str, rule: str = "", rows: tuple[WhyRow, ...] = ()) -> Why:
    """Why it would be so."""
    style = STYLES[mark]
    return Why(node, shown, mark, style.glyph, f"WHAT IF: {style.word.upper()}", rule, rows, words)
