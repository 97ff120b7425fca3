"""Blocks of the view on a page: a heading with what it means, a picture with its words, its table folded below."""

from collections.abc import Callable, Iterable

import streamlit as st

from specviz.view.blocks import Block, Destination, Facts, Heat, Plot, TableBlock, Words, twin
from specviz_app.figures.bars import bars_html, has_bars
from specviz_app.figures.blocks import fig_heat, fig_plot, heat_rows, table_rows
from specviz_app.ui import around, parts

Go = Callable[[Destination], None]
_HIGHEST = 420  # pixels of a table whose lines lead somewhere
_BESIDE = (Plot, Heat)  # kinds that stand two in a row


def show(blocks: Iterable[Block], dark: bool, go: Go | None = None, pick: Go | None = None) -> None:
    """Blocks from top to bottom, pictures two in a row. `go`: what a line or a point that was clicked leads to;
    `pick`: what a square of a heat map does, its row and column."""
    waiting: list[Block] = []
    for block in blocks:
        if isinstance(block, _BESIDE):
            waiting.append(block)
            continue
        _pictures(waiting, dark, go, pick)
        waiting = []
        one(block, dark, go, pick)
    _pictures(waiting, dark, go, pick)


def _pictures(blocks: list[Block], dark: bool, go: Go | None, pick: Go | None) -> None:
    if len(blocks) == 1:
        one(blocks[0], dark, go, pick)
    elif blocks:
        columns = st.columns(2, gap="large")
        for k, block in enumerate(blocks):
            with columns[k % 2]:
                one(block, dark, go, pick)


def one(block: Block, dark: bool, go: Go | None = None, pick: Go | None = None) -> None:
    """One block where the page is."""
    if isinstance(block, Words):
        (parts.lead if block.strong else parts.say)(block.text)
    elif isinstance(block, Facts):
        parts.metrics(((row.label, row.value, row.note or None) for row in block.rows), block.key)
    elif isinstance(block, TableBlock):
        _table(block, go)
    elif isinstance(block, Heat):
        _heading(block)
        event = parts.plot(
            fig_heat(block, dark), block.key, block.words or block.missing, heat_rows(block), pick is not None
        )
        parts.say(block.words)
        if pick is not None and (place := around.click(event, block.key)):
            pick(Destination(int(place[0]), int(place[1])))
    else:
        _chart(block, dark, go)


def _heading(block: Plot | Heat | TableBlock) -> None:
    if block.title:
        st.subheader(block.title, help=block.help or None)


def _chart(block: Plot, dark: bool, go: Go | None) -> None:
    _heading(block)
    leads = go is not None and bool(block.places)
    rows = table_rows(twin(block)) if block.xs else None
    if has_bars(block):
        st.html(bars_html(block, dark))
        _lines(twin(block), go) if leads else parts.table(rows or [], block.key)
        return
    event = parts.plot(fig_plot(block, dark), block.key, block.words or block.missing or block.title, rows, leads)
    if go is not None and leads and (place := around.click(event, block.key)):
        go(Destination(int(place[0]), None if place[1] is None else int(place[1])))


def _table(block: TableBlock, go: Go | None) -> None:
    _heading(block)
    if block.missing:
        parts.say(block.missing)
        return
    _lines(block, go)
    parts.say(block.words)


def _lines(block: TableBlock, go: Go | None) -> None:
    rows = table_rows(block)
    if go is None or not block.places:
        st.dataframe(rows, hide_index=True, key=block.key)
        return
    at = around.lines(rows, block.key, _HIGHEST)
    parts.say("A line leads to its round.")
    if at is not None and (place := block.places[at]) is not None:
        go(place)
