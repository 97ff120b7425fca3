"""Going to a place of a run: a round, a node, a time, a share or a piece of its text."""

from specviz.errors import SpecvizError
from specviz.view.play.seek import is_place
from specviz_tui.actions.finding import FindActions
from specviz_tui.common.actions import Actions
from specviz_tui.common.keymap import Key
from specviz_tui.screens.dialogs import AskScreen, Question

LONG = 2_000  # rounds from which on a text is looked for bit by bit
PLACES = "r37 · r37/n14 · q1/r3 · 12.5s since the start · 37%"
PLACE_HINT = f"{PLACES} · or a piece of the text"


class SeekActions(Actions):
    """The key that asks for a place, and the place where a run opens."""

    order = 12
    KEYS = (
        Key(
            "seek",
            "g",
            "seek",
            "g",
            "go to a round, a node (r37/n14), a time (2.5s), a share (37%) or a text",
            "Time",
            "seek",
            11,
        ),
    )

    _awaited = ""  # a place to go to once all of a big recording is known

    def begin(self, at: str | None) -> None:
        """Where the command line says; a recording from its first round on."""
        player, filling = self.player, self.feed.filling is not None
        self._awaited = ""
        if at and player.run.rounds:
            try:
                self.controller.select(player.seek(at))
            except SpecvizError as error:
                if filling:
                    self._awaited = at
                    player.seek_index(0)
                else:
                    self.controller.notify(str(error), severity="warning")
        elif not (self.feed.has_core or player.playing) and (self.feed.source.ended or filling) and player.run.rounds:
            player.seek_index(0)

    def tick(self) -> None:
        if self._awaited and self.feed.filling is None:
            self.begin(self._awaited)

    def action_seek(self) -> None:
        self.controller.push(AskScreen(Question("Go to", PLACE_HINT, check=self.seek, hints=self.place_hint)))

    def seek(self, place: str) -> None:
        """Go to a round, a node, a time or a text. Raises SpecvizError when there is no such place."""
        player, words, text = self.player, place.strip(), quoted_text(place)
        seconds, share = seconds_of(words), share_of(words)
        node = None
        if not player.run.rounds:
            raise SpecvizError("no round yet to go to")
        if seconds is not None:
            self._seek_seconds(seconds)
        elif share is not None:
            player.seek_index(round(share * (len(player.run.rounds) - 1)))
        elif is_place(words):
            try:
                node = player.seek(words)
            except SpecvizError as error:
                raise SpecvizError(f'{error}; "{words}", in quotes, is looked for in the text') from None
        elif text == "":
            raise SpecvizError('a text stands between the "')
        elif words and len(player.run.rounds) > LONG:
            self.controller.group(FindActions).find_text(text or place)
            return
        elif not player.seek_text(text or place):
            or_place = "" if text else f"; or write a place: {PLACES}"
            raise SpecvizError(f"'{text or place}' is not found in the text{or_place}")
        self.controller.go()
        if node is not None:
            self.controller.select(node)

    def _seek_seconds(self, seconds: float) -> None:
        """To the round that was going on then. Raises SpecvizError for a time behind the last round."""
        began, lasts = self._span()
        if not 0 <= seconds <= lasts:
            raise SpecvizError(f"no round at {seconds:g}s; the run goes from 0s to {lasts:.2f}s")
        self.player.seek_time(began + round(seconds * 1e9))

    def _span(self) -> tuple[int, float]:
        """When the first round began (ns of the trace's clock), and the seconds from there to the end."""
        run = self.player.run
        began, last = run.rounds.began(0), run.rounds.began(len(run.rounds) - 1)
        end = max(last, run.end.t) if run.end is not None else last
        return began, (end - began) / 1e9

    def place_hint(self, typed: str) -> str:
        """What a place leads to while it is typed: `round 37 of 120`; the forms of a place where it is none yet."""
        player, words = self.player, typed.strip()
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
