"""Screen 6: the run judged. Findings with their evidence, acceptance by position, calibration, where time goes."""

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from specviz.view.frame.frame import Frame
from specviz.view.panels.overview.build import OverviewPanel
from specviz.view.panels.overview.model import Overview, OverviewOptions
from specviz_tui.common.blocks import LEGEND
from specviz_tui.common.frame_widget import EvidenceAsked
from specviz_tui.common.keymap import Key, page_keys
from specviz_tui.common.pane import PanelPane, opens
from specviz_tui.panels import overview_views as views

OVERVIEW_KEYS: tuple[Key, ...] = (
    Key("overview.previous", "up,k", "finding(-1)", "↑ k", "the finding before; without findings: scroll", "Overview"),
    Key("overview.next", "down,j", "finding(1)", "↓ j", "the next finding; without findings: scroll", "Overview"),
    Key(
        "overview.evidence",
        "enter",
        "evidence",
        "enter",
        "go to a round that shows the finding",
        "Overview",
        "evidence",
    ),
    *page_keys("overview", "Overview"),
)
OVERVIEW_PAGES = {
    "overview": (
        "Overview: the run judged",
        "The first line is the run in short: tokens a round, and how many times as fast as plain decoding it "
        "was. measured: what one plain round takes was timed, in this run or alone; modelled: it was worked out; "
        "cannot tell: other programs, or this screen, worked beside the run and not beside the timing. The line below "
        "says how. Time spent on recording is left out of it.\n\n"
        "A finding is something a rule saw that chance does not explain: a draft that is never kept, a position from "
        "which on little is, a draft that is surer than the target, a draft dearer than it pays. ↑ ↓ choose one, enter "
        "goes to a round that shows it, again to the next. i lists them from every screen.\n\n"
        "Acceptance: of the tokens tested at a position of the draft, so many were kept, with Wilson's 95 % interval: "
        "█ up to its lower end, ▒ on to its upper one. On trees depth counts every sibling, position every round once.",
    ),
    "calibration": (
        "Calibration",
        "Drafted tokens on a right prefix, sorted by the probability q that the draft gave them. Beside the mean of q "
        "stand the mean of p, what the target gave the same tokens, and the share that was kept. A draft that is "
        "well calibrated has both alike. Where q is above p the draft is overconfident: thresholds on its "
        "confidence (τ, ε) then let too much through. At temperature 0 p is 1 or 0, its mean the share that agrees.",
    ),
}


class OverviewPane(PanelPane[OverviewOptions, Overview]):
    """The judgement on top; curves beside what they cost, as the width allows."""

    PANEL = OverviewPanel
    OPEN = opens("screen.overview", "6", OverviewPanel, "Overview: the run judged, findings and their evidence")
    KEYS, PAGES = OVERVIEW_KEYS, OVERVIEW_PAGES

    def __init__(self) -> None:
        super().__init__()
        self._seen = (-1, -1)  # the finding whose evidence was gone to last, and which place of it

    def parts(self) -> ComposeResult:
        """From the run as a whole to its numbers."""
        yield self.box(views.judgement, "The run", "judged")
        with Horizontal(classes="pair"):
            yield self.box(views.curves, f"Acceptance · {LEGEND}", "curves")
            with Vertical(id="costs"):
                yield self.box(views.calibration, "Calibration · q against p", "calibration")
                yield self.box(views.stages, "Where time goes", "stages")
        yield self.box(views.numbers, "Numbers", "all-numbers")

    def show(self, frame: Frame, model: Overview) -> None:
        findings = model.judgement.found
        self.query_one("#judged").border_subtitle = findings if model.judgement.findings else ""

    def restart(self) -> None:
        super().restart()
        self._seen = (-1, -1)

    def action_finding(self, by: int) -> None:
        """The cursor over the findings; where there is at most one, the keys scroll."""
        model = self.model
        n = len(model.judgement.findings) if model is not None else 0
        if n < 2:
            self.action_scroll(by)
        else:
            self.choose(finding=((self.chosen.finding or 0) + by) % n)

    def action_evidence(self) -> None:
        """To a round that shows the chosen finding; the next one each time."""
        model = self.model
        if model is None or not model.judgement.findings:
            return
        at = min(self.chosen.finding or 0, len(model.judgement.findings) - 1)
        place = self._seen[1] + 1 if self._seen[0] == at else 0
        self._seen = (at, place)
        self.post_message(EvidenceAsked(model.judgement.findings[at], place))
