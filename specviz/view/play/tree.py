"""The tree of a frame: where each node of a round stands, and what of it may be shown at this moment.

Places come from the finished tree, so that nothing jumps: depth is the column, siblings stack in id order, a parent
stands beside its first child, the closing token hangs below its last sibling. What is folded away is counted there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from specviz.events import prob as linear
from specviz.numerals import UNKNOWN, percent, plural, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.runlog.tree import RoundTree
from specviz.text import width
from specviz.view.frame.frame import (
    Fold,
    Folding,
    Options,
    TreeFrame,
    TreeLine,
    TreeNode,
    TreeViewport,
    Values,
    ValueTexts,
)
from specviz.view.frame.steps import Moment, node_text
from specviz.view.play.fit import TreeChildren, TreePruner, drafted_kin, every_kin, tree_map
from specviz.view.why.node_context import never_tested, values
from specviz.view.words.numbers import ratio
from specviz.view.words.palette import CLOSING, ROOT, LinkShape, Phase, ValueName, glyph, word

_TRIES = 4  # times that a layout is filled up


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Places of all nodes (`(column, row)` by id), the lines between them and what was folded.

    `links` are those of the finished tree, `open_links` those before the closing token hangs in it.
    """

    places: dict[int, tuple[int, int]]
    links: tuple[TreeLine, ...]
    open_links: tuple[TreeLine, ...]
    folds: tuple[Fold, ...]
    n_columns: int
    n_rows: int
    order: tuple[int, ...]  # depth first, the order of a vertical list
    node_cache: dict[tuple[Any, ...], TreeNode] = field(default_factory=dict, compare=False)  # by what nodes depend on
    widths: list[tuple[int, tuple[int, ...]]] = field(default_factory=list, compare=False)

    @property
    def by_id(self) -> list[int]:
        """Root first, closing token last."""
        return sorted(self.places, key=lambda i: (i == CLOSING, i))

    def cells(self, run: Run, tree: RoundTree) -> tuple[int, ...]:
        """The widest text of each column; worked out again when the run has learnt another word."""
        if not self.widths or self.widths[0][0] != len(run.words):
            cells = [0] * self.n_columns
            for node, (column, _) in self.places.items():
                cells[column] = max(cells[column], width(node_text(run, tree, node)))
            self.widths[:] = [(len(run.words), tuple(cells))]
        return self.widths[0][1]


@dataclass
class _Builder:
    kin: TreeChildren
    hidden: Callable[[int], bool]  # left out, and counted where it stood
    tight: bool = False  # a count stands behind the last of the shown siblings where it can, not below it

    def __post_init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self.links: list[TreeLine] = []
        self.open_links: list[TreeLine] = []
        self.folds: list[Fold] = []
        self.order: list[int] = []
        self.n_rows = 0

    def build(self) -> TreeLayout:
        self._place(ROOT, 0)
        columns = 1 + max((column for column, _ in self.places.values()), default=0)
        links, open_links = tuple(self.links), tuple(self.open_links)
        return TreeLayout(self.places, links, open_links, tuple(self.folds), columns, self.n_rows, tuple(self.order))

    def _place(self, node: int, column: int) -> None:
        """Put the node in the next free row, its children from that row on."""
        row = self.n_rows
        self.places[node] = (column, row)
        self.order.append(node)
        shown: list[int] = []
        gone: list[int] = []
        for child in self.kin.born.get(node, ()):
            (gone if self.hidden(child) else shown).append(child)
        rows = []
        for child in shown:
            rows.append(max(self.n_rows, row))
            self.n_rows = rows[-1]
            self._place(child, column + 1)
        if not shown:
            self.n_rows = row + 1
        if gone:
            self._fold(node, column, gone, bool(shown))
        links = _lines(column, rows)
        self.links += links
        self.open_links += _lines(column, rows[:-1]) if shown and shown[-1] == CLOSING else links

    def _fold(self, node: int, column: int, gone: list[int], beside: bool) -> None:
        count = sum(1 + self.kin.n_below.get(child, 0) for child in gone)
        last = self.order[-1]
        if self.tight and beside and self.places[last][0] == column + 1:  # nothing stands behind that one
            words = f" + {plural(len(gone), 'sibling')}"
            self.folds.append(Fold(column + 2, self.places[last][1], node, count, words))
            return
        if beside:
            text = f"+ {plural(len(gone), 'other branch', 'other branches')}"
        else:
            text = f"+ {plural(count, 'node')} below"
        row = self.n_rows - (0 if beside else 1)
        self.folds.append(Fold(column + 1, row, node, count, text))
        self.n_rows += 1 if beside else 0


def _lines(column: int, rows: list[int]) -> list[TreeLine]:
    """The lines from a node to its children's rows; `rows[0]` is the node's own."""
    if not rows:
        return []
    shapes: dict[int, LinkShape] = dict.fromkeys(range(rows[0], rows[-1] + 1), "bar")
    for row in rows[1:-1]:
        shapes[row] = "branch"
    shapes[rows[-1]] = "corner"
    shapes[rows[0]] = "tee" if len(rows) > 1 else "line"
    return [TreeLine(column, row, shape) for row, shape in shapes.items()]


def layout(
    tree: RoundTree, folding: Folding = "none", selected: int | None = None, room: TreeViewport | None = None
) -> TreeLayout:
    """The places of a round's tree. `losers` leaves out what lost and led nowhere, except the way to `selected`; `room`
    what does not fit."""

    if folding == "none":
        return _Builder(every_kin(tree), lambda node: False).build()
    kin = drafted_kin(tree, selected)
    keep = kept_in_view(tree, selected) if folding == "losers" else None
    if room is not None and room.rows:
        return _in_room(kin, room, selected, keep)
    return _Builder(kin, lambda node: keep is not None and node not in keep).build()


def _in_room(kin: TreeChildren, room: TreeViewport, selected: int | None, keep: set[int] | None) -> TreeLayout:
    """As many nodes as the lines hold, of those to `keep`. How many lines counts take is known when all stands: what is
    spare is given out again."""
    best, rows, fit = None, room.rows, TreePruner(kin if keep is None else kin.among(keep), room)
    for _ in range(_TRIES):
        fits = fit.fitted(rows, selected)
        laid = _Builder(kin, lambda node, fits=fits: node not in fits, tight=True).build()  # type: ignore[misc]
        lines = len(laid.order) if room.listed else laid.n_rows
        if best is not None and lines > room.rows:
            break
        best = laid
        if lines >= room.rows:
            break
        rows += room.rows - lines
    assert best is not None
    return best


def kept_in_view(tree: RoundTree, selected: int | None) -> set[int]:
    """What folding leaves: the kept path, every tested node, the closing token and the selected node's line."""
    keep = {ROOT, CLOSING, *tree.accepted, *(v.node for v in tree.tests)}
    if not tree.record.verdicts:  # nothing judged yet: there are no losers
        keep |= set(tree.nodes)
    if selected in tree.nodes:
        keep |= {selected, *tree.ancestors(selected), *tree.children.get(selected, ())}
    return keep


def tree(
    run: Run,
    tree: RoundTree,
    now: Moment,
    places: TreeLayout,
    options: Options,
    selected: int | None,
    whole: TreeLayout | None = None,
) -> TreeFrame:
    """The visible tree. Places are those of the finished tree, so nothing jumps. `whole`: with nothing folded, for the
    map."""
    marks = {i: now.mark(tree, i) for i in (places if whole is None else whole).places if now.visible(tree, i)}
    marks |= {i: now.mark(tree, i) for i in places.places if i not in marks and now.visible(tree, i)}
    path = set(tree.accepted) if now.all_tested else {i for i, v in now.verdicts.items() if v.status == "accepted"}
    nodes = [
        _node(run, tree, now, places, i, marks[i], options, i in path, i == selected)
        for i in places.by_id
        if i in marks
    ]
    seen = {node.id for node in nodes}
    grown = now.phase > Phase.DRAFT or now.n_levels >= tree.n_levels > 0  # a count before that would tell what comes
    links = places.links if now.phase >= Phase.CLOSE else places.open_links
    return TreeFrame(
        nodes=tuple(nodes),
        links=tuple(link for link in links if link.column < now.n_levels or now.phase >= Phase.CLOSE),
        folds=tuple(fold for fold in places.folds if grown and fold.parent in seen),
        n_columns=places.n_columns,
        n_rows=places.n_rows,
        column_cells=places.cells(run, tree),
        missing=run.missing(tree.record),
        map=None if whole is None else tree_map(marks, whole.places, seen, selected, options.room.map_rows),
    )


def _node(
    run: Run,
    tree: RoundTree,
    now: Moment,
    places: TreeLayout,
    node: int,
    mark: Mark,
    options: Options,
    kept: bool,
    cursor: bool,
) -> TreeNode:
    """As it was made before where nothing of it has changed: most nodes stay the same from step to step."""
    winning = kept or node == ROOT or (node == CLOSING and now.phase == Phase.COMMIT)
    verdict, fresh = node in now.verdicts, node in now.fresh
    key = (node, mark, verdict, now.has_p, winning, cursor, fresh, options.value, options.ascii, len(run.words))
    if key in places.node_cache:
        return places.node_cache[key]
    born, closing, place = tree.nodes.get(node), tree.record.closing, places.places[node]
    numbers = node_values(tree, now, node)
    value, bar = value_text(numbers, options.value, closing=node == CLOSING)
    places.node_cache[key] = TreeNode(
        id=node,
        parent=tree.stop if node == CLOSING else ROOT if born is None else tree.parent(node),
        column=place[0],
        row=place[1],
        token=born.token if born else (closing.token or 0) if node == CLOSING and closing else tree.record.start.root,
        shown=node_text(run, tree, node),
        mark=mark,
        glyph=glyph(mark, options.ascii),
        word=word(mark),
        values=numbers,
        texts=value_texts(numbers),
        value="" if node == ROOT or (node == CLOSING and numbers.p is None) else value,
        bar=None if node == ROOT else bar,
        winning=winning,
        cursor=cursor,
        fresh=fresh,
        note=_note(tree, now, node),
    )
    return places.node_cache[key]


def node_values(tree: RoundTree, now: Moment, node: int) -> Values:
    """The numbers of a node that this moment may show."""
    if node == CLOSING:
        closing = tree.record.closing
        if closing is None:
            return Values()
        lo, hi = closing.interval or (None, None)
        p = _raw_closing(tree) if tree.record.temperature == 0 else linear(closing.logp)
        return Values(p=p, u=closing.u, rank=closing.rank_p, lo=lo, hi=hi)
    if node not in tree.nodes:
        return Values()
    known = values(tree, node, with_p=now.has_p)
    if now.has_p and tree.record.temperature == 0:
        known = msgspec.structs.replace(known, p=tree.raw_p(node))
    if node in now.verdicts or not now.has_p:
        return known
    return msgspec.structs.replace(known, u=None, thr=None, lo=None, hi=None, left=None)


def _raw_closing(tree: RoundTree) -> float | None:
    """The closing token's probability before temperature 0, when a node at its place carries the row."""
    closing = tree.record.closing
    place = next((i for i in tree.nodes if tree.same_row(i)), None)
    top = tree.top(place) if place is not None else None
    return next((linear(log) for token, log in top or [] if closing and token == closing.token), None)


def value_texts(values: Values) -> ValueTexts:
    """All of them, for who shows several at once; what the draft said where q has no meaning."""
    draft_odds = values.q if values.q is not None else values.conf
    return ValueTexts(
        q="" if draft_odds is None else prob(draft_odds),
        p="" if values.p is None else prob(values.p),
        ratio="" if values.ratio is None else ratio(values.ratio),
        u="" if values.u is None else prob(values.u),
    )


def value_text(values: Values, mode: ValueName, closing: bool = False) -> tuple[str, float | None]:
    """The text and bar of the chosen value; what the draft said where q has no meaning."""
    if mode == "p" or closing:
        return prob(values.p), values.p
    if mode == "p/q":
        return ratio(values.ratio), None if values.ratio is None else min(1.0, values.ratio)
    if mode == "u":
        return prob(values.u), values.u
    if mode == "rank":
        return UNKNOWN if values.rank is None else f"#{values.rank}", None if not values.rank else 1 / values.rank
    draft_odds = values.q if values.q is not None else values.conf
    return prob(draft_odds), draft_odds


def _note(tree: RoundTree, now: Moment, node: int) -> str:
    if node == CLOSING:
        if tree.record.temperature == 0:
            return ""
        closing = tree.record.closing
        share = next((row[4] for row in (closing.row or []) if row[0] == closing.token), None) if closing else None
        return f"drawn {percent(share)}" if share is not None and share < 1 else "drawn"
    verdict = now.verdicts.get(node)
    if verdict is not None and (judged := tree.judged(node)) is not None:
        return f"tested as n{judged}"
    if verdict is None or verdict.status != "rejected":
        return ""
    below = never_tested(tree, node)
    return f"{below} untried" if below else ""
