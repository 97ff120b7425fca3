"""Screen 5: the verdict on the draft, scanned backward; other rules on it; the run as a whole."""

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from specviz.view.frame.frame import Frame, PanelOptions
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import RatioStairs, Scan, VerificationModel
from specviz.view.words.labels import PREFIX_RATIO
from specviz_tui.common.frame_widget import FrameWidget, Moved, NodePicked, PanelBox
from specviz_tui.common.keymap import Key, page_keys
from specviz_tui.common.paint import FAINT, fitted
from specviz_tui.common.pane import PanelPane, opens
from specviz_tui.panels import verification_views as views
from specviz_tui.panels.verification_views import CAP, DOT, WEIGHT, chart

SCAN_KEYS: tuple[Key, ...] = (
    Key("scan.left", "left,h", "move('left')", "← h", "to the position before", "Scan"),
    Key("scan.right", "right,l", "move('right')", "→ l", "to the position after", "Scan"),
    Key("scan.up", "up,k", "scroll(-1)", "↑ k", "scroll up", "Scan"),
    Key("scan.down", "down,j", "scroll(1)", "↓ j", "scroll down", "Scan"),
    *page_keys("scan", "Scan"),
)
SCAN_PAGES = {
    "scan": (
        "HSD: the backward scan",
        "One drawn chain, one column a position. r is the joint ratio: what the target gives the whole prefix over "
        "what the draft gave it. c is r divided by its running maximum, so never above 1: what the prefix is worth. "
        "Below each prefix D+ is the target mass its continuations miss (Σ max(0, c·p − q)), D- the draft mass they "
        "have too much of.\n\n"
        "The scan begins at the last position and tests u < h, with h = D+/D- and at the last position c itself. The "
        "first test that passes ends it: that prefix is kept whole, and with it positions whose own test would have "
        "failed (marked *). That is what a backward scan gains on token-wise tests, which stop at the first failure. "
        "When nothing passes, nothing is kept.\n\n"
        "Capped HSD and blockwise verification are the same algorithm: same h, same residual, same law. hsd_naive uses "
        "r without the cap, keeps more, and pays with carried rounds. hsd_ref leaves out the cap at the last position "
        "alone, as released code does: it keeps drafts it should not, and the text leaves the target's law.\n\n"
        "The prefix ratio below: r climbs and falls, the cap line rides on its peaks, c hangs below 1 by what was lost "
        "since the peak.",
    ),
    "rules": (
        "Same draft, same u",
        "The draft of this round, decided again by three rules with the uniforms of this very round (they follow from "
        'the seed, so no model is asked). ▶ is the rule of the run. "expected" is the number of tokens a rule keeps of '
        "this draft on average over the uniforms: the sum of its credits, Π min(1, p/q) for token-wise, c for "
        "blockwise and hsd, min(1, r) for naive. On average hsd keeps at least as many as token-wise; on one draw "
        "it may not.\n\n"
        "Below the box: the paired difference to token-wise over the run, with its 95 % interval.",
    ),
    "residual": (
        "The row at the stop",
        "The token that closes the round is drawn from max(0, c·p − q), c of the kept prefix, scaled to sum to one; "
        "after the whole draft was kept, from the target's row. left is the difference, share its part of the draw. "
        "hsd_naive takes r in place of c: where r is above 1, max(0, p − q/r).",
    ),
    "branches": (
        "Below each prefix",
        "The mass that both laws give the continuations of a prefix (░), what the target's row, weighted with c, has "
        "and the draft lacks (█ D+), and what the draft has too much of (▒ D-). D+ over D- is the keep chance.",
    ),
    "survival": (
        "Over the run",
        "Survival at t: the share of drafts, of those at least t long, of which at least t tokens were kept; in "
        "brackets Wilson's 95 % interval. Beside it what each rule must give on these very drafts, exactly: the mean "
        "of its credit at t. The observed column must follow the rule of the run (▶), up to chance. For a backward "
        "scan this replaces acceptance per position, which has no meaning there.",
    ),
}


class ScanPane(PanelPane[PanelOptions, VerificationModel]):
    """The table on top; the rest beside or below each other, as the width allows."""

    PANEL = VerificationPanel
    OPEN = opens("screen.hsd", "5", VerificationPanel, "HSD: the verdict on the draft, and other rules on it")
    KEYS, PAGES = SCAN_KEYS, SCAN_PAGES

    def parts(self) -> ComposeResult:
        """The scan of this round, then the run."""
        yield ScanTable(id="scan").data_bind(PanelPane.frame)
        with Horizontal(classes="pair"):
            yield StairChart(id="stairs").data_bind(PanelPane.frame)
            with Vertical(id="beside"):
                yield RuleBox(VerificationPanel, views.rules, _RULES, "rules").data_bind(PanelPane.frame)
                yield self.box(views.closing, "The row at the stop", "closing")
        yield self.box(views.branches, "Below each prefix", "branches")
        yield self.box(views.over_run, "Over the run · survival: observed against expected on these drafts", "over-run")

    def show(self, frame: Frame, model: VerificationModel) -> None:
        """What is known over the run stands there without a scan too."""
        self.query_one("#over-run").display = model.survival is not None and not model.survival.missing

    def action_move(self, direction: str) -> None:
        self.post_message(Moved(direction))


_RULES = "Same draft, same u · ▶ this run"


class ScanTable(FrameWidget):
    """The table, and below it the sentence on the position under the cursor. A click on a column chooses it."""

    EXPLAIN = "scan"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, int]] = []

    def part(self, frame: Frame) -> Scan | None:
        model = VerificationPanel.of(frame)
        return model.scan if model else None

    def show(self, frame: Frame | None) -> None:
        """The number of rows changes from phase to phase."""
        scan = self.part(frame) if frame else None
        self.border_title = Text(scan.title if scan is not None else "Scan")
        self.refresh(layout=True)

    def render(self) -> Text:
        scan = self.part(self.frame) if self.frame else None
        if scan is None:
            return Text("")
        text, self._spots = views.table(scan, self.painter, self.size.width or 80)
        return text.append("\n").append_text(views.said(scan.words, self.size.width or 80))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for x0, x1, node in self._spots:
            if offset is not None and x0 <= offset.x < x1:
                self.post_message(NodePicked(node))


class StairChart(FrameWidget):
    """The staircase, as high as the box, with its legend in the title."""

    EXPLAIN = "scan"

    def part(self, frame: Frame) -> RatioStairs | None:
        model = VerificationPanel.of(frame)
        return model.stairs if model else None

    def on_mount(self) -> None:
        self.border_title = Text(f"{PREFIX_RATIO} · {DOT} r  {CAP} its maximum  {WEIGHT} c")

    def render(self) -> Text:
        model = self.part(self.frame) if self.frame else None
        if model is None:
            return Text(" the target has not judged the draft yet", style=FAINT)
        return chart(model, self.painter, self.size.width, max(self.size.height - 1, 3))


class RuleBox(PanelBox):
    """Other rules on the same draft; the difference over the run below the box."""

    EXPLAIN = "rules"

    def show(self, frame: Frame | None) -> None:
        model = VerificationPanel.of(frame)
        known = [p for p in (model.paired if model else ()) if not p.missing]
        gains = [(k, Text(f"{p.gain.label} {p.gain.text}")) for k, p in enumerate(known)]
        self.border_subtitle = fitted(gains, max(self.size.width - 6, 20), " · ") if gains else ""
        super().show(frame)
