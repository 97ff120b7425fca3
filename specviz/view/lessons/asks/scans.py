"""Questions about a test that looks at whole prefixes, the longest first."""

from specviz.numerals import plural
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import FAR, AskScene, Idea, SliderMark
from specviz.view.lessons.parts import LessonAnswer, LessonBoard, LessonQuestion, SliderStop
from specviz.view.words.numbers import fine
from specviz.view.words.palette import Phase
from specviz.whatif import Change, RoundAgain, decide

_STOPS = 20


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
    answers = [LessonAnswer(right, right, _passes(scene, right), True)]
    for node in chain:
        if node == right:
            continue
        if scene.family.depth[node] > scene.family.depth[right]:
            numbers = f"u {fine(scene.u(node))}, needed below {fine(tests[node].thr)}"
            words = f"The test of {scene.word(node)} comes earlier but fails: {numbers}."
        else:
            words = f"{scene.word(node)} stands further left: the scan begins at the end and has stopped before."
        answers.append(LessonAnswer(node, node, words))
    return LessonQuestion(
        kind="place",
        text="The scan stops at the first test that passes. Where?",
        answers=tuple(answers),
        otherwise="That is no drafted token.",
        shown=scene.word(right),
        reason=f"{_passes(scene, right)} All before it is kept with it, untested.",
        places=tuple(chain),
        before=scene.moment(Phase.VERIFY),
        after=scene.end(right),
    )


def _passes(scene: AskScene, node: int) -> str:
    return f"u {fine(scene.u(node))} is below {fine(scene.record.verdicts[node].thr)}."


def move_scan_u(scene: AskScene) -> LessonQuestion:
    """Drag u of one place of the scan until fewer or more are kept."""
    node = scene.node
    if node is None or node not in scene.record.verdicts:
        raise scene.refuse("a node of the draft is to be named")
    was = len(scene.family.accepted)
    marks: list[SliderMark] = []
    for k in range(_STOPS):
        u = (k + 0.5) / _STOPS
        now = _again(scene, Change(uniforms={node: u}))
        n = len(now.accepted)
        words = f"u {fine(u)}: {plural(n, 'token')} kept"
        stop = SliderStop(fine(u), words, dict(now.marks))
        marks.append((stop, f"{words}." if n != was else f"{words}, as it was.", n != was))
    return scene.slider(
        f"{was} were kept. Move u of {scene.word(node)} until another number is.",
        marks,
        "u {}",
        reason=f"At {fine(scene.record.verdicts[node].thr)} this place fails or passes, and the scan goes on or stops.",
        start=min(_STOPS - 1, int(scene.u(node) * _STOPS)),
        name="u",
        before=scene.moment(Phase.ACCEPT, len(scene.family.tests), node),
    )


def tests_board(scene: AskScene) -> LessonBoard:
    """The chain with p/q and u of every token, left to right."""
    rows = []
    for node in _chain(scene):
        ratio = min(1.0, scene.p(node) / scene.q(node))
        u = scene.u(node)
        rows.append(WhyRow(scene.word(node), f"p/q {fine(ratio)}", ratio, f"u {fine(u)}"))
    return LessonBoard("Each guess: kept if u is below p/q", tuple(rows))


def scan_board(scene: AskScene) -> LessonBoard:
    """The chain with what each place of the scan needs, right to left."""
    rows = []
    for node in reversed(_chain(scene)):
        bound = scene.record.verdicts[node].thr
        u = scene.record.verdicts[node].u
        rows.append(WhyRow(scene.word(node), f"u {fine(u)}", u, f"< {fine(bound)} ?"))
    return LessonBoard("From the end: u, and what it must be below", tuple(rows))
