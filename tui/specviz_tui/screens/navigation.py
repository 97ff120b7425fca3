"""Keys that only look: time, selection, form of the text and the tree."""

from dataclasses import replace

import msgspec

from specviz.errors import SpecvizError
from specviz.view.frame.run_header import WarningGroup, warning_groups
from specviz.view.play.seek import is_place
from specviz.view.words.numbers import plural
from specviz.view.words.palette import VALUE_MODES
from specviz_tui.common.paint import next_theme
from specviz_tui.screens.dialogs import AskScreen, ListChoice, PickScreen, Question
from specviz_tui.screens.run_screen import RunScreen
from specviz_tui.widgets.tree import TreeCanvas, neighbour
from specviz_tui.widgets.why_panel import WhyPanel

_NAMED = 12  # rounds of a warning that are named
PLACES = "r37 · r37/n14 · q1/r3 · 12.5s since the start · 37%"
PLACE_HINT = f"{PLACES} · or a piece of the text"


class LookingActions(RunScreen):
    """What only changes the view."""

    # Time ------------------------------------------------------------------------------------------------------------

    def action_play(self) -> None:
        """Pause or go on; a live recording never stops for it."""
        self.feed.player.toggle()
        self.paint_soon()

    def action_step(self, by: int) -> None:
        player = self.feed.player
        self.go(player.next_step() if by > 0 else player.prev_step())

    def action_phase(self, by: int) -> None:
        player = self.feed.player
        self.go(player.next_phase() if by > 0 else player.prev_phase())

    def action_round(self, by: int) -> None:
        """One round on or back; at the end of a held run the core runs one more."""
        player = self.feed.player
        if by > 0 and self.feed.running and self.feed.held and player.at_end:
            self.ask_core(self.feed.step_core)
            return
        self.go(player.next_round() if by > 0 else player.prev_round())

    def action_rejection(self, by: int) -> None:
        """To the next or the last rejection."""
        player = self.feed.player
        moved = player.next_rejection() if by > 0 else player.prev_rejection()
        if not moved:
            self.notify(f"no {'later' if by > 0 else 'earlier'} rejection", markup=False)
        self.go(moved)

    def action_first(self) -> None:
        self.go(self.feed.player.first())

    def action_last(self) -> None:
        """The newest moment; live, stay with it."""
        self.feed.to_live()
        self.go(True)

    def action_speed(self, by: int) -> None:
        player = self.feed.player
        if by == 0:
            player.as_recorded()
        else:
            player.faster(by)
        self.paint_soon()

    def action_seek(self) -> None:
        self.app.push_screen(AskScreen(Question("Go to", PLACE_HINT, check=self.seek, hints=self.place_hint)))

    def seek(self, place: str) -> None:
        """Go to a round, a node, a time or a text. Raises SpecvizError when there is no such place."""
        player, words = self.feed.player, place.strip()
        seconds, share, text = seconds_of(words), share_of(words), quoted_text(place)
        node = None
        if not player.run.rounds:
            raise SpecvizError("no round yet to go to")
        if seconds is not None:
            self._seek_seconds(seconds)
        elif share is not None:
            player.seek_index(round(share * (len(player.run.rounds) - 1)))
        elif text is not None:
            if not text or not player.seek_text(text):
                raise SpecvizError(f"'{text}' is not found in the text" if text else 'a text stands between the "')
        else:
            node = self._seek_words(place)
        self.go(True)
        if node is not None:
            self.select(node)

    def _seek_words(self, place: str) -> int | None:
        """To a place, or else to a piece of the text. Of what is written as a place the text is not looked through.

        Returns the node named, if any. Raises SpecvizError.
        """
        player, words = self.feed.player, place.strip()
        if is_place(words):
            try:
                return player.seek(words)
            except SpecvizError as error:
                raise SpecvizError(f'{error}; "{words}", in quotes, is looked for in the text') from None
        if not player.seek_text(place):
            raise SpecvizError(f"'{place}' is not found in the text; or write a place: {PLACES}")
        return None

    def _seek_seconds(self, seconds: float) -> None:
        """To the round that was going on then. Raises SpecvizError for a time behind the last round."""
        began, lasts = self._span()
        if not 0 <= seconds <= lasts:
            raise SpecvizError(f"no round at {seconds:g}s; the run goes from 0s to {lasts:.2f}s")
        self.feed.player.seek_time(began + round(seconds * 1e9))

    def _span(self) -> tuple[int, float]:
        """When the first round began (ns of the trace's clock), and the seconds from there to the end."""
        run = self.feed.player.run
        began, last = run.rounds.began(0), run.rounds.began(len(run.rounds) - 1)
        end = max(last, run.end.t) if run.end is not None else last
        return began, (end - began) / 1e9

    def place_hint(self, typed: str) -> str:
        """What a place leads to while it is typed: `round 37 of 120`; the forms of a place where it is none yet."""
        player, words = self.feed.player, typed.strip()
        n = len(player.run.rounds)
        share, seconds = share_of(words), seconds_of(words)
        if not words or not n:
            return PLACE_HINT
        if share is not None:
            return f"enter goes to round {round(share * (n - 1)) + 1} of {n}"
        if seconds is not None:
            return f"enter goes to {seconds:g}s of {self._span()[1]:.2f}s"
        if is_place(words):
            try:
                return f"enter goes to round {player.located(words)[0] + 1} of {n}"
            except SpecvizError as error:
                return str(error)
        if quoted_text(typed) is not None:
            return "enter goes to the next round that completes this text"
        return PLACE_HINT

    # Selection -------------------------------------------------------------------------------------------------------

    def move(self, direction: str) -> None:
        """To the neighbour of the selected node."""
        if self.frame is None:
            return
        node = neighbour(self.frame.tree, self.frame.selected, direction, self.query_one(TreeCanvas).listed)
        if node is not None:
            self.select(node)

    def action_why(self) -> None:
        """Pin the why panel, or let it go; on a narrow screen this opens and closes it."""
        panel = self.query_one(WhyPanel)
        panel.pinned = not panel.pinned
        selected = self.frame.selected if panel.pinned and self.frame else None
        self.select(selected)

    def action_back(self) -> None:
        """Close what is open, then let go of the node, then follow."""
        if any(pane.back() for pane in self.panes):
            return
        self.query_one(WhyPanel).pinned = False
        for pane in self.panes:
            pane.chosen = pane.chosen.clear_cursor()
        self.focus_main()
        self.select(None)

    def action_copy(self) -> None:
        """The node as JSON, to the clipboard of the terminal."""
        record = self.recorded_node()
        if record is None:
            self.notify("this node has no record of its own", markup=False)
            return
        self.app.copy_to_clipboard(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())
        self.notify("copied as JSON", markup=False)

    # Forms -----------------------------------------------------------------------------------------------------------

    def action_value(self) -> None:
        at = VALUE_MODES.index(self.feed.options.value)
        self.feed.options = replace(self.feed.options, value=VALUE_MODES[(at + 1) % len(VALUE_MODES)])
        self.paint_soon()

    def action_fold(self) -> None:
        """Leave the losers out, or show them again."""
        folded = self.feed.options.folding == "losers"
        self.feed.options = replace(self.feed.options, folding="pruned" if folded else "losers")
        self.paint_soon()

    def action_expand(self) -> None:
        self.feed.options = replace(self.feed.options, folding="none")
        self.paint_soon()

    def action_theme(self) -> None:
        next_theme(self.app)

    # Bookmarks --------------------------------------------------------------------------------------------

    def action_bookmark(self) -> None:
        """Ask for a few words; empty ones are fine."""
        if self.feed.player.run.rounds:
            where = "in the recording" if self.feed.recording else "until you leave"
            where = "beside the recording, which stays as it is" if self.feed.keeps_notes else where
            question = Question("Bookmark this round", f"a few words · enter keeps it {where}")
            self.app.push_screen(AskScreen(question), self._marked)

    def _marked(self, words: str | None) -> None:
        if words is not None:
            try:
                self.feed.note(words)
            except SpecvizError as error:
                self.notify(str(error), severity="warning", markup=False)
            self.paint_soon()

    def action_bookmarks(self) -> None:
        rounds = self.feed.player.run.rounds
        choices = [
            ListChoice(f"{record.index}-{k}", f"r{record.r}", note.text)  # a round may have several
            for record in rounds
            for k, note in enumerate(record.notes)
        ]
        if not choices:
            self.notify("no bookmarks; b makes one", markup=False)
            return
        self.app.push_screen(PickScreen("Bookmarks", choices, ""), self._go_to_mark)

    def _go_to_mark(self, index: str | None) -> None:
        at = (index or "").partition("-")[0]
        if at:
            self.go(self.feed.player.seek_index(int(at)))

    def action_warnings(self) -> None:
        """Every warning of the core in full, once; enter goes to the next round that has it."""
        found = warning_groups(self.feed.player.run)
        if not found:
            self.notify("the core has warned of nothing in this run", markup=False)
            return
        choices = [ListChoice(str(k), _counted(group), group.text) for k, group in enumerate(found)]
        n = sum(group.n for group in found)
        title = f"Warnings: {n:,}" + (f" of {plural(len(found), 'kind')}" if n > len(found) else "")
        self.app.push_screen(
            PickScreen(title, choices, "", "esc back", "goes to the next round that has it", wrap=True),
            lambda chosen: None if chosen is None else self._go_to_warning(found[int(chosen)]),
        )

    def _go_to_warning(self, group: WarningGroup) -> None:
        at = group.next(self.feed.player.cursor.index)
        if at is not None:
            self.go(self.feed.player.seek_index(at))


def _counted(group: WarningGroup) -> str:
    """`3 times: r2, r5, r9`."""
    times = f"{group.n:,} times" if group.n > 1 else ""
    named = ", ".join(label for _, label in group.places[:_NAMED])
    more = len(group.places) - _NAMED
    named += f" and {more:,} more" if more > 0 else ""
    return ": ".join(part for part in (times, named) if part) or "before the first round"


def share_of(words: str) -> float | None:
    """`37%` as .37; None for anything else. Raises SpecvizError for a share that no run has."""
    number = words.removesuffix("%").strip()
    if number == words or not number.replace(".", "", 1).isdecimal():
        return None
    share = float(number) / 100
    if share > 1:
        raise SpecvizError(f"{words} is behind the end; 0% is the first round, 100% the last")
    return share


def quoted_text(words: str) -> str | None:
    """What stands between two `"`; None for anything else."""
    inner = words.strip()
    return inner[1:-1] if len(inner) > 1 and inner[0] == inner[-1] == '"' else None


def seconds_of(words: str) -> float | None:
    """`12.5s` as seconds; None for anything else."""
    if not words.endswith("s"):
        return None
    try:
        return float(words[:-1])
    except ValueError:
        return None
