"""Questions about a round and its tests: how many are kept, whether one is, where it breaks, what comes instead."""

from specviz.numerals import plural
from specviz.view.lessons.asks._scene import FAR, NEAR, AskScene, Idea, SliderMark, around
from specviz.view.lessons.parts import LessonAnswer, LessonQuestion, SliderStop
from specviz.view.why.closing_text import closing_words
from specviz.view.words.numbers import apart, fine
from specviz.view.words.palette import CLOSING, Phase
from specviz.whatif import Change, decide

_STOPS = 20  # of a slider from 0 to 1


def n_kept(scene: AskScene) -> LessonQuestion:
    """How many drafted tokens are kept."""
    end = scene.record.end
    if end is None or not scene.record.verdicts:
        raise scene.refuse(f"nothing was tested in r{scene.record.r}")
    kept, levels = end.n_accepted, scene.family.n_levels
    lost = next((v for v in scene.family.tests if v.status == "rejected"), None)
    reason = "every test passed" if lost is None else f"the test of {scene.word(lost.node)} fails and ends the draft"
    ideas: list[Idea] = [
        (kept + 1, kept + 1, "That counts the token of the target's own as well. It was never a guess."),
        (levels + 1, FAR, f"More than were drafted: the draft is {plural(levels, 'token')} long."),
    ]
    if lost is not None:
        ideas.append((kept + 2, levels, "Too many: behind the first test that fails nothing is kept, however good."))
    few = "Too few: a p/q below 1 fails nothing yet; only a u that is not below it ends the draft."
    ideas.append((0, kept - 1, few))
    return scene.number(
        f"How many of the {levels} drafted tokens will be kept?",
        kept,
        0,
        ideas,
        otherwise="A whole number is meant.",
        shown=str(kept),
        reason=f"{kept} of {levels}: {reason}.",
        unit="tokens",
        value="p/q",
        before=scene.moment(Phase.VERIFY),
        after=scene.moment(Phase.ACCEPT, len(scene.family.tests)),
    )


def n_written(scene: AskScene) -> LessonQuestion:
    """How many tokens of text a round brings."""
    end = scene.record.end
    if end is None:
        raise scene.refuse(f"r{scene.record.r} has not ended")
    written, kept = end.n_emitted, end.n_accepted
    own = {"bonus": "★ a bonus", "recovered": "↻ a replacement"}.get(scene.record.closing_mark or "", "its own token")
    ideas: list[Idea] = [
        (kept, kept, f"That is what was kept of the draft. The target adds one of its own: {own}."),
        (written + 1, FAR, "More than the round has: what was kept, and one of the target's own."),
        (0, kept - 1, f"Fewer than were kept, which are {kept}."),
    ]
    return scene.number(
        "How many tokens does this one pass of the target write in all?",
        written,
        0,
        ideas,
        otherwise="A whole number is meant.",
        shown=str(written),
        reason=f"{kept} kept and {own}, all for one pass of the target.",
        unit="tokens",
        before=scene.moment(Phase.ACCEPT, len(scene.family.tests)),
        after=scene.end(CLOSING),
    )


def first_lost(scene: AskScene) -> LessonQuestion:
    """At which node the draft breaks."""
    tests = scene.family.tests
    lost = next((v.node for v in tests if v.status == "rejected"), None)
    if lost is None:
        raise scene.refuse(f"no test fails in r{scene.record.r}")
    below = set(scene.family.spelled) - {-1}
    answers = [LessonAnswer(lost, lost, _fails(scene, lost), True)]
    for node in sorted(below - {lost}):
        if scene.status(node) == "accepted":
            u, bound = apart(scene.u(node), min(1.0, scene.record.verdicts[node].thr or 0.0))
            words = f"{scene.word(node)} is kept: u {u} is below {bound}."
        else:
            words = f"{scene.word(node)} stands behind the break: it is thrown away without a test."
        answers.append(LessonAnswer(node, node, words))
    return LessonQuestion(
        kind="place",
        text="Which token is the first whose test fails? Its u is not below its p/q.",
        answers=tuple(answers),
        otherwise="That is no drafted token.",
        shown=scene.word(lost),
        reason=_fails(scene, lost),
        places=tuple(sorted(below)),
        value="p/q",
        before=scene.moment(Phase.VERIFY),
        after=scene.moment(Phase.ACCEPT, len(tests), lost),
    )


def _fails(scene: AskScene, node: int) -> str:
    bound = scene.record.verdicts[node].thr or 0.0
    return f"u {fine(scene.u(node))} is not below p/q {fine(bound)}."


def kept(scene: AskScene) -> LessonQuestion:
    """Whether one token is kept."""
    node = scene.tested()
    p, q, u = scene.p(node), scene.q(node), scene.u(node)
    bound, right = min(1.0, p / q), int(scene.status(node) != "accepted")
    sure = p >= q
    yes = f"u {fine(u)} is {'below' if u < bound else 'not below'} p/q {fine(bound)}"
    if sure:
        reason = f"p {fine(p)} is at least q {fine(q)}: then every u passes"
        wrong = "No u can reject it: p/q is 1 or more, and u is always below 1."
    elif right:
        reason = yes
        wrong = f"{yes}. That the target could have said it is not enough."
    else:
        reason = yes
        wrong = f"{yes}. The target likes it less than the draft did; that lowers its chance, no more."
    choices = [("kept", wrong if right else f"{reason}."), ("rejected", f"{reason}." if right else wrong)]
    return scene.choice(
        f"Will {scene.word(node)} be kept? p {fine(p)}, q {fine(q)}, u {fine(u)}",
        choices,
        right,
        reason=f"{reason}.",
        before=scene.moment(Phase.VERIFY, 0, node),
        after=scene.moment(Phase.ACCEPT, _order(scene, node), node),
    )


def _order(scene: AskScene, node: int) -> int:
    """The number of a node's test, from 1."""
    return next(k for k, verdict in enumerate(scene.family.tests, 1) if verdict.node == node)


def keep_chance(scene: AskScene) -> LessonQuestion:
    """With which chance a token is kept."""
    node = scene.tested()
    p, q = scene.p(node), scene.q(node)
    right = min(1.0, p / q)
    ideas = [
        around(p, "That is p: how often the target would say it. It is asked how often the guess is kept."),
        around(q, "That is q: how sure the draft was. It is asked how often the target lets it through."),
        around(q - p, "That is q − p. A chance of p/q makes up for what the draft offered too often."),
        around(1 - right, "That is the chance that it is rejected."),
        around(p * q, "That is p times q. The draft has drawn it already, so q divides."),
        (1 + NEAR, FAR, "A chance lies between 0 and 1: .5, or 50%."),
    ]
    return scene.number(
        f"With which chance, 0 to 1, is {scene.word(node)} kept? p {fine(p)}, q {fine(q)}",
        right,
        NEAR,
        ideas,
        otherwise="Divide: what the target gives it, by what the draft gave it, and at most 1.",
        shown=fine(right),
        reason=f"min(1, p/q) = {fine(right)}.",
        before=scene.moment(Phase.DRAFT, 10**6, node),  # p/q stands nowhere yet; and no `after`
    )


def replaced(scene: AskScene) -> LessonQuestion:
    """Which of four tokens can not come in place of the rejected one, or which comes most often."""
    node = scene.tested()
    closing = scene.record.closing
    if closing is None or closing.kind != "recovered" or not closing.row:
        raise scene.refuse(f"nothing was drawn from a recorded residual at r{scene.record.r}")
    p, q = scene.p(node), scene.q(node)
    rows = [
        (scene.run.word(token), target, draft or 0.0, target - (draft or 0.0))
        for token, target, draft, *_ in closing.row
    ]
    best = sorted((row for row in rows if row[0] != scene.word(node)), key=lambda row: -row[3])[:3]
    top = best[0]
    offered = sorted([*best, (scene.word(node), p, q, 0.0)])
    choices = []
    for name, target, draft, weight in offered:
        numbers = f"p {fine(target)}, q {fine(draft)}"
        if name == scene.word(node):
            words = "It was just rejected: its p − q is below 0, so nothing of it is left to draw."
        elif name == top[0]:
            words = f"p − q is {fine(weight)}, the most of all."
        else:
            words = f"p − q is {fine(weight)} only. Not the largest p counts but what the draft offered too little of."
        choices.append((f"{name} ({numbers})", words))
    right = [name for name, *_ in offered].index(top[0])
    return scene.choice(
        "Instead of it one token is drawn by max(0, p − q). Which is likeliest?",
        choices,
        right,
        reason=f"Its p − q is the largest. {closing_words(scene.run, scene.family)}",
        before=scene.moment(Phase.ACCEPT, len(scene.family.tests), node),
        after=scene.moment(Phase.CLOSE, 0, CLOSING),
    )


def move_u(scene: AskScene) -> LessonQuestion:
    """Drag u of one node until its fate turns."""
    node = scene.tested()
    was, own = scene.status(node), scene.u(node)
    start = min(_STOPS - 1, int(own * _STOPS))
    marks: list[SliderMark] = []
    for k in range(_STOPS):
        u = own if k == start else (k + 0.5) / _STOPS
        now = decide(scene.run, scene.record, Change(uniforms={node: u})).now
        if now is None or node not in now.marks:
            raise scene.refuse(f"it is not on record what another u of n{node} would do")
        fate = now.marks[node]
        words = f"u {fine(u)}: {scene.word(node)} is {fate}; {plural(len(now.accepted), 'drafted token')} kept"
        turned = (fate == "accepted") != (was == "accepted")
        stop = SliderStop(fine(u), words, dict(now.marks))
        marks.append((stop, f"{words}." if turned else f"{words}, as before.", turned))
    bound = scene.record.verdicts[node].thr or 0.0
    side = "below" if was == "rejected" else "at or above"
    return scene.slider(
        f"{scene.word(node)} was {was}. Move u until it is {'kept' if was == 'rejected' else 'rejected'}.",
        marks,
        f"any u {side} {fine(bound)}",
        reason=f"Its fate turns at p/q = {fine(bound)}. No other u changes: behind it each token meets the u it had.",
        start=start,
        name="u",
        before=scene.moment(Phase.ACCEPT, _order(scene, node), node),
    )
