"""Steps of a round: which moments lie between its root and its commit, what is known at each, and the text so far.

Phases 2 and 4 have several steps (a tree level, a test); the others have one. A phase with nothing to show is left
out: no draft, no tests. An unfinished round has the steps its records allow.
"""

from dataclasses import dataclass

import msgspec

from specviz.events import Verify
from specviz.numerals import UNKNOWN
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark, RoundRecord, TextToken
from specviz.runlog.tree import RoundTree
from specviz.text import LONGEST, running, shown
from specviz.view.frame.frame import Cursor, Strip
from specviz.view.words.palette import CLOSING, ROOT, Phase


@dataclass(frozen=True, slots=True)
class RoundSteps:
    """All moments of one round, in order."""

    moments: tuple[tuple[Phase, int], ...]

    def place(self, cursor: Cursor) -> int:
        """Index of the cursor's moment, or of the last one before it."""
        at = (cursor.phase, cursor.step)
        earlier = [k for k, moment in enumerate(self.moments) if moment <= at]
        return earlier[-1] if earlier else 0

    def count(self, phase: Phase) -> int:
        return sum(1 for p, _ in self.moments if p == phase)

    def cursor(self, index: int, place: int) -> Cursor:
        """The cursor of a moment of round `index`."""
        return Cursor(index, *self.moments[max(0, min(place, len(self.moments) - 1))])


def steps(tree: RoundTree) -> RoundSteps:
    record = tree.record
    moments = [(Phase.ROOT, 0)]
    moments += [(Phase.DRAFT, level) for level in range(1, tree.n_levels + 1)]
    if record.verdicts:
        moments.append((Phase.VERIFY, 0))
    moments += [(Phase.ACCEPT, k) for k in range(1, len(tree.tests) + 1)]
    if record.closing is not None and record.closing.kind != "none":
        moments.append((Phase.CLOSE, 0))
    if record.commit is not None:
        moments.append((Phase.COMMIT, 0))
    return RoundSteps(tuple(moments))


@dataclass(frozen=True, slots=True)
class Moment:
    """What may be shown at a cursor: the verdicts up to it, and what has just happened."""

    phase: Phase
    n_levels: int
    verdicts: dict[int, Verify]  # decided so far
    testing: int | None  # the node whose test comes next
    fresh: frozenset[int]
    all_tested: bool
    has_p: bool  # the target pass is done

    def mark(self, tree: RoundTree, node: int) -> Mark:
        """The mark of a node now."""
        if node == ROOT:
            return "root"
        if node == CLOSING:
            return tree.record.closing_mark or "recovered"
        if not tree.nodes[node].kept:
            return "drafted" if self.phase == Phase.DRAFT else "pruned"
        if node in self.verdicts:
            return self.verdicts[node].status
        if node == self.testing:
            return "testing"
        return self._undecided(tree, node)

    def _undecided(self, tree: RoundTree, node: int) -> Mark:
        if self.all_tested:
            verdict = tree.record.verdicts.get(node)
            return verdict.status if verdict else "drafted" if tree.ahead(node) else "untested"
        if self.phase >= Phase.CLOSE and tree.nodes[node].filler:
            return "untested"  # guesses for a pool, beside the text: no round judges them
        lost = any(v.status == "rejected" for a in tree.ancestors(node) if (v := self.verdicts.get(a)))
        return "untested" if lost else "drafted"

    def visible(self, tree: RoundTree, node: int) -> bool:
        """Whether the node is on the canvas yet."""
        if node == CLOSING:
            return self.phase >= Phase.CLOSE
        return node == ROOT or tree.depth[node] <= self.n_levels


def moment(tree: RoundTree, cursor: Cursor) -> Moment:
    phase, step = cursor.phase, cursor.step
    tests = tree.tests
    n_shown = step if phase == Phase.ACCEPT else len(tests) if phase > Phase.ACCEPT else 0
    decided = {v.node: v for v in tests[:n_shown]}
    all_tested = phase > Phase.ACCEPT or (phase == Phase.ACCEPT and n_shown >= len(tests))
    if all_tested:
        decided = dict(tree.record.verdicts)
    testing = tests[n_shown].node if phase in (Phase.VERIFY, Phase.ACCEPT) and n_shown < len(tests) else None
    levels = 0 if phase == Phase.ROOT else step if phase == Phase.DRAFT else tree.n_levels
    return Moment(
        phase=phase,
        n_levels=levels,
        verdicts=decided,
        testing=testing,
        fresh=_fresh(tree, phase, step),
        all_tested=all_tested and bool(tree.record.verdicts),
        has_p=phase >= Phase.VERIFY,
    )


def _fresh(tree: RoundTree, phase: Phase, step: int) -> frozenset[int]:
    if phase == Phase.ROOT:
        return frozenset({ROOT})
    if phase == Phase.DRAFT:
        return frozenset(i for i, depth in tree.depth.items() if depth == step)
    if phase == Phase.ACCEPT:
        return frozenset({tree.tests[step - 1].node}) if 0 < step <= len(tree.tests) else frozenset()
    if phase == Phase.CLOSE:
        return frozenset({CLOSING})
    return frozenset((*tree.accepted, CLOSING)) if phase == Phase.COMMIT else frozenset()


def strip(run: Run, tree: RoundTree, now: Moment) -> Strip:
    """The text of this round's query up to this moment."""
    record = tree.record
    tokens = record.query.tokens
    before = tokens[: record.n_before]
    commit = record.commit
    if now.phase == Phase.COMMIT and commit is not None:
        new = [
            msgspec.structs.replace(token, fresh=True)
            for token in tokens[record.n_before : record.n_before + len(commit.tokens)]
        ]
    else:
        new = list(_provisional(run, tree, now))
    prefill = record.query.prefill
    n_prompt = prefill.n_prompt if prefill else 0
    n_new = record.start.n - n_prompt + (len(new) if now.phase == Phase.COMMIT else 0)
    return Strip(tuple(before + new), n_prompt, f"{n_new} tok")


def _provisional(run: Run, tree: RoundTree, now: Moment) -> list[TextToken]:
    """The path under consideration: the draft's first guess, then what the tests have left of it."""
    path = _spine(tree, now) if now.phase <= Phase.VERIFY else _tested(tree, now)
    start = tree.record.start.n
    return [text_token(run, tree, i, now.mark(tree, i), start + k, breaks=k == 0) for k, i in enumerate(path)]


def _spine(tree: RoundTree, now: Moment) -> list[int]:
    path: list[int] = []
    node = ROOT
    while True:
        children = [i for i in tree.children.get(node, ()) if tree.nodes[i].kept and now.visible(tree, i)]
        if not children:
            return path
        node = children[0]
        path.append(node)


def _tested(tree: RoundTree, now: Moment) -> list[int]:
    kept = [i for i in tree.accepted if i in now.verdicts]
    if now.testing is not None and not kept:  # the prefix on trial: all of it, for a backward scan begins at its end
        return list(tree.path(now.testing))
    if now.testing is not None:
        return [*(i for i in kept if tree.depth[i] < tree.depth[now.testing]), now.testing]
    closing = tree.record.closing
    closes = now.visible(tree, CLOSING) and closing is not None and closing.token is not None
    return [*kept, CLOSING] if closes else kept


def text_token(run: Run, tree: RoundTree, node: int, mark: Mark, pos: int = 0, breaks: bool = False) -> TextToken:
    """A node of the round, or its closing token, as text that is not committed."""
    born = tree.nodes.get(node)
    closing = tree.record.closing
    token = born.token if born else (closing.token or 0) if closing else 0
    text, raw = (born.text, born.bytes) if born else run.words.get(token, ("", None))
    text_running, r = running(text, raw, LONGEST), tree.record.r
    return TextToken(shown(text, raw), text_running, token, mark, r, pos, node, provisional=True, breaks=breaks)


_TAIL = 8  # characters of a prompt that stand for its unnamed last token


def node_text(run: Run, tree: RoundTree, node: int) -> str:
    """The shown token of a node, the root or the closing token."""
    if node == ROOT:
        return root_text(run, tree.record)
    if node == CLOSING:
        closing = tree.record.closing
        return run.word(closing.token) if closing and closing.token is not None else UNKNOWN
    born = tree.nodes[node]
    return shown(born.text, born.bytes)


def root_text(run: Run, record: RoundRecord) -> str:
    """The root's token; the tail of the prompt where the trace never spelled its last token."""
    prefill = record.query.prefill
    if record.start.root not in run.words and prefill and prefill.text and record.start.n == prefill.n_prompt:
        tail = running(prefill.text[-_TAIL:]).replace(" ", shown(" "))
        return tail if len(prefill.text) <= _TAIL else "…" + tail
    return run.word(record.start.root)
