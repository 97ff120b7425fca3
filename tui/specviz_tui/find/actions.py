"""Keys that look for something: a filter over rounds and nodes, its matches, a text in a long run.

A long run is looked through a little at every tick, so that the screen goes on meanwhile.
"""

import time
from collections.abc import Iterator

from specviz.errors import SpecvizError
from specviz.view.find.expression import Filter
from specviz.view.find.fields import HINT, NAMES
from specviz.view.find.search import FoundPlace, filter_for, search
from specviz.view.play.seek import is_place
from specviz_tui.find.find_line import FindLine
from specviz_tui.screens.dialogs import AskScreen, Question
from specviz_tui.screens.navigation import LookingActions, quoted_text, seconds_of, share_of
from specviz_tui.screens.talk import TalkActions

AT_ONCE_S = 0.04  # of looking before the screen is painted again
TICK_S = 0.02  # and at every tick
LONG = 2_000  # rounds from which on a text is looked for bit by bit


class FindActions(TalkActions, LookingActions):
    """What is looked for, and where it was found last."""

    _wanted: Filter | None = None
    _typed = ""
    _text = ""  # that is looked for instead of a filter
    _match: FoundPlace | None = None
    _going: Iterator[FoundPlace | None] | None = None
    _n_seen = 0  # rounds without a match

    def action_find(self) -> None:
        """Ask for a filter; what is wrong with it is said there."""
        if self.feed.player.run.rounds:
            self.app.push_screen(
                AskScreen(
                    Question("Find rounds and nodes", f"{HINT} · ? lists the names", self._typed, check=self.find)
                )
            )

    def find(self, typed: str) -> None:
        """Go to the first match from here on. An empty filter ends the search. Raises SpecvizError."""
        if not typed.strip():
            self.leave_find()
            return
        if typed.strip() == "?":
            raise SpecvizError(NAMES)
        self._wanted = filter_for(self.feed.player.run, typed)
        self._typed, self._text, self._match = typed, "", None
        self.app.clear_notifications()  # on a small screen they cover the line that says what is found
        self._look(1)

    def action_match(self, by: int) -> None:
        """The next match, or the one before."""
        if self._wanted is None:
            self.action_find()
        else:
            self._look(by)

    def action_new_conversation(self) -> None:
        """With a filter in force the key goes back a match."""
        if self._wanted is not None:
            self._look(-1)
        else:
            super().action_new_conversation()

    def leave_find(self) -> bool:
        """Nothing is looked for any more. Whether anything was."""
        was = self._wanted is not None or self._going is not None
        self._wanted = self._going = self._match = None
        self._text = ""
        self.query_one(FindLine).say("", "")
        return was

    def action_back(self) -> None:
        if not self.leave_find():
            super().action_back()

    def _look(self, by: int) -> None:
        assert self._wanted is not None
        player = self.feed.player
        here = player.cursor.index
        node = None
        if self._match is not None and self._match.index == here:
            selected = self.feed.options.selected
            node = self._match.node if selected is None else selected
        self._going, self._n_seen = search(player.run, self._wanted, here, node, by), 0
        self._go_on(AT_ONCE_S)

    def find_tick(self) -> None:
        """Look on; another run has nothing that was found."""
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
                    self.notify(f"'{self._text}' is not found in the text", severity="warning", markup=False)
                    self.leave_find()
                return
            if match is not None:
                self._going = None
                self._arrive(match)
                return
            self._n_seen += 1
            if time.monotonic() >= until:
                break
        self._tell_matches(f"looked through {self._n_seen:,} of {len(self.feed.player.run.rounds):,} rounds …")

    def _arrive(self, match: FoundPlace) -> None:
        player = self.feed.player
        self._match = match
        player.seek_index(match.index)
        self.go(True)
        if match.node is not None:
            self.select(match.node)
        if self._text:
            self.leave_find()
            return
        q, r = player.run.rounds.place(match.index)
        place = f"q{q} r{r}" if len(player.run.queries) > 1 else f"r{r}"
        node = "" if match.node is None else f" n{match.node}"
        several = f" · {match.number} of {match.of} in this round" if match.of > 1 else ""
        self._tell_matches(f"{place}{node}{several}")

    def _tell_matches(self, text: str) -> None:
        wanted = self._wanted.text if self._wanted is not None else self._text
        self.query_one(FindLine).say(wanted, text)

    def seek(self, place: str) -> None:
        """As for any run; a text in a long one is looked for bit by bit. Raises SpecvizError."""
        player, words = self.feed.player, place.strip()
        is_time = seconds_of(words) is not None or share_of(words) is not None
        if len(player.run.rounds) <= LONG or is_place(words) or is_time or not words:
            super().seek(place)
            return
        self.leave_find()
        place = quoted_text(place) or place
        self._text, self._n_seen = place, 0
        self._going = (None if index is None else FoundPlace(index, None) for index in player.text_places(place))
        self._go_on(AT_ONCE_S)
