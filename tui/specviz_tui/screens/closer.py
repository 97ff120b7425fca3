"""Keys that look closer: a node decided again, one part on the whole screen, the recording that fills a panel."""

from typing import Any

from textual import on
from textual.widgets import Input

from specviz.sources.offers import RecordingOffer, recording_for
from specviz_tui.common.frame_widget import OfferTaken, RecordingAsked
from specviz_tui.common.pane import PanelPane
from specviz_tui.screens.again import AgainScreen
from specviz_tui.screens.run_screen import RunScreen
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.why_panel import WhyPanel

ZOOMS = ("tree", "why", "text", "panel")
NOT_YET = "its verdict is still to come: . goes on"


class CloserActions(RunScreen):
    """What needs no core and moves nothing."""

    def action_again(self) -> None:
        """Decide the node under the cursor again."""
        frame = self.frame
        if frame is None or frame.why is None or not frame.timeline.points:
            return
        if not frame.why.decided:
            self.notify(NOT_YET, markup=False)
            return
        run = self.feed.player.run
        record = run.rounds[frame.cursor.index]
        self.app.push_screen(AgainScreen(run, record, frame.why, self.feed.options.ascii))

    def action_zoom(self) -> None:
        """The part in focus on the whole screen, or all parts again."""
        if self.has_class("-zoom"):
            self.remove_class("-zoom", *(f"-zoom-{part}" for part in ZOOMS))
            return
        at = self.focused
        part = "tree"
        if isinstance(at, WhyPanel):
            part = "why"
        elif isinstance(at, TextStrip):
            part = "text"
        elif self.pane is not None and not isinstance(at, Input):
            part = "panel"
        self.add_class("-zoom", f"-zoom-{part}")

    # Recordings for panels that stay empty ---------------------------------------------------------------------------

    def offer_recording(self) -> None:
        """Look for a recording that fills the panel on screen, where this run does not."""
        pane = self.pane
        if pane is None or pane.missing is None or pane.offer or pane.PANEL.id not in self._unfit():
            return
        pane.offer = " "
        self.run_worker(lambda: self._look_for_one(pane), thread=True)

    def _unfit(self) -> frozenset[str]:
        return self.frame.unfit if self.frame is not None else frozenset()

    def _look_for_one(self, pane: PanelPane[Any, Any]) -> None:
        found = recording_for(pane.PANEL)
        self.app.call_from_thread(self._offer, pane, found)

    def _offer(self, pane: PanelPane[Any, Any], found: RecordingOffer | None) -> None:
        self._offers[pane.PANEL.id] = found
        if found is not None:
            key = "enter opens it" if not self.feed.has_core else "o opens it; the core here ends then"
            pane.offer = f"The recording {found.name} has it: {key}."

    @on(OfferTaken)
    def _taken(self) -> None:
        pane = self.pane
        found = self._offers.get(pane.PANEL.id) if pane is not None else None
        if found is not None and not self.feed.has_core:
            self.post_message(RecordingAsked(str(found.path)))
