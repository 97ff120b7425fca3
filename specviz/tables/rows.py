"""The columns of every table and their rows, from the records of a run. What is not recorded is None.

Texts are those of the screens (`specviz.text`): a token can hold anything, and a table is opened in programs that
believe what they read. The ids beside them say exactly which token it was.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specviz.events import Node, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import running, shown

Cell = int | float | str | bool | None
Held = Literal["int", "float", "text", "bool"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`help`: what its cells are, with their unit."""

    name: str
    kind: Held
    help: str


@dataclass(frozen=True, slots=True)
class DataTable:
    """`rows`: of one round, a tuple for every row, as long as there are columns."""

    name: str
    columns: tuple[TableColumn, ...]
    rows: Callable[[RoundRecord], Iterator[tuple[Cell, ...]]]

    def of(self, run: Run) -> Iterator[tuple[Cell, ...]]:
        """All rows of a run, round by round."""
        for record in run.rounds:
            yield from self.rows(record)


_PLACE = (
    TableColumn("query", "int", "number of the prompt, from 0"),
    TableColumn("round", "int", "number of the round in it, from 1"),
)


def _rounds(record: RoundRecord) -> Iterator[tuple[Cell, ...]]:
    end, commit, closing = record.end, record.commit, record.closing
    counts = (end.n_drafted, end.n_tested, end.n_accepted, end.n_emitted) if end is not None else (None,) * 4
    yield (
        record.q,
        record.r,
        record.start.t,
        end.t - record.start.t if end is not None else None,
        record.n_before,
        *counts,
        end.n_draft_calls if end is not None else None,
        end.walk_end if end is not None else None,
        record.closing_mark if closing is not None or commit is not None else None,
        running("".join(commit.texts)) if commit is not None else None,
        _json(end.stage_ns) if end is not None else None,
        _json(record.knobs),
    )


def _json(value: Any) -> str:
    return json.dumps(dict(value), ensure_ascii=True, sort_keys=True)


def _nodes(record: RoundRecord) -> Iterator[tuple[Cell, ...]]:
    tree = RoundTree(record)
    for number, node in sorted(tree.nodes.items()):
        verdict = record.verdicts.get(number)
        yield (
            record.q,
            record.r,
            number,
            node.parent,
            tree.depth.get(number),
            node.pos,
            node.token,
            _text(node),
            prob(node.logq),
            prob(node.log_conf),
            tree.p(number),
            (verdict.status if verdict is not None else None) if node.kept else "pruned",
            verdict.why if verdict is not None else None,
            verdict.rank_p if verdict is not None else None,
            node.mode,
            node.branch,
        )


def _tests(record: RoundRecord) -> Iterator[tuple[Cell, ...]]:
    tree = RoundTree(record)
    for verdict in tree.tests:
        node = record.node(verdict.node)
        low, high = verdict.interval if verdict.interval is not None else (None, None)
        yield (
            record.q,
            record.r,
            verdict.order,
            verdict.node,
            _text(node) if node is not None else None,
            verdict.kind,
            verdict.u,
            verdict.thr,
            low,
            high,
            prob(node.logq) if node is not None else None,
            tree.p(verdict.node),
            tree.left(verdict.node),
            verdict.status,
            verdict.why,
        )


def _text(node: Node) -> str:
    return shown(node.text, node.bytes)


def _columns(*told: tuple[str, Held, str]) -> tuple[TableColumn, ...]:
    return (*_PLACE, *(TableColumn(*each) for each in told))


ROUNDS = DataTable(
    "rounds",
    _columns(
        ("t_ns", "int", "when it began, nanoseconds of the trace's clock"),
        ("dur_ns", "int", "nanoseconds from its begin to its end"),
        ("n_before", "int", "tokens of text before it"),
        ("n_drafted", "int", "tokens drafted and sent to the target"),
        ("n_tested", "int", "of them tested"),
        ("n_accepted", "int", "of them accepted"),
        ("n_emitted", "int", "tokens it wrote"),
        ("n_draft_calls", "int", "calls of the drafter"),
        ("walk_end", "text", "how the walk over the draft ended"),
        ("closing", "text", "what the token that closed it is: recovered, bonus, plain"),
        ("text", "text", "what it wrote"),
        ("stage_ns", "text", "nanoseconds by stage, JSON"),
        ("knobs", "text", "the knobs in force, JSON"),
    ),
    _rounds,
)
NODES = DataTable(
    "nodes",
    _columns(
        ("node", "int", "its id in the query"),
        ("parent", "int", "id of the node before it, -1 the text"),
        ("depth", "int", "levels below the text"),
        ("pos", "int", "its position in the text, were it kept"),
        ("token", "int", "its id in the vocabulary"),
        ("text", "text", "how it reads"),
        ("q", "float", "what the draft's law gives it"),
        ("conf", "float", "the draft's own odds, before sampling"),
        ("p", "float", "what the target's law gives it"),
        ("status", "text", "accepted, rejected, untested, pruned"),
        ("why", "text", "the reason, a word of the trace"),
        ("rank_p", "int", "its rank in the target's row, 1 the most likely"),
        ("mode", "text", "how it was chosen: argmax, sample, …"),
        ("branch", "int", "the branch it belongs to"),
    ),
    _nodes,
)
TESTS = DataTable(
    "tests",
    _columns(
        ("order", "int", "its turn in the round"),
        ("node", "int", "the node that is tested"),
        ("text", "text", "how it reads"),
        ("kind", "text", "test: kept if u < thr; draw: kept if it is what is drawn"),
        ("u", "float", "the uniform draw, 0 to 1"),
        ("thr", "float", "the threshold"),
        ("lo", "float", "of a draw, where its stretch begins"),
        ("hi", "float", "and ends"),
        ("q", "float", "what the draft's law gives it"),
        ("p", "float", "what the target's law gives it"),
        ("left", "float", "its share of what failed siblings left of the target's row"),
        ("status", "text", "accepted or rejected"),
        ("why", "text", "the reason, a word of the trace"),
    ),
    _tests,
)
TABLES: Sequence[DataTable] = (ROUNDS, NODES, TESTS)
