"""`what_if(run, decision, change)`: one round again, ready to be painted: marks by node, and words.

Nothing is said of the text behind the place where it would part: this is the decision of one round, on the text before
it as it was recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from specviz.numerals import number, plural
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.view.words.numbers import apart, fine, knob
from specviz.view.words.palette import glyph
from specviz.whatif import Change, Decision, RoundAgain, TestAgain


@dataclass(frozen=True, slots=True)
class WhatIfNode:
    """One judged node. `now` None: its fate is not told. `words`: the test that would be made, "" for none."""

    node: int
    token: str  # escaped
    was: Mark
    now: Mark | None
    glyphs: tuple[str, str]  # of both; `?` where it is unknown
    words: str = ""

    @property
    def changed(self) -> bool:
        return self.now is not None and self.now != self.was


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One round. `marks`: by node, for a painter of trees; nodes that a cut leaves out are `pruned`.

    `decided`: whether the record suffices; then it is exact. `kept`: drafted tokens kept. `closing`: the token behind
    them, None where it is unknown. `parting`: position at which the text would differ. `law`: how far the distribution
    of a token is from the target's, for a lossy rule evaluated from the record.
    """

    q: int
    r: int
    index: int
    change: str
    sentence: str
    decided: bool
    nodes: tuple[WhatIfNode, ...]
    marks: Mapping[int, Mark]
    kept_was: int
    kept: int | None
    closing: str | None
    parting: int | None
    note: str = ""
    law: str = ""


def changed_words(change: Change) -> str:
    """The change as a sentence begins: `under tokenwise, with gamma 2 and u of n14 = .2`."""
    parts = [f"{name} {knob(value)}" for name, value in change.knobs.items()]
    parts += [f"u of n{node} = {fine(u)}" for node, u in change.uniforms.items()]
    parts += [f"the draws of seed {change.seed}"] if change.seed is not None else []
    with_ = f"with {', '.join(parts[:-1])}{' and ' if len(parts) > 1 else ''}{parts[-1]}" if parts else ""
    return ", ".join(filter(None, (f"under {change.verifier}" if change.verifier else "", with_))) or "as recorded"


def what_if(run: Run, decision: Decision, change: Change, ascii: bool = False) -> WhatIf:
    """The round as it would be, beside what it was."""
    sure: dict[int, Mark] = {}
    if decision.now is not None:
        sure |= dict.fromkeys(decision.gone, "pruned")
        sure |= decision.now.marks
    nodes = [_node(run, decision, node, was, sure.get(node), ascii) for node, was in decision.was.marks.items()]
    closing = decision.now.closing if decision.now is not None else None
    parting = decision.parting
    return WhatIf(
        q=decision.q,
        r=decision.r,
        index=decision.index,
        change=changed_words(change),
        sentence=_sentence(run, decision, changed_words(change)),
        decided=decision.now is not None,
        nodes=tuple(nodes),
        marks={node.node: node.now or "drafted" for node in nodes},
        kept_was=len(decision.was.accepted),
        kept=decision.kept,
        closing=None if closing is None else run.name(closing),
        parting=parting.pos if parting is not None else None,
        note=_note(decision),
        law="" if decision.now is None else _moved(decision.now),
    )


def _node(run: Run, decision: Decision, node: int, was: Mark, now: Mark | None, ascii: bool) -> WhatIfNode:
    shown = run.name(_token(run, decision, node))
    after = "?" if now is None else glyph(now, ascii)
    return WhatIfNode(node, shown, was, now, (glyph(was, ascii), after), _reason(decision, node))


def _token(run: Run, decision: Decision, node: int) -> int:
    record = run.rounds[decision.index].node(node)
    assert record is not None
    return record.token


def _test(decision: Decision, node: int) -> TestAgain | None:
    return next((test for test in decision.now.tests if test.node == node), None) if decision.now is not None else None


def _reason(decision: Decision, node: int) -> str:
    """What decides about a node: its test, or what a rule that is read and not run compares; "" for nothing."""
    test = _test(decision, node)
    if test is not None:
        return _compared(test)
    other = decision.now.compared.get(node) if decision.now is not None else None
    if other is None:
        return ""
    value, bound = (f"{other.value:g}", f"{other.bound:g}") if other.what == "rank" else apart(other.value, other.bound)
    return f"{other.what} {value} {other.sign} {bound}"


def _compared(test: TestAgain) -> str:
    """`u .71 ≥ .29`, `u .12 < .29`."""
    sign = "<" if test.passed else "≥"
    if test.threshold is None:
        return f"u {fine(test.u)} {sign} any threshold that fits the record"
    u, threshold = apart(test.u, min(1.0, test.threshold))
    return f"u {u} {sign} {threshold}"


def _sentence(run: Run, decision: Decision, change: str) -> str:
    if decision.now is None:
        return f"{change}: cannot be told: {decision.why}"
    parts = [
        _difference(run, decision, decision.now),
        _carried(decision.now),
        _parting(decision, decision.now),
        _moved(decision.now),
    ]
    return f"{change} {'; '.join(filter(None, parts))}"


def _difference(run: Run, decision: Decision, now: RoundAgain) -> str:
    """The first token on the way down that meets another fate, and why; then how many are kept."""
    was = decision.was
    if not was.marks:
        return "nothing is another: this round had no draft"
    if now.accepted == was.accepted:
        same = "drafted token" if len(was.accepted) == 1 else plural(len(was.accepted), "drafted token")
        return (
            f"the same {same} would have been kept" if was.accepted else "no drafted token would have been kept either"
        )
    pairs = zip(_path(now, len(was.accepted)), _path(was, len(now.accepted)), strict=True)
    ours, theirs = next((a, b) for a, b in pairs if a != b)
    count = f"{len(now.accepted)} kept instead of {len(was.accepted)}"
    return f"{_fate(run, decision, now, ours, theirs)} ({count})"


def _path(way: RoundAgain, at_least: int) -> list[int | None]:
    return [*way.accepted, *[None] * max(0, at_least - len(way.accepted))]


def _fate(run: Run, decision: Decision, now: RoundAgain, ours: int | None, theirs: int | None) -> str:
    """Of the node that is kept now, or that no longer is."""
    node = ours if ours is not None else theirs
    assert node is not None
    name = f"n{node} {run.name(_token(run, decision, node))}"
    if ours is None:
        if node in decision.gone:
            return f"{name} would not have been drafted"
        return f"{name} would have been {_lost(decision, now, node)}"
    test = _test(decision, node)
    if now.compared:
        return f"{name} would have been kept: {_reason(decision, node)}"
    if test is None or not test.passed:
        longer = next((t for t in now.tests if t.passed and t.node in now.accepted), None)
        return f"{name} would have been kept" + (f" with n{longer.node}: {_compared(longer)}" if longer else "")
    return f"{name} would have been kept: {_compared(test)}"


def _lost(decision: Decision, now: RoundAgain, node: int) -> str:
    """How a kept node is lost: by its own test, or because the target draws another token there."""
    test = _test(decision, node)
    if (test is not None and not test.passed) or node in now.compared:
        return f"rejected: {_reason(decision, node)}"
    if now.marks[node] == "rejected":
        return "rejected: the target draws another token there"
    return "passed over"


def _parting(decision: Decision, now: RoundAgain) -> str:
    parting = decision.parting
    assert parting is not None
    if parting.pos is None:
        return "the text would go on as it did" if now.accepted == decision.was.accepted else "the text is the same"
    if not parting.sure:
        return f"which token closes the round, at position {parting.pos}, is not on record"
    return f"from position {parting.pos} on the text would differ"


def _moved(now: RoundAgain) -> str:
    """What the tokens cost of a rule that is read and not run."""
    if now.unmoved:
        return f"by how much its law is off cannot be told: {now.unmoved}"
    if now.moved is None or not now.tokens:
        return ""
    if not now.moved:
        return "no token's law is off the target's here"
    return f"a token's law is {number(now.moved / len(now.tokens))} off the target's"


def _carried(now: RoundAgain) -> str:
    n = now.carries
    more = "carried round, with a target call of its own" if n == 1 else "carried rounds, each with a target call"
    return f"then {n} {more}" if n else ""


def _note(decision: Decision) -> str:
    """What must stand beside the answer."""
    if decision.now is None:
        return ""
    return "decision only: on the text before this round as recorded; nothing is said of what comes behind"
