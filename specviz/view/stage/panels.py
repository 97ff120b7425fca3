"""Panels that are nothing but blocks, as text for a saved page: every chart and map as its table."""

from collections.abc import Iterator

from specviz.view.blocks import Block, Facts, Heat, TableBlock, Words, twin
from specviz.view.frame.frame import Options
from specviz.view.panels.built import block_panels
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.moments import FEED
from specviz.view.stage.parts import StagePanel, StagePart


def panels_of(builder: FrameBuilder) -> tuple[StagePanel, ...]:
    """Those that have something of this run, at its end."""
    run, panels = builder.run, block_panels()
    if not panels or not run.rounds:
        return ()
    index = len(run.rounds) - 1
    steps = builder.steps(index)
    options = Options(shown=tuple(panel.id for panel in panels))
    frame = builder.frame(steps.cursor(index, len(steps.moments) - 1), options, FEED)
    models = ((panel.title, panel.of(frame)) for panel in panels)
    return tuple(
        StagePanel(title, tuple(part for block in model.blocks for part in _parts(block)))
        for title, model in models
        if model is not None and model.missing is None
    )


def _parts(block: Block) -> Iterator[StagePart]:
    if isinstance(block, Words):
        yield StagePart(words=block.text)
    elif isinstance(block, Facts):
        yield StagePart(block.title, rows=tuple((row.label, row.value, row.note) for row in block.rows))
    elif block.missing:
        yield StagePart(block.title, block.missing)
    elif isinstance(block, Heat):
        rows = ((name, *(square.text for square in line)) for name, line in zip(block.rows, block.squares, strict=True))
        yield StagePart(block.title, block.words, ("", *block.columns), tuple(rows))
    else:
        table = block if isinstance(block, TableBlock) else twin(block)
        yield StagePart(block.title, block.words, table.heads, tuple(tuple(c.text for c in row) for row in table.rows))
