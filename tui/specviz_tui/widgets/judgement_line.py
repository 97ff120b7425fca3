"""The run in one line: tokens a round, speed-up over plain decoding, what stands out and the key that opens it."""

from rich.text import Text

from specviz.view.frame.frame import Frame
from specviz.view.frame.judgement import RunJudgement
from specviz_tui.common.frame_widget import FrameWidget
from specviz_tui.common.paint import FAINT, STRONG, fitted
from specviz_tui.widgets.status_line import does, faint

WAITING = "no round has ended yet: the judgement comes with the first ones"


class JudgementLine(FrameWidget):
    """Of what does not fit the later headlines go first, then the speed-up, which screen 6 has as well."""

    EXPLAIN = "judgement"

    def part(self, frame: Frame) -> tuple[RunJudgement, str]:
        return frame.judgement, frame.state.meanwhile

    def render(self) -> Text:
        if self.frame is None or not (judgement := self.frame.judgement).tokens:
            return Text(f" {WAITING}", style=FAINT)
        # What is not known of the speed goes before what was found, what is known before all of it but the first.
        speed = 1 if not judgement.findings else 4 if judgement.basis else 4 + len(judgement.findings)
        parts = [
            (0, Text(f" {judgement.tokens}", style=STRONG)),
            (
                speed,
                Text(judgement.speed, style=STRONG).append(
                    f" ({judgement.basis})" if judgement.basis else "", style=FAINT
                ),
            ),
            *((k, part) for k, part in self._findings(judgement)),
        ]
        if name := self.frame.state.meanwhile:
            of = Text(f" the recording {name}:", style=FAINT)
            parts = [(rank, of + faint(part) if k == 0 else faint(part)) for k, (rank, part) in enumerate(parts)]
        return fitted(parts, self.size.width, " · ")

    def _findings(self, judgement: RunJudgement) -> list[tuple[int, Text]]:
        if not judgement.findings:
            return [(4, Text(judgement.found, style=FAINT + does("go_to('overview')")))]
        style = self.painter.tint("recovered") + STRONG + does("findings")
        heads = [
            (3 if k == 0 else 4 + k, Text(finding.headline, style=style))
            for k, finding in enumerate(judgement.findings)
        ]
        return [(2, Text(f"{judgement.found}: i", style=style)), *heads]
