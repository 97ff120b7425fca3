"""Looking at a node: which one, what stands beside it, how the tree and the text are shown."""

import msgspec
from textual.widgets import Input

from specviz.view.words.palette import VALUE_MODES
from specviz_tui.common.actions import Actions
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import KEEP, Asked, Moved, NodePicked, RoomChanged, ScreenMessage
from specviz_tui.common.keymap import Key
from specviz_tui.screens.again import AgainScreen
from specviz_tui.widgets.text_strip import MODES, TextStrip
from specviz_tui.widgets.tree import TreeCanvas, neighbour
from specviz_tui.widgets.why_panel import WhyPanel

NOT_YET = "its verdict is still to come: . goes on"


class LookActions(Actions):
    """The node under the cursor, and the forms of tree and text."""

    order = 30
    KEYS = (
        Key("value", "v", "value", "v", "value beside the tokens: q, p, p/q, u, rank", "Tree", "value", 10),
        Key("text", "t", "text", "t", "text as words, as raw tokens, as ids; in a conversation: who said what", "Tree"),
        Key("fold", "x", "fold", "x", "fold the branches that lost", "Tree"),
        Key("expand", "X", "expand", "X", "show every branch", "Tree"),
        Key("why", "enter", "why", "enter", "pin the why panel to this node; again lets go", "Tree", "why", 5, True),
        Key("again", "u", "again", "u", "what if: this node with another u, and by other rules", "Tree", "what if", 13),
        Key("copy", "y", "copy", "y", "copy the node as JSON", "Tree"),
        Key("zoom", "O", "zoom", "O", "only the part in focus on the whole screen; again: all of it", "Screen"),
    )

    _zoomed = ""  # the part that has the whole screen

    def heard(self, message: ScreenMessage) -> None:
        """Clicks, arrows, and what panels want shown."""
        match message:
            case NodePicked(node):
                self.controller.focus_main()
                self.controller.select(node)
            case Moved(direction):
                self._move(direction)
            case Asked():
                self._show(message)
            case RoomChanged():
                self.controller.paint_soon()

    def _move(self, direction: str) -> None:
        """To the neighbour of the selected node."""
        if self.frame is not None:
            listed = self.controller.widget(TreeCanvas).listed
            node = neighbour(self.frame.tree, self.frame.selected, direction, listed)
            if node is not None:
                self.controller.select(node)

    def _show(self, asked: Asked) -> None:
        if asked.index is not None:
            self.player.seek_index(asked.index)
        if asked.tree:
            self.controller.turn_to(TREE)
        if asked.node is not KEEP:
            self.controller.select(asked.node)
        elif asked.hold:
            self.controller.select(self.feed.options.selected)
        self.controller.paint_soon()

    def action_why(self) -> None:
        """Pin the why panel, or let it go; on a narrow screen this opens and closes it."""
        self.controller.pinned = pinned = not self.controller.pinned
        self.controller.select(self.frame.selected if pinned and self.frame else None)

    def action_again(self) -> None:
        """Decide the node under the cursor again."""
        frame = self.frame
        if frame is None or frame.why is None or not frame.timeline.points:
            return
        if not frame.why.decided:
            self.controller.notify(NOT_YET)
            return
        run = self.player.run
        self.controller.push(AgainScreen(run, run.rounds[frame.cursor.index], frame.why, self.feed.options.ascii))

    def action_copy(self) -> None:
        """The node as JSON, to the clipboard of the terminal."""
        record = self.controller.recorded_node()
        if record is not None:
            text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
            self.controller.screen.app.copy_to_clipboard(text)
            self.controller.notify("copied as JSON")

    # Forms -----------------------------------------------------------------------------------------------------------

    def action_value(self) -> None:
        at = VALUE_MODES.index(self.feed.options.value)
        self.controller.change(value=VALUE_MODES[(at + 1) % len(VALUE_MODES)])

    def action_fold(self) -> None:
        """Leave the losers out, or show them again."""
        self.controller.change(folding="pruned" if self.feed.options.folding == "losers" else "losers")

    def action_expand(self) -> None:
        self.controller.change(folding="none")

    def action_text(self) -> None:
        """The conversation, then the forms of the newest run's text."""
        strip, controller = self.controller.widget(TextStrip), self.controller
        following = (MODES.index(strip.mode) + 1) % len(MODES)
        if not (self.feed.speaks or self.feed.talk):
            strip.mode = MODES[following]
        elif controller.talk_shown:
            controller.talk_shown, strip.mode = False, MODES[0]
        elif following == 0:
            controller.talk_shown = True
        else:
            strip.mode = MODES[following]
        controller.paint_soon()

    def action_zoom(self) -> None:
        """The part in focus on the whole screen, or all parts again."""
        if self._zoomed:
            self.controller.mark(False, "-zoom", f"-zoom-{self._zoomed}")
            self._zoomed = ""
            return
        at = self.controller.screen.focused
        self._zoomed = "tree"
        if isinstance(at, WhyPanel):
            self._zoomed = "why"
        elif isinstance(at, TextStrip):
            self._zoomed = "text"
        elif self.controller.pane is not None and not isinstance(at, Input):
            self._zoomed = "panel"
        self.controller.mark(True, "-zoom", f"-zoom-{self._zoomed}")
