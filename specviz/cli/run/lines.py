"""One plain line for each round of `specviz run --rounds`, and with `--verbose` why every token was kept or not.

The lines of a `specviz run --stream`: one a query as it ends, one a domain when all is over.

They are what the command was asked for, so they go to standard output; with `--json` they are narration.
"""

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

from specviz import events, numerals
from specviz.cli.run.result import QueryRow, StreamResult, seconds
from specviz.events import Adapt, AdaptArm, Event, Fork, Match, Rollback, Signal
from specviz.metrics import Estimate
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import ascii_only, clip, pad, shown, width
from specviz.view.panels import remarks
from specviz.view.why.closing_text import closing_words
from specviz.view.why.node_context import case
from specviz.view.why.values_text import node_words
from specviz.view.words import numbers, palette
from specviz.view.words.palette import CLOSING

_TOKEN_CELLS, _TOKENS_CELLS = 16, 56
_LOST, _LEVELS = 3, 4  # rejected siblings in a row, and levels of a tree, that are spelled out
_MARKS: dict[str, Mark] = {
    "accepted": "accepted",
    "branch": "accepted",
    "rejected": "rejected",
    "untested": "untested",
    "pruned": "pruned",
    "recovered": "recovered",
    "bonus": "bonus",
}


class RoundLines:
    """One plain line for each round: the drafted tokens with their marks, the closing token, counts and time.

        r3    ✓▁return ✓▁n ✗▁- ·▁1 → ↻▁+      2 of 4 kept, 3 new, 14 ms

    A chain shows every token; of a tree only the tested ones, since a line cannot show what hangs below a lost branch.
    A method that works ahead begins with what this round was, a draft stage (D) or a branch that went on (B), and its
    signal; branch tokens stand in brackets, tokens that only a later round can judge are counted.
    Of a tree grown by calls the line ends with them: how many, at how many nodes, what was offered, merged and sent.
    `verbose` adds a sentence for every tested token and for the closing one.
    """

    def __init__(self, run: Run, out: TextIO | None = None, verbose: bool = False) -> None:
        self._run = run  # folded by whoever stands before us
        self._out = out or sys.stdout
        self._verbose = verbose
        self._ascii = not _can_print(self._out, "✓✗↻★◦·→▁")

    def __call__(self, event: Event) -> None:
        """Write the round when it has ended."""
        record = self._run.rounds.last
        if isinstance(event, events.RoundEnd) and record is not None:
            self.tell(record)

    def tell(self, record: RoundRecord) -> None:
        """Write a round that has ended."""
        end = record.first(events.RoundEnd)
        if end is None:
            return
        self._write(self._line(record, end))
        for sentence in self._sentences(record) if self._verbose else ():
            self._write(f"      {sentence}")

    def _line(self, record: RoundRecord, end: events.RoundEnd) -> str:
        tokens = " ".join(part for part in (self._drafted(record), self._closing(record)) if part)
        counts = f"{self._kept(record, end)}, {end.n_emitted} new"
        spent = numbers.duration(sum(end.stage_ns.values()))
        measures = ", ".join([counts, spent, *_ahead(record), *_grown(record)])
        return f"r{end.r:<4} {tokens}{' ' * max(0, _TOKENS_CELLS - width(tokens))}  {measures}"

    def _kept(self, record: RoundRecord, end: events.RoundEnd) -> str:
        """How many were kept, of those drafted; where rounds judge what others drafted, of those judged."""
        if record.start.n_pending or record.every(Fork):
            of = f" of {len(record.verdicts)} judged" if record.verdicts else ""
            return f"{end.n_accepted}{of} kept, {end.n_drafted} drafted"
        return f"{end.n_accepted} of {end.n_drafted} kept"

    def _drafted(self, record: RoundRecord) -> str:
        round_tree = RoundTree(record)
        if self._run.level == "none":
            return self._committed(record)
        if record.every(Fork):
            return self._branching(record, round_tree)
        judged = [i for i in round_tree.kept_nodes if i in record.verdicts]
        is_chain = all(sum(child in judged for child in children) <= 1 for children in round_tree.children.values())
        listed = judged if is_chain else [v.node for v in round_tree.tests]
        tokens = [self._token(_MARKS[record.verdicts[i].status], record.query.nodes[i]) for i in listed]
        if not is_chain:
            tokens = self._shortened(tokens, [record.verdicts[i].status == "rejected" for i in listed])
        hidden, window = len(judged) - len(listed), len(round_tree.kept_nodes) - len(judged)
        counts = [f"(+{hidden} never tested)"] * bool(hidden) + [f"(+{window} not judged)"] * bool(window)
        return " ".join([*tokens, *counts])

    def _shortened(self, tokens: list[str], lost: list[bool]) -> list[str]:
        """Long rows of rejected siblings as their first few and a count."""
        out: list[str] = []
        for is_lost, group in groupby(zip(tokens, lost, strict=True), key=lambda pair: pair[1]):
            words = [token for token, _ in group]
            if is_lost and len(words) > _LOST + 1:
                words = [*words[:_LOST], f"{palette.glyph('rejected', self._ascii)}+{len(words) - _LOST}"]
            out += words
        return out

    def _branching(self, record: RoundRecord, tree: RoundTree) -> str:
        """What was pending or drafted first, the branch tokens behind it, and how many nobody could judge yet."""
        judged = {i: node for i, node in tree.nodes.items() if i in record.verdicts}
        branches = {token.node for fork in record.every(Fork) for token in fork.branches}
        line = [self._judged(record, i) for i in judged if i not in branches]
        fan = [self._judged(record, i) for i in judged if i in branches]
        n_ahead = sum(i not in judged and node.kept for i, node in record.nodes.items())
        signals = [f"s{signal.s}" for signal in record.every(Signal)]
        mode = "B" if record.start.n_pending else "D"
        return " ".join(
            [mode, *signals, *line, *([f"[{' '.join(fan)}]"] if fan else []), *([f"+{n_ahead} ahead"] * bool(n_ahead))]
        )

    def _judged(self, record: RoundRecord, node: int) -> str:
        return self._token(_MARKS[record.verdicts[node].status], record.query.nodes[node])

    def _committed(self, record: RoundRecord) -> str:
        """Level `none` has no nodes: the kept tokens are all there is to show."""
        commit = record.commit
        pairs = zip(commit.kinds, commit.texts, strict=True) if commit else ()
        last = record.closing_mark
        marks = ((last if kind == "bonus" and last else _MARKS[kind], text) for kind, text in pairs)
        return " ".join(self._piece(mark, shown(text)) for mark, text in marks)

    def _closing(self, record: RoundRecord) -> str:
        last = record.closing
        if last is None or last.kind == "none" or last.token is None:
            return ""
        mark = record.closing_mark or _MARKS[last.kind]
        return f"{'->' if self._ascii else '→'} {self._piece(mark, self._run.word(last.token))}"

    def _token(self, mark: Mark, node: events.Node) -> str:
        return self._piece(mark, clip(shown(node.text, node.bytes), _TOKEN_CELLS))

    def _piece(self, mark: Mark, token: str) -> str:
        return palette.glyph(mark, self._ascii) + (ascii_only(token) if self._ascii else token)

    def _sentences(self, record: RoundRecord) -> Iterator[str]:
        """What `specviz.view` says of every tested node, in the order of the tests, and of the closing token."""
        round_tree = RoundTree(record)
        for verdict in round_tree.tests:
            yield self._readable(node_words(case(self._run, round_tree, verdict.node)))
        if record.closing is not None:
            sentence = remarks(self._run, round_tree, CLOSING).words
            yield self._readable(closing_words(self._run, round_tree, sentence))

    def _readable(self, sentence: str) -> str:
        return ascii_only(sentence) if self._ascii else sentence

    def _write(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def _ahead(record: RoundRecord) -> Iterator[str]:
    """How a fork came out, and what was rolled back."""
    for fork, match in zip(record.every(Fork), [*record.every(Match), None], strict=False):
        hit = "" if match is None else " miss" if match.branch is None else f" hit {match.branch}"
        yield f"fork {fork.k}{hit}"
    for rollback in record.every(Rollback):
        yield f"rollback ({rollback.cause})"


def _grown(record: RoundRecord) -> Iterator[str]:
    """How the tree was drafted: drafter calls with their start nodes; tokens proposed, merged and verified."""
    if record.tree is None or not record.blocks:
        return
    at = [sum(block.block == level for block in record.blocks) for level in {b.block: 0 for b in record.blocks}]
    where = "+".join(map(str, at)) if len(at) <= _LEVELS else str(sum(at))
    calls = f"{len(at)} {'call' if len(at) == 1 else 'calls'}"
    yield f"{calls} at {where} {'node' if at == [1] else 'nodes'}"
    merged = f", {record.tree.n_merged} merged" if record.tree.n_merged else ""
    yield f"{record.tree.n_raw} offered{merged}, {record.tree.n_kept} sent"


def _can_print(out: TextIO, characters: str) -> bool:
    """Whether the encoding of a stream has these characters; a stream without one takes anything."""
    try:
        characters.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


_PLAIN = (("q", 3), ("domain", 12), ("tokens", 6), ("rounds", 6), ("tok/round", 9), ("kept", 10), ("tok/s", 12))
_LEARNING = (
    ("q", 3),
    ("domain", 10),
    ("tok/round", 9),
    ("signal", 6),
    ("action", 6),
    ("why", 17),
    ("gain", 11),
    ("cost", 6),
    ("explored", 15),
    ("measured", 9),
    ("weights", 8),
)
_DOMAINS = (
    ("domain", 14),
    ("queries", 7),
    ("tokens", 6),
    ("tok/round", 11),
    ("kept", 10),
    ("tok/s", 12),
    ("actions", 24),
)
Columns = Sequence[tuple[str, int]]


class StreamLines:
    """A sink behind a `StreamResult`; `finish` adds the domains. `verbose`: also what was thought of every action."""

    def __init__(self, result: StreamResult, out: TextIO, verbose: bool = False) -> None:
        self._result, self._out, self._verbose = result, out, verbose
        self._told = 0
        self._columns: Columns | None = None

    def __call__(self, event: Event) -> None:
        """Tell a query once all is known of it."""
        waiting = self._result.rows[max(0, self._told - self._result.dropped) :]
        if not waiting:
            return
        over = isinstance(event, Adapt | events.End) or (isinstance(event, events.Prefill) and len(waiting) > 1)
        if over or (waiting[0].ended and isinstance(event, events.RoundEnd) and not self._result.learns):
            self._tell(waiting[0])

    def _tell(self, row: QueryRow) -> None:
        self._told += 1
        if self._columns is None:
            self._columns = _LEARNING if self._result.learns else _PLAIN
            self._line(self._columns, [name for name, _ in self._columns])
        self._line(self._columns, learning(row) if self._result.learns else plain(row))
        for arm in row.adapt.arms if self._verbose and row.adapt is not None else ():
            self._say(f"      {thought(arm)}")

    def _line(self, columns: Columns, cells: Sequence[str]) -> None:
        self._say("  ".join(_cell(text, size) for text, (_, size) in zip(cells, columns, strict=True)).rstrip())

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def finish(self) -> None:
        rows = self._result.domain_lines()
        if not rows:
            return
        self._say("")
        names = [name for name, _ in _DOMAINS]
        self._line(_DOMAINS, names if self._result.decided else [*names[:-1], ""])
        for row in rows:
            self._line(_DOMAINS, [shown(row[0]), *row[1:]])


def _cell(text: str, size: int) -> str:
    """The text in its column; one that is too long pushes the rest along, a domain is cut."""
    return pad(text, size) if width(text) <= size else text


def _domain(row: QueryRow, size: int) -> str:
    return clip(shown(row.domain), size)


def plain(row: QueryRow) -> list[str]:
    """A query without a bandit."""
    metrics = row.metrics
    return [
        str(row.q),
        _domain(row, 12),
        str(metrics.n_emitted),
        str(metrics.n_rounds),
        _value(metrics.mean_acceptance_length),
        _value(metrics.draft_acceptance_rate),
        _value(metrics.tokens_per_second),
    ]


def learning(row: QueryRow) -> list[str]:
    """A query and what was learnt from it."""
    adapt, length = row.adapt, _value(row.metrics.mean_acceptance_length)
    if adapt is None:
        return [str(row.q), _domain(row, 10), length, "", "", "not over", *[""] * 5]
    gain = "" if adapt.gain is None else f"{signed(adapt.gain)} ±{numerals.number(adapt.se)}"
    cost = adapt.update_s if adapt.update_s is not None else adapt.cost
    return [
        str(row.q),
        _domain(row, 10),
        length,
        numerals.number(adapt.s),
        adapt.action,
        why(adapt),
        gain,
        "" if cost is None else seconds(cost),
        f"{seconds(adapt.spent)}/{seconds(adapt.budget)}",
        "" if adapt.measured_gain is None else signed(adapt.measured_gain),
        weights(adapt),
    ]


def why(adapt: Adapt) -> str:
    """The reason, and of a skip what it was for."""
    if adapt.reset is not None:
        return f"{'guard: ' if adapt.reason == 'guard' else ''}to {adapt.reset}"
    if adapt.frozen:
        return "frozen"
    if adapt.reason != "skip":
        tried = next((arm.n for arm in adapt.arms if arm.action == adapt.action), 0)
        return f"{adapt.reason}, try {tried + 1}" if adapt.reason == "explore" else adapt.reason
    if not adapt.arms or adapt.n_rejections < 2:
        return "too little seen"
    return "no budget to try" if any(arm.ucb is None or arm.ucb > 0 for arm in adapt.arms) else "would not pay"


def weights(adapt: Adapt) -> str:
    """What the next query drafts with."""
    if adapt.reverted:
        return f"v{adapt.version_after} taken back"
    moved = adapt.version_after != adapt.version_before
    return f"v{adapt.version_before}→v{adapt.version_after}" if moved else f"v{adapt.version_after}"


def thought(arm: AdaptArm) -> str:
    """One learning action with the bandit's estimates of it."""
    most = "∞" if arm.ucb is None else seconds(arm.ucb)
    return (
        f"{arm.action}  gain {signed(arm.gain)} ±{numerals.number(arm.se)} tokens a round, saves {seconds(arm.save)}, "
        f"costs {seconds(arm.cost)}: {seconds(arm.lcb)} .. {most} · taken {arm.n} times"
    )


def signed(value: float) -> str:
    """`+.12`, `-.03`, `0`."""
    text = numerals.number(abs(value))
    return text if text == "0" else f"{'-' if value < 0 else '+'}{text}"


def _value(estimate: Estimate | None) -> str:
    return numerals.number(None if estimate is None else estimate.value)
