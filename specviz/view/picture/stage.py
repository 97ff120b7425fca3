"""`StagePainter`: a round of the stage as pictures, one a moment, or several on the way from a moment to the next.

Given are the records that the browser's painter is given (`specviz.view.stage.parts`); marks, words and numbers are
theirs. All pictures of a painter have one size.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specviz.view.picture import around, measure, running_text
from specviz.view.picture.layout import PlacedTree, States, layout
from specviz.view.picture.look import Colours, Theme, mix
from specviz.view.picture.nodes import NodeLook, card, edge
from specviz.view.picture.shapes import Box, Picture, Piece, Shape, TextLine
from specviz.view.stage.parts import StageHead, StageRound, StageWhy
from specviz.view.words.palette import CLOSING, ROOT, Phase

WIDTH = 800  # pixels
_MARGIN, _TEXT_LINES, _SAID = 28.0, 3, 15.5
_BELOW, _TIME = 116.0, 46.0
_SLACK = 24.0  # pixels that a sentence may turn out wider than was thought
_DECIDED = 0.62  # of the way to a test's end, when its mark turns


def unfolded(page: StageRound) -> list[dict[int, dict[str, Any]]]:
    """What is known of every node at each moment: the differences of the record laid upon one another."""
    found: list[dict[int, dict[str, Any]]] = []
    now: dict[int, dict[str, Any]] = {}
    for moment in page.moments:
        changed = {int(i): {**now.get(int(i), {}), **fields} for i, fields in moment.nodes.items()}
        now = {**now, **changed}
        found.append(now)
    return found


class StagePainter:
    """Pictures of one round. `tree_height`, `said_lines`: at least so much, for several rounds in one size.

    `chosen`: the node that is looked at; None follows the action.
    """

    def __init__(
        self,
        head: StageHead,
        page: StageRound,
        theme: Theme = "light",
        width: int = WIDTH,
        tree_height: float = 0.0,
        said_lines: int = 1,
        chosen: int | None = None,
    ) -> None:
        self.head, self.page, self.width, self.chosen = head, page, float(width), chosen
        self.colours = Colours(theme, head.marks)
        self.states = unfolded(page)
        self.inner = self.width - 2 * _MARGIN
        self.tree: PlacedTree = layout(page, self.states[-1], self.inner)
        self.tree_height = max(self.tree.height, tree_height)
        said = [measure.wrapped(moment.say, self.inner - _SLACK, _SAID, 3) for moment in page.moments]
        self.said_lines = max(said_lines, *map(len, said))

    @property
    def n_moments(self) -> int:
        return len(self.page.moments)

    def picture(self, k: int = -1, way: float = 1.0) -> Picture:
        """Moment `k` of the round, the last one by default. `way` 0..1: how far it has come since the one before."""
        k = k % self.n_moments
        moment = self.page.moments[k]
        shapes = list(self._shapes(k, way))
        title = f"{self.head.title} · {self.page.place}: {moment.label}"
        words = f"{moment.say} {moment.counts}".strip()
        return Picture(self.width, self.height, self.colours.of.ground, title, words, shapes)

    @property
    def height(self) -> float:
        return float(round(self._time_y + _TIME + 30))

    # Where things stand, from above ----------------------------------------------------------------------------------

    @property
    def _text_y(self) -> float:
        return 72.0

    @property
    def _text_high(self) -> float:
        return _TEXT_LINES * running_text.APART + 38

    @property
    def _phases_y(self) -> float:
        return self._text_y + self._text_high + 24

    @property
    def _said_y(self) -> float:
        return self._phases_y + 56

    @property
    def _tree_y(self) -> float:
        return self._said_y + self.said_lines * 22 + 4

    @property
    def _below_y(self) -> float:
        return self._tree_y + self.tree_height + (44 if self.tree.n_left_out else 26)

    @property
    def _time_y(self) -> float:
        return self._below_y + _BELOW + 8

    def _shapes(self, k: int, way: float) -> Iterator[Shape]:
        x, wide, colours, moment = _MARGIN, self.inner, self.colours, self.page.moments[k]
        plain = colours.of
        yield from around.header(self.head, self.page, x, 32, wide, colours)
        yield Box(x, self._text_y, wide, self._text_high, 10, plain.wash)
        prompt = running_text.prompt(self.head, self.page, wide - 28, colours)
        yield TextLine(x + 14, self._text_y + 23, (prompt,), running_text.SMALL)
        found = running_text.pieces(self.head, self.page, moment, self._seen(k, way), colours)
        yield from running_text.lines(found, x + 14, self._text_y + 48, wide - 28, _TEXT_LINES)
        yield from around.phases(self.head, moment.phase, x, self._phases_y, wide, colours)
        for n, words in enumerate(measure.balanced(moment.say, wide - _SLACK, _SAID, self.said_lines)):
            ink = Piece(words, plain.ink)
            yield TextLine(self.width / 2, self._said_y + n * 22, (ink,), _SAID, anchor="middle")
        yield from self._tree(k, way)
        yield from self._below(k, way)
        yield from around.timeline(self.head, self.page.index, x, self._time_y, wide, _TIME, colours)
        yield TextLine(x + wide, self.height - 8, (Piece("specviz", plain.soft),), 11, anchor="end")

    # The tree --------------------------------------------------------------------------------------------------------

    def _seen(self, k: int, way: float) -> States:
        """What is seen of every node: a test turns its mark when `u` has fallen, p comes with the target's pass."""
        now, before = self.states[k], self.states[k - 1] if k else {}
        phase = self.page.moments[k].phase
        if way >= 1:
            return now
        if phase == Phase.ACCEPT and way < _DECIDED:
            return before
        if phase == Phase.VERIFY:
            beam = self._beam(way)
            spots = self.tree.spots
            return {i: s if i in spots and spots[i].x < beam else {**before.get(i, s)} for i, s in now.items()}
        return now

    def _beam(self, way: float) -> float:
        return way * (self.inner + 140) - 70

    def _tree(self, k: int, way: float) -> Iterator[Shape]:
        top = self._tree_y + max(0.0, self.tree_height - self.tree.height) / 2
        if self.page.moments[k].phase == Phase.VERIFY and way < 1:
            yield from self._light(self._beam(way))
        looks = list(self._looks(k, way))
        placed = {look.id: look for look in looks}
        for node in self.page.nodes:
            if node.id in placed and node.parent in placed and node.id != ROOT:
                for line in edge(placed[node.id], placed[node.parent].spot, self.tree, self.colours):
                    yield _moved(line, _MARGIN, top)
        for look in looks:
            for shape in card(look, self.tree, self.colours):
                yield _moved(shape, _MARGIN, top)
        yield from self._notes(k)

    def _notes(self, k: int) -> Iterator[Shape]:
        soft, middle = self.colours.of.soft, self.width / 2
        if self.tree.n_left_out:
            words = f"{self.tree.n_left_out} more drafted nodes, in rows where nothing was tested, are not drawn"
            yield TextLine(middle, self._tree_y + self.tree_height + 16, (Piece(words, soft),), 12, anchor="middle")
        if self.page.missing and k:
            words = measure.clipped(self.page.missing, self.inner, 13)
            yield TextLine(middle, self._tree_y + self.tree_height + 12, (Piece(words, soft),), 13, anchor="middle")

    def _light(self, beam: float) -> Iterator[Shape]:
        """The target's one pass: a bar of light from left to right."""
        for n, shade in enumerate(self.shades):
            x = _MARGIN + beam - 10 * n
            if 0 <= x <= self.width - 10:
                yield Box(x, self._tree_y - 6, 10, self.tree_height + 12, 0, shade)

    @property
    def shades(self) -> list[str]:
        """The colours of that light, from its head to its end."""
        ground, colour = self.colours.of.ground, self.colours.mark("accepted")
        return [mix(colour, ground, 0.34 * (1 - n / 10) ** 1.5) for n in range(8)]

    def _looks(self, k: int, way: float) -> Iterator[NodeLook]:
        """Every node that is seen, where it is on its way."""
        seen, moment, before = self._seen(k, way), self.page.moments[k], self.states[k - 1] if k else {}
        for node in self.page.nodes:
            spot = self.tree.spots.get(node.id)
            if spot is None or node.id not in seen:
                continue
            here = way if node.id not in before and k else 1.0
            if here < 1:
                spot = self._coming(node.id, node.parent, here)
            word = self.tree.words[node.id]
            yield NodeLook(node.id, spot, word, seen[node.id], moment.phase, here, node.id == self._at(k))

    def _coming(self, node: int, parent: int, here: float) -> Any:
        """A drafted node grows out of its parent; the token that closes the round drops in from above."""
        own = self.tree.spots[node]
        start = self.tree.spots.get(parent, own)
        eased = 1 - (1 - here) ** 3
        if node == CLOSING:
            return _at(own, own.x, own.y - 46 * (1 - eased))
        x0 = start.x + start.w * 0.5 if start.line == own.line else own.x
        return _at(own, x0 + (own.x - x0) * eased, start.y + (own.y - start.y) * eased)

    # Below it --------------------------------------------------------------------------------------------------------

    def _below(self, k: int, way: float) -> Iterator[Shape]:
        """The test in hand, what was left to draw from; else what the signs mean."""
        moment, x, y = self.page.moments[k], _MARGIN + 40, self._below_y + 14
        wide, why, at = self.inner - 80, self._why(k), self._at(k)
        if why is not None and why.entries and moment.phase >= Phase.CLOSE and (at == CLOSING or self.chosen == at):
            yield from around.left(why, x, y, wide, self.colours)
            return
        if why is not None and moment.phase >= Phase.ACCEPT and (why.gauge or moment.phase == Phase.ACCEPT):
            token = next((node.shown for node in self.page.nodes if node.id == at), "")
            falls = min(1.0, way / _DECIDED) ** 2 if moment.phase == Phase.ACCEPT else 1.0
            counted = self._counted(k) if at == moment.at else ""
            yield from around.in_hand(why, counted, token, x, y, wide, self.colours, falls)
            return
        yield from around.legend(_MARGIN, y + 40, self.inner, self.colours)

    def _counted(self, k: int) -> str:
        """`test 2 of 4`; nothing when no test is in hand."""
        tests = [n for n, moment in enumerate(self.page.moments) if moment.phase == Phase.ACCEPT]
        return f"test {tests.index(k) + 1} of {len(tests)}" if k in tests else ""

    def _at(self, k: int) -> int:
        """The node that is looked at."""
        chosen = self.chosen
        return chosen if chosen is not None and chosen in self.states[k] else self.page.moments[k].at

    def _why(self, k: int) -> StageWhy | None:
        state: Mapping[str, Any] | None = self.states[k].get(self._at(k))
        return self.page.whys[state["why"]] if state is not None else None


def _at(spot: Any, x: float, y: float) -> Any:
    return type(spot)(x, y, spot.w, spot.line)


def _moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Box):
        return Box(
            shape.x + x, shape.y + y, shape.w, shape.h, shape.r, shape.fill, shape.stroke, shape.width, shape.dash
        )
    if isinstance(shape, TextLine):
        return TextLine(shape.x + x, shape.y + y, shape.pieces, shape.size, shape.mono, shape.anchor)
    a, b, c, d = ((px + x, py + y) for px, py in shape.points)
    return type(shape)((a, b, c, d), shape.stroke, shape.width)
