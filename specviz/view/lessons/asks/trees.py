"""Questions about trees: what of them bought nothing, which node is likeliest, which shape keeps most."""

from math import prod

from msgspec.structs import replace

from specviz.numerals import number, plural
from specviz.view.frame.parts import WhyRow
from specviz.view.lessons.asks._scene import FAR, AskScene, Idea, SliderMark
from specviz.view.lessons.parts import LessonAnswer, LessonQuestion, SliderStop
from specviz.view.words.numbers import fine
from specviz.view.words.palette import Phase

_ROOT = -1
_ALIKE = 0.01  # tokens a round that make no difference


def path_chance(scene: AskScene, node: int) -> float:
    """The chance that a node of a fixed tree is kept: the target draws it, and everything above it."""
    return prod(scene.p(at) for at in _path(scene, node))


def waste(scene: AskScene) -> LessonQuestion:
    """How many nodes of a round bought nothing."""
    end, judged = scene.record.end, [i for i in scene.family.kept_nodes if i in scene.record.verdicts]
    if end is None or not judged:
        raise scene.refuse(f"nothing was tested in r{scene.record.r}")
    n, longest = len(judged), max(scene.family.depth[node] for node in judged)
    lost = n - end.n_accepted
    reason = f"{n} went through, {end.n_accepted} became text. That is the price of width."
    fair = f"A fair estimate: {longest} at most become text, the longest path. Here {lost} did not."
    ideas: list[Idea] = [
        (0, n - longest - 1, f"One path at most becomes text, of at most {longest} nodes. All others bought nothing."),
        (n + 1, FAR, f"More than the tree has: {n} went through the target."),
    ]
    asked = scene.number(
        f"{n} nodes go through the target. How many of them will not become text?",
        lost,
        0,
        ideas,
        otherwise="A whole number is meant.",
        shown=str(lost),
        reason=reason,
        unit="nodes",
        before=scene.moment(Phase.VERIFY),
        after=scene.end(),
    )
    exact, *wrong = asked.answers  # nothing is drawn yet: whatever the tree leaves possible is a fair estimate
    return replace(asked, answers=(exact, LessonAnswer(n - longest, n, fair, True), *wrong))


def likeliest(scene: AskScene) -> LessonQuestion:
    """Which node behind the first level is likeliest to be kept."""
    family = scene.family
    nodes = [i for i in family.kept_nodes if family.depth[i] == 2 and family.p(i) is not None]
    if len(nodes) < 2:
        raise scene.refuse(f"r{scene.record.r} has no second level to choose from")
    chance = {node: path_chance(scene, node) for node in nodes}
    right = max(nodes, key=chance.__getitem__)
    tempting = max(nodes, key=scene.p)
    if tempting == right:
        raise scene.refuse("the node with the largest p is the right one here: nothing to learn from it")
    reason = f"{_product(scene, right, chance[right])}."
    answers = [LessonAnswer(right, right, reason, True)]
    for node in nodes:
        if node == right:
            continue
        words = f"{_product(scene, node, chance[node])}; another has {fine(chance[right])}."
        if node == tempting:
            words = f"Its own p is the largest, but it counts only if the guess before it is kept. {words}"
        answers.append(LessonAnswer(node, node, words))
    return LessonQuestion(
        kind="place",
        text="Room for one node only, right behind a first guess: which is likeliest to be kept?",
        answers=tuple(answers),
        otherwise="A token right behind one of the first guesses is asked for.",
        shown=_words(scene, right),
        reason=reason,
        places=tuple(nodes),
        value="p",
        before=scene.moment(Phase.VERIFY),
        after=scene.moment(Phase.VERIFY, 0, right),
    )


def _path(scene: AskScene, node: int) -> list[int]:
    path = [at for at in (*scene.family.ancestors(node), node) if at != _ROOT]
    return sorted(path, key=scene.family.depth.__getitem__)


def _words(scene: AskScene, node: int) -> str:
    """A node with what it stands on: a tree has the same token in many places."""
    return " ".join(scene.word(at) for at in _path(scene, node))


def _product(scene: AskScene, node: int, chance: float) -> str:
    factors = " × ".join(fine(scene.p(at)) for at in _path(scene, node))
    return f"{_words(scene, node)}: {factors} = {fine(chance)}"


def shapes(scene: AskScene) -> tuple[tuple[int, float], ...]:
    """Of `n` nodes in w rows, each as long as the others: `(w, tokens kept on average)`, by the recorded p.

    Rows begin at the drafter's first w choices and go on with its first choice. A node that was not sent counts as 0.
    """
    n = int(scene.fields.get("nodes", 4))
    out = []
    for width in range(1, n + 1):
        if n % width:
            continue
        values = []
        for index in range(len(scene.run.rounds)):
            at = AskScene(scene.here, scene.player, scene.open, index, None, scene.fields)
            values.append(_expected(at, width, n // width))
        out.append((width, sum(values) / len(values)))
    return tuple(out)


def _expected(scene: AskScene, width: int, length: int) -> float:
    family, total = scene.family, 0.0
    known = {i: p for i in family.kept_nodes if i in scene.record.verdicts and (p := family.p(i)) is not None}
    for head in [i for i in family.children[_ROOT] if i in known][:width]:
        chance, node = 1.0, head
        for _ in range(length):
            chance *= known[node]
            total += chance
            below = [i for i in family.children.get(node, ()) if i in known]
            if not below:
                break
            node = below[0]
    return total


def best_shape(scene: AskScene) -> LessonQuestion:
    """Drag the width of a tree of so many nodes to where most is kept."""
    n, values = int(scene.fields.get("nodes", 4)), shapes(scene)
    most = max(value for _, value in values)
    best = [k for k, (_, value) in enumerate(values) if value > most - _ALIKE]
    marks: list[SliderMark] = []
    for k, (width, kept) in enumerate(values):
        name = "a chain" if width == 1 else f"{width} rows"
        words = f"{name} of {plural(n // width, 'token')}: {number(kept)} kept a round"
        rows = tuple(  # all of them, so that nothing moves: what was not tried is not told
            WhyRow(f"{w} × {n // w} kept", *((number(value), value / most) if i <= k else ("?", 0.0)))
            for i, (w, value) in enumerate(values)
        )
        stop = SliderStop(f"{width} × {n // width}", words, rows=rows)
        marks.append((stop, f"{words}{'' if k in best else ': another shape keeps more'}.", k in best))
    return scene.slider(
        f"{n} nodes, as one chain or as several side by side (rows). Move the width to where most is kept.",
        marks,
        " or ".join(marks[k][0].label for k in best),
        reason=f"{number(most)} tokens a round on average, by the chances on record. The surer, the narrower.",
        start=0 if 0 not in best else len(values) - 1,
        name="rows",
    )
