"""Finding rounds and nodes by a filter, and a text in a long run.

A long run is looked through a little at every tick, so that the screen goes on meanwhile.
"""

import time
from collections.abc import Iterator

from specviz.errors import SpecvizError
from specviz.view.find.expression import Filter
from specviz.view.find.fields import HINT, NAMES
from specviz.view.find.search import FoundPlace, filter_for, search
from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import AskScreen, Question
from specviz_tui.widgets.find_line import FindLine

AT_ONCE_S = 0.04  # of looking before the screen is painted again
TICK_S = 0.02  # and at every tick


class FindActions(Actions):
    """What is looked for, and where it was found last."""

    order = 14
    KEYS = (
        Key(
            "find",
            "slash",
            "find",
            "/",
            "find rounds and nodes: depth>2 and p/q<.3, rejected and q>.5",
            "Time",
            "find",
            10,
        ),
        Key("match.next", "n", "match(1)", "n", "next match; N: the one before", "Time"),
    )

    _wanted: Filter | None = None
    _typed = ""
    _text = ""  # that is looked for instead of a filter
    _match: FoundPlace | None = None
    _going: Iterator[FoundPlace | None] | None = None
    _n_seen = 0  # rounds without a match

    def action_find(self) -> None:
        """Ask for a filter; what is wrong with it is said there."""
        if self.player.run.rounds:
            hint = f"{HINT} · ? lists the names"
            self.controller.push(AskScreen(Question("Find rounds and nodes", hint, self._typed, check=self.find)))

    def find(self, typed: str) -> None:
        """Go to the first match from here on. An empty filter ends the search. Raises SpecvizError."""
        if not typed.strip():
            self.leave()
            return
        if typed.strip() == "?":
            raise SpecvizError(NAMES)
        self._wanted = filter_for(self.player.run, typed)
        self._typed, self._text, self._match = typed, "", None
        self.controller.screen.app.clear_notifications()  # they may cover what is found
        self.look(1)

    def action_match(self, by: int) -> None:
        """The next match, or the one before."""
        if self._wanted is None:
            self.action_find()
        else:
            self.look(by)

    @property
    def looks(self) -> bool:
        """Whether a filter is in force."""
        return self._wanted is not None

    def restart(self) -> None:
        self.leave()

    def leave(self) -> bool:
        """Nothing is looked for any more. Whether anything was."""
        was = self._wanted is not None or self._going is not None
        self._wanted = self._going = self._match = None
        self._text = ""
        self.controller.widget(FindLine).say("", "")
        return was

    def look(self, by: int) -> None:
        """The next match in a direction."""
        assert self._wanted is not None
        player = self.player
        here = player.cursor.index
        node = None
        if self._match is not None and self._match.index == here:
            selected = self.feed.options.selected
            node = self._match.node if selected is None else selected
        self._going, self._n_seen = search(player.run, self._wanted, here, node, by), 0
        self._go_on(AT_ONCE_S)

    def tick(self) -> None:
        """Look on."""
        if self._going is not None:
            self._go_on(TICK_S)

    def _go_on(self, seconds: float) -> None:
        until, going = time.monotonic() + seconds, self._going
        assert going is not None
        while True:
            try:
                match = next(going)
            except StopIteration:
                self._going = None
                self._tell_matches("nothing in this run" if self._match is None else "no other")
                if self._text:
                    self.controller.notify(f"'{self._text}' is not found in the text", severity="warning")
                    self.leave()
                return
            if match is not None:
                self._going = None
                self._arrive(match)
                return
            self._n_seen += 1
            if time.monotonic() >= until:
                break
        self._tell_matches(f"looked through {self._n_seen:,} of {len(self.player.run.rounds):,} rounds …")

    def _arrive(self, match: FoundPlace) -> None:
        player = self.player
        self._match = match
        player.seek_index(match.index)
        self.controller.go()
        if match.node is not None:
            self.controller.select(match.node)
        if self._text:
            self.leave()
            return
        q, r = player.run.rounds.place(match.index)
        place = f"q{q} r{r}" if len(player.run.queries) > 1 else f"r{r}"
        node = "" if match.node is None else f" n{match.node}"
        several = f" · {match.number} of {match.of} in this round" if match.of > 1 else ""
        self._tell_matches(f"{place}{node}{several}")

    def _tell_matches(self, text: str) -> None:
        wanted = self._wanted.text if self._wanted is not None else self._text
        self.controller.widget(FindLine).say(wanted, text)

    def find_text(self, text: str) -> None:
        """Go to the next round that completes a text, looked for bit by bit."""
        self.leave()
        self._text, self._n_seen = text, 0
        self._going = (None if index is None else FoundPlace(index, None) for index in self.player.text_places(text))
        self._go_on(AT_ONCE_S)
