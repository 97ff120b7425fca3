"""The tree of a frame: nodes with the marks and numbers that may be shown at this moment, where the layout put them."""

from dataclasses import replace

from specviz.events import prob as linear
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import running, shown, width
from specviz.view.frame.frame import Options, TreeFrame, TreeNode, Values
from specviz.view.frame.steps import Moment
from specviz.view.tree.layout import TreeLayout
from specviz.view.why.node_context import never_tested, values
from specviz.view.words.numbers import UNKNOWN, percent, prob, ratio
from specviz.view.words.palette import CLOSING, ROOT, Phase, ValueName, glyph, word

_TAIL = 8  # characters of a prompt that stand for its unnamed last token


def tree(
    run: Run, family: RoundTree, now: Moment, places: TreeLayout, options: Options, selected: int | None
) -> TreeFrame:
    """The visible tree. Places are those of the finished tree, so nothing jumps."""
    nodes = [
        _node(run, family, now, places.places[i], i, options, selected)
        for i in sorted(places.places, key=lambda i: (i == CLOSING, i))
        if now.visible(family, i)
    ]
    seen = {node.id for node in nodes}
    links = places.links if now.phase >= Phase.CLOSE else places.open_links
    return TreeFrame(
        nodes=tuple(nodes),
        links=tuple(link for link in links if link.column < now.n_levels or now.phase >= Phase.CLOSE),
        folds=tuple(fold for fold in places.folds if fold.parent in seen and now.phase > Phase.DRAFT),
        n_columns=places.n_columns,
        n_rows=places.n_rows,
        column_cells=_cells(family, run, places),
        flash=now.phase == Phase.VERIFY,
        missing=run.missing(family.record),
    )


def _node(
    run: Run, family: RoundTree, now: Moment, place: tuple[int, int], node: int, options: Options, selected: int | None
) -> TreeNode:
    mark = now.mark(family, node)
    born = family.nodes.get(node)
    numbers = node_values(family, now, node)
    value, bar = value_text(numbers, options.value, closing=node == CLOSING)
    path = set(family.accepted) if now.all_tested else {i for i, v in now.verdicts.items() if v.status == "accepted"}
    closing = family.record.closing
    parent = family.stop if node == CLOSING else ROOT if born is None else family.parent(node)
    return TreeNode(
        id=node,
        parent=parent,
        depth=place[0],
        column=place[0],
        row=place[1],
        token=born.token if born else (closing.token or 0) if node == CLOSING and closing else family.record.start.root,
        shown=node_text(run, family, node),
        mark=mark,
        glyph=glyph(mark, options.ascii),
        word=word(mark),
        values=numbers,
        value="" if node == ROOT or (node == CLOSING and numbers.p is None) else value,
        bar=None if node == ROOT else bar,
        winning=node in path or node == ROOT or (node == CLOSING and now.phase == Phase.COMMIT),
        cursor=node == selected,
        fresh=node in now.fresh,
        note=_note(family, now, node),
    )


def node_text(run: Run, family: RoundTree, node: int) -> str:
    """The shown token of a node, the root or the closing token."""
    if node == ROOT:
        return root_text(run, family.record)
    if node == CLOSING:
        closing = family.record.closing
        return run.word(closing.token) if closing and closing.token is not None else UNKNOWN
    born = family.nodes[node]
    return shown(born.text, born.bytes)


def root_text(run: Run, record: RoundRecord) -> str:
    """The root's token; the tail of the prompt where the trace never spelled its last token."""
    prefill = record.query.prefill
    if record.start.root not in run.words and prefill and prefill.text and record.start.n == prefill.n_prompt:
        tail = running(prefill.text[-_TAIL:]).replace(" ", shown(" "))
        return tail if len(prefill.text) <= _TAIL else "…" + tail
    return run.word(record.start.root)


def node_values(family: RoundTree, now: Moment, node: int) -> Values:
    """The numbers of a node that this moment may show."""
    if node == CLOSING:
        closing = family.record.closing
        if closing is None:
            return Values()
        lo, hi = closing.interval or (None, None)
        p = _raw_closing(family) if family.record.temperature == 0 else linear(closing.logp)
        return Values(p=p, u=closing.u, rank=closing.rank_p, lo=lo, hi=hi)
    if node not in family.nodes:
        return Values()
    known = values(family, node, with_p=now.has_p)
    if now.has_p and family.record.temperature == 0:
        known = replace(known, p=family.raw_p(node))
    if node in now.verdicts or not now.has_p:
        return known
    return replace(known, u=None, thr=None, lo=None, hi=None, left=None)


def _raw_closing(family: RoundTree) -> float | None:
    """The closing token's probability before temperature 0, when a node at its place carries the row."""
    closing = family.record.closing
    place = next((i for i in family.nodes if family.same_row(i)), None)
    top = family.top(place) if place is not None else None
    return next((linear(log) for token, log in top or [] if closing and token == closing.token), None)


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
    said = values.q if values.q is not None else values.conf
    return prob(said), said


def _note(family: RoundTree, now: Moment, node: int) -> str:
    if node == CLOSING:
        if family.record.temperature == 0:
            return ""
        closing = family.record.closing
        share = next((row[4] for row in (closing.row or []) if row[0] == closing.token), None) if closing else None
        return f"drawn {percent(share)}" if share is not None and share < 1 else "drawn"
    verdict = now.verdicts.get(node)
    if verdict is not None and (judged := family.judged(node)) is not None:
        return f"tested as n{judged}"
    if verdict is None or verdict.status != "rejected":
        return ""
    below = never_tested(family, node)
    return f"+ {below} never" if below else ""


def _cells(family: RoundTree, run: Run, places: TreeLayout) -> tuple[int, ...]:
    cells = [0] * places.n_columns
    for node, (column, _) in places.places.items():
        cells[column] = max(cells[column], width(node_text(run, family, node)))
    return tuple(cells)
