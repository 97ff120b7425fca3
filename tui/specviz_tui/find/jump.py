"""Labels to jump to: a letter or two on every node in sight and the marks of the time line; typing one goes there."""

from collections.abc import Iterable
from itertools import product

from rich.text import Text
from textual import events, on
from textual.message import Message
from textual.widgets import Static

from specviz_tui.common.paint import FAINT, STRONG
from specviz_tui.screens.run_screen import TREE, RunScreen
from specviz_tui.widgets.timeline import Transport
from specviz_tui.widgets.tree import TreeCanvas

LETTERS = "asdfghjklqwertyuiopzxcvbnm"
MOST = len(LETTERS) ** 2
NEAR = 400  # rounds to each side that are looked through for rejections


def jump_labels(n: int) -> list[str]:
    """So many labels, the short ones first; none is the beginning of another."""
    size = len(LETTERS)
    n = min(n, MOST)
    n_long = next(k for k in range(size + 1) if size - k + k * size >= n)  # letters that begin a label of two
    short, begin = LETTERS[: size - n_long], LETTERS[size - n_long :]
    return [*short, *(a + b for a, b in product(begin, LETTERS))][:n]


class JumpLine(Static, can_focus=True):
    """Says what to type, and takes every key while labels are shown."""

    class Typed(Message):
        """A key: a letter of a label; any other leaves."""

        def __init__(self, letter: str) -> None:
            super().__init__()
            self.letter = letter

    DEFAULT_CSS = """
    JumpLine { display: none; height: 1; width: 1fr; padding: 0 1; background: $boost; }
    JumpLine.-on { display: block; }
    """

    def say(self, n_nodes: int, n_marks: int, typed: str) -> None:
        """`type a label: 5 nodes, 12 rounds on the time line`."""
        line = Text("jump ", style=STRONG).append(typed, style=STRONG)
        line.append(f"  type a label: {n_nodes} nodes, {n_marks} marks of the time line · esc leaves", style=FAINT)
        self.update(line)

    def on_key(self, event: events.Key) -> None:
        """No key means anything else meanwhile."""
        event.stop()
        event.prevent_default()
        self.post_message(self.Typed(event.character if event.character and event.character in LETTERS else ""))

    def on_blur(self) -> None:
        """A click elsewhere ends it."""
        self.post_message(self.Typed(""))


class JumpActions(RunScreen):
    """Where a label leads."""

    _jump_nodes: dict[str, int]
    _jump_marks: dict[str, int]
    _jump_typed = ""

    def action_jump(self) -> None:
        """Put labels on what can be gone to; the view holds still for it."""
        frame = self.frame
        if frame is None or not frame.timeline.points:
            self.notify("no round yet to go to", markup=False)
            return
        self.feed.player.pause()
        nodes = self.query_one(TreeCanvas).in_sight if self.shown == TREE else []
        marks = self.query_one(Transport).apart(self._worth_going())
        names = jump_labels(len(nodes) + len(marks))
        self._jump_nodes = dict(zip(names, nodes, strict=False))
        self._jump_marks = dict(zip(names[len(nodes) :], marks, strict=False))
        self._jump_typed = ""
        line = self.query_one(JumpLine)
        line.add_class("-on")
        line.focus()
        self._show_labels()

    def _worth_going(self) -> Iterable[int]:
        """Rounds worth going to, the rarest kind first: markers, what findings rest on, rejections near by."""
        assert self.frame is not None
        yield from (point.index for point in self.frame.timeline.marked)
        for finding in self.frame.judgement.findings:
            yield from (place.index for place in finding.places)
        rounds, here = self.feed.player.run.rounds, self.feed.player.cursor.index
        near = range(max(0, here - NEAR), min(len(rounds), here + NEAR))
        yield from (index for index in sorted(near, key=lambda k: abs(k - here)) if rounds.rejected(index))

    def _show_labels(self) -> None:
        """Those that go on from what was typed."""
        nodes, marks = (_left(found, self._jump_typed) for found in (self._jump_nodes, self._jump_marks))
        self.query_one(TreeCanvas).labels = {node: label for label, node in nodes.items()}
        self.query_one(Transport).labels = {index: label for label, index in marks.items()}
        self.query_one(JumpLine).say(len(nodes), len(marks), self._jump_typed)

    @on(JumpLine.Typed)
    def _letter(self, message: JumpLine.Typed) -> None:
        if not self.query_one(JumpLine).has_class("-on"):
            return
        typed = self._jump_typed + message.letter
        if not message.letter:
            self._end_jump()
        elif typed in self._jump_nodes:
            self._end_jump()
            self.select(self._jump_nodes[typed])
        elif typed in self._jump_marks:
            self._end_jump()
            self.go(self.feed.player.seek_index(self._jump_marks[typed]))
        elif _left(self._jump_nodes, typed) or _left(self._jump_marks, typed):
            self._jump_typed = typed
            self._show_labels()
        else:
            self.app.bell()

    def _end_jump(self) -> None:
        line = self.query_one(JumpLine)
        line.remove_class("-on")
        self.query_one(TreeCanvas).labels = {}
        self.query_one(Transport).labels = {}
        if line.has_focus:
            self.focus_main()


def _left(found: dict[str, int], typed: str) -> dict[str, int]:
    return {label[len(typed) :]: place for label, place in found.items() if label.startswith(typed)}
