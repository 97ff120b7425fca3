"""Questions about drafting while the target works: what is thrown away, and who waits for whom."""

from specviz.events import Rollback, Settle
from specviz.numerals import number, plural
from specviz.runlog.run import RoundRecord
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import FAR, AskScene, Idea
from specviz.view.lessons.parts import LessonBoard, LessonQuestion
from specviz.view.words.palette import Phase


def thrown_away(scene: AskScene) -> LessonQuestion:
    """How many drafted tokens a round's verdict throws away."""
    fates = [fate for event in scene.record.every(Settle) for _, fate in event.fates]
    lost = sum(fate != "accepted" for fate in fates)
    rolled = scene.record.first(Rollback)
    if not lost or rolled is None:
        raise scene.refuse(f"nothing is thrown away in r{scene.record.r}")
    rejected = fates.count("rejected")
    others = lost - rejected
    ideas: list[Idea] = [
        (rejected, rejected, "That is the rejected one. What was drafted behind it, and beside it, falls with it."),
        (
            len(fates),
            len(fates),
            f"That is all whose fate is known now; {fates.count('accepted')} of them became text.",
        ),
        (len(fates) + 1, FAR, f"Only {len(fates)} tokens were in the air."),
        (1, lost - 1, "More: all that stood behind the failed place was drafted on a text that did not come."),
    ]
    return scene.number(
        f"{len(fates)} drafted tokens learn their fate here. How many are thrown away?",
        lost,
        0,
        ideas,
        otherwise="Those that became text are not among them.",
        shown=str(lost),
        reason=f"{rejected} rejected, {others} drafted on a text that did not come.",
        unit="tokens",
        before=scene.moment(Phase.VERIFY),
        after=scene.end(),
    )


def waits(scene: AskScene) -> LessonQuestion:
    """How many milliseconds the target stands still in a round."""
    busy = _busy(scene.record)
    target, draft = busy["target"], busy["draft"]
    idle = draft - target
    if not target or idle <= 0:
        raise scene.refuse(f"the target does not wait in r{scene.record.r}")
    near = 0.1 * idle
    ideas: list[Idea] = [
        (draft - near, draft + near, "That is all drafting. While the target was at work as well, nobody waited."),
        (target - near, target + near, "That is the target's own pass, in which it works."),
        (draft + target - near, draft + target + near, "They work at the same time: times do not add up."),
    ]
    return scene.number(
        "For how many milliseconds of this round does the target stand still?",
        idle,
        near,
        ideas,
        otherwise="All rows of the drafter, less the row of the target.",
        shown=f"{number(idle)} ms",
        reason=f"{number(draft)} ms of drafting − {number(target)} ms of the target's pass = {number(idle)} ms.",
        unit="ms",
        before=scene.end(),
    )


def slower_side(scene: AskScene) -> LessonQuestion:
    """Which of the two lanes makes a round as long as it is."""
    busy = _busy(scene.record)
    target, draft = busy["target"], busy["draft"]
    if not target or not draft:
        raise scene.refuse(f"r{scene.record.r} has no time on both lanes")
    longer = int(draft > target)
    times = f"Drafting takes {number(draft)} ms, the target's pass {number(target)} ms"
    reason = f"{times}: the longer of the two sets the pace"
    choices = [
        ("the target", f"{reason}." if not longer else f"{times}."),
        ("the drafter", f"{reason}." if longer else f"{times}."),
        ("both, one after the other", f"They work at the same time, so times do not add up. {times}."),
    ]
    return scene.choice(
        "Both work at once. Which of them makes this round as long as it is?",
        choices,
        longer,
        reason=f"{reason}.",
        before=scene.end(),
    )


def _busy(record: RoundRecord) -> dict[str, float]:
    """Milliseconds on either lane."""
    return {lane: sum(s.dur_ns for s in record.spans if s.lane == lane) / 1e6 for lane in ("target", "draft")}


def lanes_board(scene: AskScene) -> LessonBoard:
    """Every stretch of the round on its lane."""
    spans = [span for span in scene.record.spans if span.lane in ("target", "draft")]
    most = max((span.dur_ns for span in spans), default=1) or 1
    rows = tuple(
        WhyRow(
            span.lane,
            f"{number(span.dur_ns / 1e6)} ms",
            span.dur_ns / most,
            "" if span.name == span.lane else span.name + " · void" * span.void,
        )
        for span in sorted(spans, key=lambda span: span.t0)
    )
    return LessonBoard(f"Round {scene.record.r}, {plural(len(rows), 'stretch', 'stretches')} of work", rows)
