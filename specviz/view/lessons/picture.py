"""The picture while something is asked: `with_marks`, as a slider's stop has it; `unanswered`, giving nothing away."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from specviz.runlog.run import Mark
from specviz.view.frame.frame import Frame, TreeNode
from specviz.view.frame.parts import Counts
from specviz.view.words.palette import STYLES, glyph


def unanswered(frame: Frame) -> Frame:
    """Without what would have decided otherwise: it names the border that is asked for, and rules that are."""
    why = frame.why and msgspec.structs.replace(frame.why, flip=None, otherwise=None)
    return replace(frame, why=why)


def with_marks(frame: Frame, marks: Mapping[int, Mark], words: str, ascii: bool = False) -> Frame:
    """Nodes with other fates, `words` in place of the counts, and no reasons: those on record are of the old fates."""
    nodes = tuple(_marked(node, marks[node.id], ascii) if node.id in marks else node for node in frame.tree.nodes)
    return replace(frame, tree=replace(frame.tree, nodes=nodes), counts=Counts(words), why=None)


def _marked(node: TreeNode, mark: Mark, ascii: bool) -> TreeNode:
    """A node with its fate; where that is another one, without the test on record, which would contradict it."""
    values, texts = node.values, node.texts
    if mark != node.mark:
        values = msgspec.structs.replace(values, u=None, thr=None, lo=None, hi=None)
        texts = msgspec.structs.replace(texts, u="")
    return msgspec.structs.replace(
        node,
        mark=mark,
        glyph=glyph(mark, ascii),
        word=STYLES[mark].word,
        winning=mark == "accepted",
        values=values,
        note="" if mark != node.mark else node.note,
        texts=texts,
    )
