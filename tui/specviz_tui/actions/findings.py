"""Keys that lead from what is said of a run to what shows it: findings, and the rounds that are their evidence."""

from specviz.judge.finding import Finding
from specviz.view.frame.judgement import NO_JUDGEMENT
from specviz_tui.common.actions import Actions
from specviz_tui.common.controller import TREE
from specviz_tui.common.frame_widget import EvidenceAsked, ScreenMessage
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import ListChoice, PickScreen


class FindingActions(Actions):
    """What stands out, and where."""

    order = 20
    KEYS = (
        Key("findings", "i", "findings", "i", "what stands out in this run, each with the rounds that show it", "Time"),
    )

    def action_findings(self) -> None:
        """Every finding in full; enter goes to a round that shows it."""
        judgement = self.frame.judgement if self.frame is not None else NO_JUDGEMENT
        findings = judgement.findings
        if not findings:
            self.controller.notify(f"{judgement.found}; 6 shows its numbers")
            return
        choices = [
            ListChoice(str(k), finding.headline, finding.text + (f" ({finding.where})" if finding.where else ""))
            for k, finding in enumerate(findings)
        ]
        self.controller.push(
            PickScreen("What stands out", choices, "", "esc back", "goes to a round that shows it", wrap=True),
            lambda chosen: self._go_to(findings[int(chosen)], 0),
        )

    def heard(self, message: ScreenMessage) -> None:
        """A panel leads to evidence as well."""
        if isinstance(message, EvidenceAsked):
            self._go_to(message.finding, message.place)

    def _go_to(self, finding: Finding, place: int) -> None:
        """To a place that shows it, on the screen where it is seen best."""
        if not finding.places:
            self.controller.turn_to(finding.screen)
            self.controller.notify(finding.text, title=finding.headline)
            return
        at = finding.places[place % len(finding.places)]
        self.controller.go(self.player.seek_index(at.index))
        self.controller.turn_to(finding.screen)
        if finding.screen == TREE and at.node is not None:
            self.controller.select(at.node)
        more = f" · {place % len(finding.places) + 1} of {len(finding.places)}" if len(finding.places) > 1 else ""
        self.controller.notify(f"{at.label}{more}: 6 or i leads back", title=finding.headline)
