"""Recordings for panels that stay empty: the bundled one that fills a panel is offered in its place."""

from typing import Any

from specviz.sources.offers import RecordingOffer, recording_for
from specviz_tui.common.actions import Actions
from specviz_tui.common.frame_widget import OfferTaken, RecordingAsked, ScreenMessage
from specviz_tui.common.pane import PanelPane


class OfferActions(Actions):
    """Looks for them, a panel at a time, beside the screen."""

    def restart(self) -> None:
        self._offers: dict[str, RecordingOffer | None] = {}  # by the id of a panel that this run has nothing for

    def tick(self) -> None:
        """Look for one for the panel on screen, where this run has nothing for it."""
        pane, frame = self.controller.pane, self.frame
        if pane is None or pane.missing is None or pane.offer or frame is None or pane.PANEL.id not in frame.unfit:
            return
        pane.offer = " "
        self.controller.screen.run_worker(lambda: self._look_for_one(pane), thread=True)

    def _look_for_one(self, pane: PanelPane[Any, Any]) -> None:
        offer = recording_for(pane.PANEL)
        pane.app.call_from_thread(self._offer, pane, offer)

    def _offer(self, pane: PanelPane[Any, Any], offer: RecordingOffer | None) -> None:
        self._offers[pane.PANEL.id] = offer
        if offer is not None:
            key = "enter opens it" if not self.feed.has_core else "o opens it; the core here ends then"
            pane.offer = f"The recording {offer.name} has it: {key}."

    def heard(self, message: ScreenMessage) -> None:
        """Open the one that stands in the panel."""
        pane = self.controller.pane
        if isinstance(message, OfferTaken) and pane is not None and not self.feed.has_core:
            offer = self._offers.get(pane.PANEL.id)
            if offer is not None:
                self.controller.post(RecordingAsked(str(offer.path)))
