"""Screen 5: the verdict on the draft, scanned backward; other rules on it; the run as a whole."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Static

from specviz.view.frame.frame import Frame
from specviz.view.panels.verification.build import VerificationPanel
from specviz_tui.common.keymap import SCAN_KEYS, bindings
from specviz_tui.common.messages import Moved
from specviz_tui.panels.verification_views import BranchBox, ClosingBox, RuleBox, RunBox, ScanTable
from specviz_tui.widgets.stair_chart import StairChart


class ScanPane(VerticalScroll, can_focus=True, inherit_bindings=False):
    """Everything of the screen below the text strip. Without a chain to scan it says why, and what to run."""

    BINDINGS = bindings(SCAN_KEYS)
    EXPLAIN = "scan"
    frame: reactive[Frame | None] = reactive(None, repaint=False, init=False)

    def compose(self) -> ComposeResult:
        """The table on top; the rest beside or below each other, as the width allows."""
        yield Static("", id="no-scan", markup=False)
        yield ScanTable(id="scan").data_bind(ScanPane.frame)
        with Horizontal(classes="pair"):
            yield StairChart(id="stairs").data_bind(ScanPane.frame)
            with Vertical(id="beside"):
                yield RuleBox(id="rules").data_bind(ScanPane.frame)
                yield ClosingBox(id="closing").data_bind(ScanPane.frame)
        yield BranchBox(id="branches").data_bind(ScanPane.frame)
        yield RunBox(id="over-run").data_bind(ScanPane.frame)

    def watch_frame(self, frame: Frame | None) -> None:
        """The reason in place of the round's parts, when there is nothing to scan."""
        found = VerificationPanel.of(frame)
        if found is None:
            return
        self.set_class(found.missing is not None, "-missing")
        self.query_one("#no-scan", Static).update(found.missing or "")
        self.query_one("#over-run").display = found.survival is not None and not found.survival.missing

    def action_move(self, direction: str) -> None:
        """To the position beside."""
        self.post_message(Moved(direction))

    def action_scroll(self, lines: int) -> None:
        """By some lines."""
        self.scroll_relative(y=lines, animate=False)
