"""A/B: which two settings the prompt of the run is decoded under."""

from typing import Any

from specviz.errors import SpecvizError
from specviz.sources.two_settings import ABSettings, two_settings
from specviz_tui.common.actions import Actions, asks_core
from specviz_tui.common.keymap import Key
from specviz_tui.compare.two import TwoScreen, example
from specviz_tui.screens.dialogs import AskScreen, Question
from specviz_tui.screens.settings import parse_settings

_HINT = "values to try against those of the run: "


class TwoActions(Actions):
    """The key that begins an A/B."""

    order = 54
    KEYS = (
        Key("two", "A", "try_both", "A", "live: A/B, this prompt under two settings side by side", "Run", "A/B", 16),
    )

    @asks_core
    def action_try_both(self) -> None:
        """What is staged against what stands; else what stands against what the run began with; else ask."""
        if self.feed.run.header is None or self.feed.started is None:
            raise SpecvizError("nothing was decoded yet: p starts a prompt, A then tries it under two settings")
        if self.feed.preparing:
            raise SpecvizError("the run is about to begin: A tries it when it has")
        staged = self.feed.edits.staged
        asked = two_settings(self.feed, dict(staged) if staged else None)
        if asked is not None:
            self._begin(asked)
            return
        hint = _HINT + example(self.feed.run)
        question = Question("A/B: the same prompt again, and with", hint, check=self._tried)
        self.controller.push(
            AskScreen(question), lambda typed: self.controller.ask_core(lambda: self._begin(self._tried(typed)))
        )

    def _tried(self, typed: str) -> ABSettings:
        """What was typed as two settings. Raises SpecvizError with what is wrong with it."""
        header = self.feed.run.header
        values: dict[str, Any] = parse_settings(typed, header.knob_specs if header is not None else [])
        if not values:
            raise SpecvizError(f"name a knob and another value for it: {example(self.feed.run)}")
        asked = two_settings(self.feed, values)
        if asked is None:
            raise SpecvizError("the run has these values already: name another one")
        return asked

    def _begin(self, asked: ABSettings) -> None:
        self.controller.push(TwoScreen(self.feed, asked))
