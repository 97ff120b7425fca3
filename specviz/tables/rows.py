"""The columns of every table and their rows, from the records of a run. What is not recorded is None.

Texts are those of the screens (`specviz.text`): a token can hold anything, and a table is opened in programs that
believe what they read. The ids beside them say exactly which token it was.
"""

import json
from collections import Counter
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
    """`of`: all rows of a run, a tuple for each, as long as there are columns. `narrow`: the columns that say what was
    decided, where every byte of a round counts; none: a narrow export leaves the table out.
    """

    name: str
    columns: tuple[TableColumn, ...]
    of: Callable[[Run], Iterator[tuple[Cell, ...]]]
    narrow: tuple[str, ...] = ()


def _by_round(rows: Callable[[RoundRecord], Iterator[tuple[Cell, ...]]]) -> Callable[[Run], Iterator[tuple[Cell, ...]]]:
    def of(run: Run) -> Iterator[tuple[Cell, ...]]:
        for record in run.rounds:
            yield from rows(record)

    return of


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
            tree.depth.get(verdict.node),
            node.pos if node is not None else None,
            node.token if node is not None else None,
        )


def _text(node: Node) -> str:
    return shown(node.text, node.bytes)


def _columns(*columns: tuple[str, Held, str]) -> tuple[TableColumn, ...]:
    return (*_PLACE, *(TableColumn(*column) for column in columns))


ROUNDS = DataTable(
    "rounds",
    _columns(
        ("t_ns", "int", "when it began, nanoseconds of the trace's clock"),
        ("dur_ns", "int", "nanoseconds from its begin to its end"),
        ("n_before", "int", "tokens of text before it"),
        ("n_drafted", "int", "tokens drafted in it and sent to the target"),
        ("n_tested", "int", "tokens tested in it; where drafting runs ahead, of the round's before"),
        ("n_accepted", "int", "of them accepted"),
        ("n_emitted", "int", "tokens it wrote"),
        ("n_draft_calls", "int", "calls of the drafter"),
        ("walk_end", "text", "how the walk over the draft ended"),
        ("closing", "text", "what the token that closed it is: recovered, bonus, plain"),
        ("text", "text", "what it wrote"),
        ("stage_ns", "text", "nanoseconds by stage, JSON"),
        ("knobs", "text", "the knobs in force, JSON"),
    ),
    _by_round(_rounds),
    ("query", "round", "n_before", "n_drafted", "n_tested", "n_accepted", "n_emitted", "walk_end", "closing"),
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
        ("conf", "float", "the draft's own probability, before sampling"),
        ("p", "float", "what the target's law gives it"),
        ("status", "text", "accepted, rejected, untested, pruned"),
        ("why", "text", "the reason, a word of the trace"),
        ("rank_p", "int", "its rank in the target's row, 1 the most likely"),
        ("mode", "text", "how it was chosen: argmax, sample, …"),
        ("branch", "int", "the branch it belongs to"),
    ),
    _by_round(_nodes),
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
        ("depth", "int", "levels below the text: 1 is the first drafted position"),
        ("pos", "int", "its position in the text, were it kept"),
        ("token", "int", "its id in the vocabulary"),
    ),
    _by_round(_tests),
    ("query", "round", "order", "depth", "token", "q", "p", "status"),
)


def _runs(run: Run) -> Iterator[tuple[Cell, ...]]:
    header = run.header
    if header is None:
        return
    target, draft = header.models.target, header.models.draft
    yield (
        header.method,
        header.verifier,
        header.lossless,
        target.name if target is not None else None,
        draft.name if draft is not None else None,
        header.level,
        header.wall,
        run.end.reason if run.end is not None else None,
        len(run.queries),
        len(run.rounds),
        _json(header.knobs),
    )


def _requests(run: Run) -> Iterator[tuple[Cell, ...]]:
    sums: dict[int, Counter[str]] = {}
    for record in run.rounds:
        end, request = record.end, sums.setdefault(record.q, Counter())
        if record.complete and end is not None:
            request.update(
                n_rounds=1,
                n_drafted=end.n_drafted,
                n_tested=end.n_tested,
                n_accepted=end.n_accepted,
                n_emitted=end.n_emitted,
                dur_ns=end.t - record.start.t,
            )
    for query in run.queries:
        prefill, request = query.prefill, sums.get(query.number, Counter())
        yield (
            query.number,
            prefill.domain if prefill is not None else None,
            prefill.n_prompt if prefill is not None else None,
            *(request[name] for name in _SUMS),
            running(prefill.text) if prefill is not None else None,
        )


_SUMS = ("n_rounds", "n_drafted", "n_tested", "n_accepted", "n_emitted", "dur_ns")
RUNS = DataTable(
    "runs",
    (
        TableColumn("method", "text", "what drafts"),
        TableColumn("verifier", "text", "the rule that decides"),
        TableColumn("lossless", "bool", "whether it keeps the target's law"),
        TableColumn("target", "text", "name of the target model"),
        TableColumn("draft", "text", "name of the draft model"),
        TableColumn("level", "text", "how much is recorded: none, summary, full"),
        TableColumn("wall", "text", "when it began, by the clock on the wall"),
        TableColumn("ended", "text", "why it ended; empty where the trace breaks off"),
        TableColumn("n_requests", "int", "prompts"),
        TableColumn("n_rounds", "int", "rounds, unfinished ones too"),
        TableColumn("knobs", "text", "the knobs at its begin, JSON"),
    ),
    _runs,
    ("method", "verifier", "lossless", "target", "draft", "level", "wall", "ended", "n_requests", "n_rounds", "knobs"),
)
REQUESTS = DataTable(
    "requests",
    (
        TableColumn("query", "int", "number of the prompt, from 0"),
        TableColumn("domain", "text", "what kind of prompt, where the run says so"),
        TableColumn("n_prompt", "int", "tokens of the prompt"),
        TableColumn("n_rounds", "int", "rounds that came to their end"),
        TableColumn("n_drafted", "int", "tokens drafted in them and sent to the target"),
        TableColumn("n_tested", "int", "of them tested"),
        TableColumn("n_accepted", "int", "of them accepted"),
        TableColumn("n_emitted", "int", "tokens they wrote"),
        TableColumn("dur_ns", "int", "nanoseconds they took"),
        TableColumn("prompt", "text", "the prompt"),
    ),
    _requests,
    ("query", "domain", "n_prompt", *_SUMS),
)
TABLES: Sequence[DataTable] = (ROUNDS, NODES, TESTS)
WHOLE: Sequence[DataTable] = (RUNS, REQUESTS, *TABLES)  # with those that say which run and which prompt a round is of
