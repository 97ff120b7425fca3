"""Questions about a test that looks at whole prefixes, the longest first."""

from collections.abc import Iterator, Sequence

from specviz.numerals import number, plural
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import FAR, AskScene, Idea, SliderMark
from specviz.view.lessons.parts import LessonAnswer, LessonBoard, LessonQuestion, SliderStop
from specviz.view.words.numbers import fine
from specviz.view.words.palette import Phase
from specviz.whatif import Change, RoundAgain, decide

_STOPS = 20
_LEAST = 1e-9  # a weight that grows by less did so by rounding


def _again(scene: AskScene, change: Change) -> RoundAgain:
    now = decide(scene.run, scene.record, change)
    if now.now is None:
        raise scene.refuse(f"it cannot be told: {now.why}")
    return now.now


def _chain(scene: AskScene) -> list[int]:
    return sorted(scene.record.verdicts, key=scene.family.depth.__getitem__)


def other_rule(scene: AskScene) -> LessonQuestion:
    """How many the token by token rule would have kept of the same draft with the same numbers."""
    rule = str(scene.fields["rule"])
    now, was = _again(scene, Change(verifier=rule)), len(scene.family.accepted)
    kept = len(now.accepted)
    lost = next((test for test in now.tests if not test.passed), None)
    if lost is None or lost.threshold is None:
        raise scene.refuse(f"token by token nothing fails in r{scene.record.r}")
    why = f"the test of {scene.word(lost.node)} fails, u {fine(lost.u)} against p/q {fine(min(1.0, lost.threshold))}"
    n = len(_chain(scene))
    ideas: list[Idea] = [
        (kept + 1, kept + 1, f"That counts {scene.word(lost.node)} as kept: {why}."),
        (was, was, "That is what the whole-prefix test keeps. Token by token one failure ends the draft."),
        (n, FAR, f"That would be all of the draft: {why}."),
        (0, kept - 1, "Too few: go from left to right, and stop at the first u that is not below its p/q."),
    ]
    return scene.number(
        "The same draft and the same u, tested token by token from the left: how many are kept?",
        kept,
        0,
        ideas,
        otherwise=f"Go from left to right: {why}.",
        shown=str(kept),
        reason=f"{why[0].upper()}{why[1:]}.",
        unit="tokens",
        value="p/q",
        before=scene.moment(Phase.VERIFY),  # and no `after`: what the whole-prefix test keeps may be asked next
    )


def deciding(scene: AskScene) -> LessonQuestion:
    """Which place of the scan decided."""
    chain, tests = _chain(scene), scene.record.verdicts
    passed = [node for node in chain if (v := tests[node]).u is not None and v.thr is not None and v.u < v.thr]
    if not passed:
        raise scene.refuse(f"no test passes in r{scene.record.r}")
    right = max(passed, key=scene.family.depth.__getitem__)
    reason = f"u {fine(scene.u(right))} is below {fine(tests[right].thr)}. All before it is kept with it, untested."
    answers = [LessonAnswer(right, right, reason, True)]
    for node in chain:
        if node == right:
            continue
        if scene.family.depth[node] > scene.family.depth[right]:
            numbers = f"u {fine(scene.u(node))}, needed below {fine(tests[node].thr)}"
            words = f"The test of {scene.word(node)} comes earlier but fails: {numbers}."
        else:
            words = f"{scene.word(node)} stands further left: the scan begins at the end and has stopped before."
        answers.append(LessonAnswer(node, node, words))
    text = "The scan stops at the first test that passes. Where?"
    return _which(scene, text, answers, right, reason)


def _which(
    scene: AskScene, text: str, answers: Sequence[LessonAnswer], right: int, reason: str, value: str = ""
) -> LessonQuestion:
    """One of the chain's drafted tokens is asked for, before any test."""
    return LessonQuestion(
        kind="place",
        text=text,
        answers=tuple(answers),
        otherwise="That is no drafted token.",
        shown=scene.word(right),
        reason=reason,
        places=tuple(_chain(scene)),
        value=value,
        before=scene.moment(Phase.VERIFY),
        after=scene.end(right),
    )


def makes_up(scene: AskScene) -> LessonQuestion:
    """Which guess pays for a weaker one before it: the first whose weight as a prefix grows."""
    chain = _chain(scene)
    chances = list(_chances(scene))
    paying = [k for k, (_, whole, before, _) in enumerate(chances) if whole > before + _LEAST]
    if not paying:
        raise scene.refuse(f"no guess of r{scene.record.r} makes up for one before it")
    right = chain[paying[0]]
    ratio, whole, before, alone = chances[paying[0]]
    answers = [
        LessonAnswer(right, right, f"p/q {number(ratio)}: the prefix goes from {fine(before)} to {fine(whole)}.", True)
    ]
    for node, (ratio, *_) in zip(chain, chances, strict=True):
        if node == right:
            continue
        if ratio >= 1:
            words = f"{scene.word(node)} has p/q {number(ratio)}, but nothing before it is weak; a chance is at most 1."
        else:
            words = f"{scene.word(node)} has p/q {fine(ratio)}, below 1: it makes the prefix weaker, by either rule."
        answers.append(LessonAnswer(node, node, words))
    text = "Which guess makes up for a weaker one before it? Its p/q is above 1."
    reason = f"Token by token {fine(alone)} are left at this place, as a whole {fine(whole)}."
    return _which(scene, text, answers, right, reason, "p/q")


def _chances(scene: AskScene) -> Iterator[tuple[float, float, float, float]]:
    """Of every place p/q, the chance to be kept as a whole, that of the place before, and the chance token by token.

    Over all that may stand behind a place: the capped weight of docs/papers/hsd.md, and the product of min(1, p/q).
    """
    whole = alone = 1.0
    for node in _chain(scene):
        ratio, before = scene.p(node) / scene.q(node), whole
        whole, alone = min(1.0, whole * ratio), alone * min(1.0, ratio)
        yield ratio, whole, before, alone


def move_scan_u(scene: AskScene) -> LessonQuestion:
    """Drag u of one place of the scan until fewer or more are kept."""
    node = scene.node
    if node is None or node not in scene.record.verdicts:
        raise scene.refuse("a node of the draft is to be named")
    was, own = len(scene.family.accepted), scene.u(node)
    start, bound = min(_STOPS - 1, int(own * _STOPS)), scene.record.verdicts[node].thr or 0.0
    marks: list[SliderMark] = []
    for k in range(_STOPS):
        u = own if k == start else (k + 0.5) / _STOPS
        now = _again(scene, Change(uniforms={node: u}))
        n = len(now.accepted)
        words = f"u {fine(u)}: {plural(n, 'token')} kept"
        stop = SliderStop(fine(u), words, dict(now.marks))
        marks.append((stop, f"{words}." if n != was else f"{words}, as it was.", n != was))
    return scene.slider(
        f"{was} were kept. Move u of {scene.word(node)} until it is another number.",
        marks,
        f"any u {'at or above' if own < bound else 'below'} {fine(bound)}",
        reason=f"At {fine(bound)} this place fails or passes, and the scan goes on or stops.",
        start=start,
        name="u",
        before=scene.moment(Phase.ACCEPT, len(scene.family.tests), node),
    )


def tests_board(scene: AskScene) -> LessonBoard:
    """The chain with p/q and u of every token, left to right."""
    rows = []
    for node in _chain(scene):
        ratio, u = scene.p(node) / scene.q(node), scene.u(node)
        shown = fine(ratio) if ratio < 1 else number(ratio)
        rows.append(WhyRow(scene.word(node), f"p/q {shown}", min(1.0, ratio), f"u {fine(u)}"))
    return LessonBoard("Each guess: kept if u is below p/q", tuple(rows))


def chances_board(scene: AskScene) -> LessonBoard:
    """What every place is kept with, as whole prefixes and token by token, and the sums: tokens kept."""
    chances = list(_chances(scene))
    rows = [
        WhyRow(scene.word(node), fine(whole), whole, f"by token {fine(alone)}")
        for node, (_, whole, _, alone) in zip(_chain(scene), chances, strict=True)
    ]
    kept, by_token = sum(whole for _, whole, *_ in chances), sum(alone for *_, alone in chances)
    rows.append(WhyRow("added up", number(kept), None, f"by token {number(by_token)}"))
    return LessonBoard("Chance of being kept", tuple(rows))


def scan_board(scene: AskScene) -> LessonBoard:
    """The chain with what each place of the scan needs, right to left."""
    rows = []
    for node in reversed(_chain(scene)):
        bound = scene.record.verdicts[node].thr
        u = scene.record.verdicts[node].u
        rows.append(WhyRow(scene.word(node), f"u {fine(u)}", u, f"h {fine(bound)}"))
    return LessonBoard("From the end: is u below h?", tuple(rows))
