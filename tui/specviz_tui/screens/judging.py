"""Keys that lead from what is said of a run to what shows it: findings, and the rounds that are their evidence."""

from textual import on

from specviz.judge.finding import Finding
from specviz.view.frame.judgement import NO_JUDGEMENT
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import EvidenceAsked
from specviz_tui.screens.dialogs import ListChoice, PickScreen
from specviz_tui.screens.run_screen import RunScreen


class JudgingActions(RunScreen):
    """What stands out, and where."""

    def action_findings(self) -> None:
        """Every finding in full; enter goes to a round that shows it."""
        said = self.frame.judgement if self.frame is not None else NO_JUDGEMENT
        findings = said.findings
        if not findings:
            self.notify(f"{said.found}; 6 shows its numbers", markup=False)
            return
        choices = [
            ListChoice(str(k), finding.headline, finding.text + (f" ({finding.where})" if finding.where else ""))
            for k, finding in enumerate(findings)
        ]
        self.app.push_screen(
            PickScreen("What stands out", choices, "", "esc back", "goes to a round that shows it", wrap=True),
            lambda chosen: None if chosen is None else self.go_to_evidence(findings[int(chosen)], 0),
        )

    @on(EvidenceAsked)
    def _evidence_asked(self, message: EvidenceAsked) -> None:
        self.go_to_evidence(message.finding, message.place)

    def go_to_evidence(self, finding: Finding, place: int) -> None:
        """To a place that shows it, on the screen where it is seen best."""
        if not finding.places:
            self.turn_to(finding.screen)
            self.notify(finding.text, title=finding.headline, markup=False)
            return
        at = finding.places[place % len(finding.places)]
        self.go(self.feed.player.seek_index(at.index))
        self.turn_to(finding.screen)
        if finding.screen == TREE and at.node is not None:
            self.select(at.node)
        more = f" · {place % len(finding.places) + 1} of {len(finding.places)}" if len(finding.places) > 1 else ""
        self.notify(f"{at.label}{more}: 6 or i leads back", title=finding.headline, markup=False)
