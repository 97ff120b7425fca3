"""Questions about speed: tokens a round by draft length (exact, `decide_run`), against what a draft step costs.

A round with K drafted tokens costs one pass of the target and K steps of the drafter, each `c` of a pass; it writes
`kept(K) + 1` tokens. Plain decoding writes one a pass, so the speed-up is `(kept(K) + 1) / (1 + K c)`.
"""

from specviz.numerals import number, plural, times
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import AskScene, Idea, SliderMark, around
from specviz.view.lessons.parts import LessonBoard, LessonQuestion, SliderStop
from specviz.view.words.numbers import fine
from specviz.whatif import Change, decide_run

_NEAR_EVEN = 0.05
_COSTS = 20  # stops of the cost slider, from 0


def tokens(scene: AskScene) -> tuple[float, ...]:
    """Tokens a round with a draft of 0, 1, .. tokens, the target's own included."""
    if "tokens" not in scene.worked_out:
        scene.worked_out["tokens"] = _tokens(scene)
    brings: tuple[float, ...] = scene.worked_out["tokens"]
    return brings


def _tokens(scene: AskScene) -> tuple[float, ...]:
    longest = max(len(record.nodes) for record in scene.run.rounds)
    out = [1.0]
    for length in range(1, longest + 1):
        again = decide_run(scene.run, Change(knobs={"gamma": length}))
        if again.was is None or again.difference is None or again.n_told < len(again.rounds):
            raise scene.refuse(f"what a draft of {length} would keep is not on record in every round")
        out.append(1.0 + again.was.value + again.difference.value)
    return tuple(out)


def _cost(scene: AskScene) -> float:
    return float(scene.fields.get("cost", 0.15))


def _rows(brings: tuple[float, ...], cost: float, at: int) -> tuple[WhyRow, ...]:
    speed = brings[at] / (1 + at * cost)
    return (
        WhyRow("tokens a round", number(brings[at]), brings[at] / max(brings)),
        WhyRow("cost in passes", number(1 + at * cost), min(1.0, (1 + at * cost) / max(brings))),
        WhyRow("speed-up", times(speed), min(1.0, speed / 2), "" if speed >= 1 else "slower"),
    )


def _for(brought: float, price: float) -> str:
    return f"{plural(brought, 'token')} for {_passes(price)}"


def _passes(price: float) -> str:
    return plural(price, "pass", "passes")


def _typed(cost: float) -> str:
    """As the lesson has it: `.2`."""
    return f"{cost:g}".removeprefix("0")


def drag_length(scene: AskScene) -> LessonQuestion:
    """Drag K until drafting is slower than plain decoding."""
    brings, cost = tokens(scene), _cost(scene)
    speeds = [value / (1 + k * cost) for k, value in enumerate(brings)]
    slow = [k for k in range(1, len(speeds)) if speeds[k] < 1]
    if not slow or slow[0] == 1:
        raise scene.refuse(f"at a cost of {cost} no draft length turns a gain into a loss")
    marks: list[SliderMark] = []
    for k, speed in enumerate(speeds):
        words = f"K {k}: {_for(brings[k], 1 + k * cost)}, {times(speed)}"
        stop = SliderStop(str(k), words, rows=_rows(brings, cost, k))
        late = k > slow[0]
        tail = ". Slower already before: go back to the first." if late else ": not slower yet."
        marks.append((stop, f"{words}." if k == slow[0] else words + tail, k == slow[0]))
    return scene.slider(
        f"A draft step costs {_typed(cost)} of a pass. Move K to the first length that is slower than plain.",
        marks,
        "K = {}",
        reason="Every further guess costs the same and is kept more rarely, so it turns somewhere: K = ∞ only loses.",
        start=1,
        name="K",
    )


def best_length(scene: AskScene) -> LessonQuestion:
    """Which K is fastest."""
    brings, cost = tokens(scene), _cost(scene)
    speeds = [value / (1 + k * cost) for k, value in enumerate(brings)]
    best = max(range(len(speeds)), key=speeds.__getitem__)
    most = max(range(len(brings)), key=brings.__getitem__)
    gain = times(speeds[best])
    ideas: list[Idea] = [
        (
            most,
            len(brings),
            f"That brings the most tokens a round, {number(brings[most])}, at {_passes(1 + most * cost)}.",
        ),
        (best + 1, most - 1, "Longer than pays: its last guesses cost more than they bring."),
        (0, best - 1, "Shorter than pays: one more guess would bring more than it costs."),
    ]
    return scene.number(
        f"A draft step costs {_typed(cost)} of a pass. Which K is fastest?",
        best,
        0,
        ideas,
        otherwise=f"A whole number from 0 to {len(brings) - 1} is meant.",
        shown=f"K = {best}",
        reason=f"{_for(brings[best], 1 + best * cost)}, {gain}.",
    )


def break_even(scene: AskScene) -> LessonQuestion:
    """Drag the cost of a draft step to where a draft of K only just pays."""
    brings, length = tokens(scene), int(scene.fields.get("length", 4))
    even = (brings[length] - 1) / length
    marks: list[SliderMark] = []
    top = min(1.0, 2 * even)
    for k in range(_COSTS + 1):
        cost = top * k / _COSTS
        speed = brings[length] / (1 + length * cost)
        words = f"c {fine(cost)}: {_passes(1 + length * cost)} a round, {times(speed)}"
        right = abs(cost - even) <= _NEAR_EVEN * max(even, 0.2)
        tail = "" if right else ": still faster" if speed > 1 else ": slower"
        marks.append((SliderStop(fine(cost), words, rows=_rows(brings, cost, length)), f"{words}{tail}.", right))
    return scene.slider(
        f"K is {length}. Move c, the cost of a draft step, to where drafting is as fast as plain.",
        marks,
        f"c = {fine(even)}",
        reason=f"{number(brings[length])} tokens pay for {number(brings[length] - 1)} passes of drafting, "
        f"so each of {length} steps may cost {fine(even)}.",
        name="c",
    )


def even_cost(scene: AskScene) -> LessonQuestion:
    """How dear a draft step may be at most."""
    brings, length = tokens(scene), int(scene.fields.get("length", 2))
    value = brings[length]
    even = (value - 1) / length
    ideas = [
        around(value / length, "The target's own pass must be paid too: take 1 off before you divide."),
        around((value - 1), f"That is what all {length} steps may cost together. It is asked of one."),
        around(1 / length, "That would be right at 2 tokens a round."),
        around(value, "Those are the tokens a round."),
    ]
    return scene.number(
        f"{length} guesses bring {number(value, 3)} tokens a round. What share of a pass may a step cost, "
        "to be no slower than plain?",
        even,
        _NEAR_EVEN / 2,
        ideas,
        otherwise="Plain decoding takes one pass a token: tokens = 1 + K c is where both are alike.",
        shown=fine(even),
        reason=f"({number(value, 3)} − 1) / {length} = {fine(even)} of a pass, at most.",
    )


def payoff_board(scene: AskScene) -> LessonBoard:
    """Tokens a round by draft length."""
    brings = tokens(scene)
    rows = tuple(WhyRow(f"K = {k}", number(value), value / max(brings)) for k, value in enumerate(brings) if k)
    return LessonBoard(f"Tokens a round, {plural(len(scene.run.rounds), 'round')} cut shorter", rows)
