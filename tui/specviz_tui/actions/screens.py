"""Where one goes: another panel, help, the guide, the palette, back, out."""

from specviz_tui.actions.learning import LearningActions
from specviz_tui.common.actions import Actions
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import FrameWidget, Left, OpenAsked, ScreenMessage
from specviz_tui.common.keymap import Key
from specviz_tui.common.paint import next_theme, painter_of
from specviz_tui.common.pane import PanelPane
from specviz_tui.screens.page import GuideScreen, help_page
from specviz_tui.widgets.tree import TreeCanvas
from specviz_tui.widgets.why_panel import WhyPanel


class ScreenActions(Actions):
    """Keys of the whole screen."""

    order = 90
    KEYS = (
        Key("back", "escape", "back", "esc", "back: close the panel, let go of the node", "Tree"),
        Key("open", "o", "open", "o", "open a model to decode live with, or a trace", "Run", "open", 9),
        Key("screen.tree", "1", "go_to('tree')", "1", "back to the draft tree", "Screen"),
        Key("theme", "T", "theme", "T", "next theme", "Screen"),
        Key("help", "question_mark", "help", "?", "this page", "Screen", "help", 7, True),
        Key(
            "explain",
            "f1",
            "explain",
            "F1",
            "explain the focused panel; ← → there: all other pages of the guide",
            "Screen",
        ),
        Key("palette", "ctrl+p", "palette", "^p", "command palette", "Screen"),
        Key("quit", "q,ctrl+q", "quit", "q", "quit", "Screen", "quit", 8, True),
    )

    def heard(self, message: ScreenMessage) -> None:
        if isinstance(message, Left):
            self.controller.focus_main()

    def action_go_to(self, name: str) -> None:
        """Another screen of the same run: the tree or a panel."""
        self.controller.turn_to(name)

    def action_back(self) -> None:
        """Close what is open, then let go of the node, then follow; with nothing open a lesson is left."""
        controller, lesson = self.controller, self.controller.group(LearningActions)
        chosen = self.feed.options.selected is not None or any(
            p.chosen != p.chosen.clear_cursor() for p in controller.panes
        )
        if (lesson.asked or not (controller.pinned or chosen)) and lesson.leave():
            return
        others = [group for group in controller.groups if group is not lesson]
        if any(group.leave() for group in others) or any(pane.back() for pane in controller.panes):
            return
        controller.pinned = False
        for pane in controller.panes:
            pane.chosen = pane.chosen.clear_cursor()
        controller.focus_main()
        controller.select(None)

    def action_open(self) -> None:
        self.controller.post(OpenAsked())

    def action_theme(self) -> None:
        next_theme(self.controller.screen.app)

    def action_help(self) -> None:
        screen, controller = self.controller.screen, self.controller
        page = help_page(painter_of(screen.app), screen.size.width, controller.shown, controller.library.keys)
        controller.push(page)

    def action_explain(self) -> None:
        at = self.controller.screen.focused
        name = at.EXPLAIN if isinstance(at, FrameWidget | PanelPane | TreeCanvas | WhyPanel) else ""
        self.controller.push(GuideScreen(name or TREE, "" if self.frame is None else self.frame.run.explained))

    def action_palette(self) -> None:
        self.controller.screen.app.action_command_palette()

    async def action_quit(self) -> None:
        await self.controller.screen.app.action_quit()
