"""Questions about the law of the text, over a vocabulary of two tokens: every number is exact."""

from specviz.events import prob
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import NEAR, AskScene, SliderMark, around
from specviz.view.lessons.parts import LessonBoard, LessonQuestion, SliderStop
from specviz.view.words.numbers import fine
from specviz.view.words.palette import Phase
from specviz.whatif import token_law

_LOOSEST, _STEPS = 0.6, 12  # of the slack that is tried
_NO_KNOB = ("rule", "name")
OFF = 0.1  # how far the law is to be driven off


class TwoTokens:
    """The two laws that every round of the recording stands on."""

    def __init__(self, scene: AskScene) -> None:
        names: dict[int, str] = {}
        p: dict[int, float] = {}
        q: dict[int, float] = {}
        for record in scene.run.rounds:
            for node, verdict in record.verdicts.items():
                born = record.nodes[node]
                names[born.token] = scene.run.word(born.token)
                p[born.token], q[born.token] = prob(verdict.logp) or 0.0, prob(born.logq) or 0.0
        if len(names) != 2:
            raise scene.refuse(f"{len(names)} tokens were drafted; this asks about a vocabulary of two")
        order = sorted(names)
        self.names = tuple(names[token] for token in order)
        self.p = _whole([p[token] for token in order])
        self.q = _whole([q[token] for token in order])

    def law(self, rule: str, **knobs: float) -> float:
        """How often the first token comes."""
        return token_law(self.p, self.q, rule, **knobs)[0]

    def rows(self, law: float, name: str) -> tuple[WhyRow, ...]:
        return (
            WhyRow(f"{self.names[0]} target", fine(self.p[0]), self.p[0]),
            WhyRow(f"{self.names[0]} draft", fine(self.q[0]), self.q[0]),
            WhyRow(f"{self.names[0]} {name}", fine(law), law, _off(law - self.p[0])),
        )


def _whole(masses: list[float]) -> tuple[float, ...]:
    """Six figures were recorded: the law they stand for sums to 1."""
    return tuple(round(mass / sum(masses), 6) for mass in masses)


def _off(by: float) -> str:
    return "as the target" if abs(by) < 1e-9 else f"{fine(abs(by))} too {'often' if by > 0 else 'rarely'}"


def law(scene: AskScene) -> LessonQuestion:
    """How often the first token is written under `rule`."""
    two = TwoTokens(scene)
    a, b = two.names
    right, (p, other), (q, q_other) = two.law(str(scene.fields["rule"])), two.p, two.q
    if p <= q:
        raise scene.refuse("the first token must be the one that the draft offers too rarely")
    straight = min(q, p) + min(q_other, other)
    rest = 1 - straight
    ideas = [
        around(q, f"That is how often the draft guesses {a}. What is rejected comes back as something else."),
        around(
            straight,
            f"That is how often a guess is kept, {a} or {b}. It is asked how often {a} is written.",
        ),
        around(q + rest * p, f"That draws the replacement from p. It comes from max(0, p − q), which has {a} alone."),
        around(q + rest * q, "That draws the replacement from the draft's q. It comes from max(0, p − q)."),
        around((p + q) / 2, "That is the mean of both. The rule does not blend: it corrects, fully."),
        around(1 - right, f"That is {b}."),
    ]
    reason = (
        f"{fine(q)} drafted and kept; {b} is drafted {fine(q_other)} and kept {fine(other)}, so it becomes {a} "
        f"{fine(rest)} times: "
        f"{fine(right)}, the target's p to the last digit."
    )
    return scene.number(
        f"How often, 0 to 1, is {a} written in the end? Target {fine(p)}, draft {fine(q)}",
        right,
        NEAR,
        ideas,
        otherwise=f"Add up: how often {a} is drafted and kept, and how often {b} is rejected and replaced.",
        shown=fine(right),
        reason=reason,
    )


def lossy_rule(scene: AskScene) -> LessonQuestion:
    """Which of three rules writes another law. `rules`: tables of `rule`, `name` in words, and knobs."""
    two = TwoTokens(scene)
    rules = scene.fields.get("rules", ())
    laws = [two.law(rule["rule"], **{name: rule[name] for name in rule if name not in _NO_KNOB}) for rule in rules]
    off = [k for k, value in enumerate(laws) if abs(value - two.p[0]) > 1e-9]
    if len(off) != 1:
        raise scene.refuse(f"{len(off)} of these rules are lossy; one is to be found")
    wrong = "It keeps the law exactly: what it loses in a test it gives back in the draw."
    choices = []
    for k, value in enumerate(laws):
        words = f"{two.names[0]} would come {fine(value)}, not {fine(two.p[0])}." if k == off[0] else wrong
        choices.append((str(rules[k]["name"]), words))
    return scene.choice(
        f"Under one of these rules {two.names[0]} no longer comes as often as the target says. Which?",
        choices,
        off[0],
        reason=f"It keeps more of {two.names[1]}, and the draw behind does not make up for that.",
    )


def loosen(scene: AskScene) -> LessonQuestion:
    """Drag the `knob` of a lossy `rule` until the law is off by a tenth."""
    two, rule, knob = TwoTokens(scene), str(scene.fields["rule"]), str(scene.fields["knob"])
    marks: list[SliderMark] = []
    for k in range(_STEPS + 1):
        slack = _LOOSEST * k / _STEPS
        value = two.law(rule, **{knob: slack})
        gap = two.p[0] - value
        words = f"{knob} {fine(slack)}: {two.names[0]} comes {fine(value)}, {_off(-gap)}"
        enough = gap >= OFF - 1e-9
        stop = SliderStop(fine(slack), words, rows=two.rows(value, "written"))
        marks.append((stop, f"{words}." if enough else f"{words}: not {fine(OFF)} off yet.", enough))
    return scene.slider(
        f"Keep with p/q + {knob}. Move {knob} until {two.names[0]} comes {fine(OFF)} or more too rarely.",
        marks,
        "{} or more",
        reason="Every bit of it keeps more guesses and changes the law: faster, and no longer the target's text.",
        name=knob,
        before=scene.moment(Phase.COMMIT),
    )


def laws_board(scene: AskScene) -> LessonBoard:
    """Both laws as bars."""
    two = TwoTokens(scene)
    rows = [
        WhyRow(f"{name} {who}", fine(law[k]), law[k])
        for k, name in enumerate(two.names)
        for who, law in (("target", two.p), ("draft", two.q))
    ]
    return LessonBoard("Two laws", tuple(rows))
