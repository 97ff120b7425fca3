"""Bookmarks of rounds: setting one, and the list that leads to them."""

from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import AskScreen, ListChoice, PickScreen, Question


class BookmarkActions(Actions):
    """Keys of bookmarks."""

    order = 16
    KEYS = (
        Key("bookmark", "b", "bookmark", "b", "bookmark this round", "Time", "bookmark", 17),
        Key("bookmarks", "B", "bookmarks", "B", "list of bookmarks", "Time"),
    )

    def action_bookmark(self) -> None:
        """Ask for a few words; empty ones are fine."""
        if self.player.run.rounds:
            where = "in the recording" if self.feed.recording else "until you leave"
            where = "beside the recording, which stays as it is" if self.feed.keeps_notes else where
            question = Question("Bookmark this round", f"a few words · enter keeps it {where}")
            self.controller.push(AskScreen(question), self._keep)

    def _keep(self, words: str) -> None:
        self.controller.attempt(lambda: self.feed.note(words))
        self.controller.paint_soon()

    def action_bookmarks(self) -> None:
        """A round may have several."""
        choices = [
            ListChoice(f"{record.index}-{k}", f"r{record.r}", note.text)
            for record in self.player.run.rounds
            for k, note in enumerate(record.notes)
        ]
        if choices:
            self.controller.push(PickScreen("Bookmarks", choices, ""), self._go_to)
        else:
            self.controller.notify("no bookmarks; b makes one")

    def _go_to(self, choice: str) -> None:
        self.controller.go(self.player.seek_index(int(choice.partition("-")[0])))
