"""`with_marks(frame, marks, words)`: the picture of a round as a slider's stop would have it."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from specviz.runlog.run import Mark
from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import Counts
from specviz.view.words.palette import STYLES, glyph


def with_marks(frame: Frame, marks: Mapping[int, Mark], words: str, ascii: bool = False) -> Frame:
    """Nodes with other fates, `words` in place of the counts, and no reasons: those on record are of the old fates."""
    nodes = tuple(
        msgspec.structs.replace(
            node,
            mark=marks[node.id],
            glyph=glyph(marks[node.id], ascii),
            word=STYLES[marks[node.id]].word,
            winning=marks[node.id] == "accepted",
        )
        if node.id in marks
        else node
        for node in frame.tree.nodes
    )
    return replace(frame, tree=replace(frame.tree, nodes=nodes), counts=Counts(words), why=None)
