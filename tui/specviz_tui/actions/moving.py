"""Moving through the time of a run: steps, phases, rounds, rejections, speed."""

from specviz_tui.common.actions import Actions
from specviz_tui.common.frame_widget import ScreenMessage, SeekAsked
from specviz_tui.common.keymap import Key


class MovingActions(Actions):
    """Keys of the player."""

    order = 10
    KEYS = (
        Key("play", "space", "play", "space", "pause or play", "Time", "play", 1, True),
        Key("step.next", "full_stop", "step(1)", ".", "next step: a level drafted, a test, a phase", "Time"),
        Key("step.previous", "comma", "step(-1)", ",", "previous step", "Time", "step", 2, True),
        Key("phase.next", "greater_than_sign", "phase(1)", ">", "next phase of the round", "Time"),
        Key("phase.previous", "less_than_sign", "phase(-1)", "<", "previous phase", "Time"),
        Key(
            "round.next",
            "right_square_bracket",
            "round(1)",
            "]",
            "next round; at the end of a held run: let the core run one",
            "Time",
        ),
        Key("round.previous", "left_square_bracket", "round(-1)", "[", "previous round", "Time", "round", 3, True),
        Key("rejection.next", "right_curly_bracket", "rejection(1)", "}", "next rejection", "Time"),
        Key(
            "rejection.previous",
            "left_curly_bracket",
            "rejection(-1)",
            "{",
            "previous rejection",
            "Time",
            "rejection",
            4,
            True,
        ),
        Key("first", "home", "first", "Home", "first round", "Time"),
        Key("last", "end", "last", "End", "last round; live: follow", "Time", "follow", 1, True),
        Key("slower", "minus", "speed(-1)", "-", "slower, down to a quarter", "Time"),
        Key("faster", "equals_sign,plus", "speed(1)", "=", "faster, up to 16×", "Time"),
        Key("speed.recorded", "0", "speed(0)", "0", "speed as recorded", "Time"),
    )

    def heard(self, message: ScreenMessage) -> None:
        """A click on the time line moves as well."""
        if isinstance(message, SeekAsked) and self.controller.allows("seek"):
            self.controller.go(self.player.seek_index(message.index))

    def action_play(self) -> None:
        """Pause or go on; a live recording never stops for it."""
        self.player.toggle()
        self.controller.paint_soon()

    def action_step(self, by: int) -> None:
        self.controller.go(self.player.next_step() if by > 0 else self.player.prev_step())

    def action_phase(self, by: int) -> None:
        self.controller.go(self.player.next_phase() if by > 0 else self.player.prev_phase())

    def action_round(self, by: int) -> None:
        """One round on or back; at the end of a held run the core runs one more."""
        if by > 0 and self.feed.running and self.feed.held and self.player.at_end:
            self.controller.ask_core(self.feed.step_core)
            return
        self.controller.go(self.player.next_round() if by > 0 else self.player.prev_round())

    def action_rejection(self, by: int) -> None:
        """To the next or the last rejection."""
        moved = self.player.next_rejection() if by > 0 else self.player.prev_rejection()
        if not moved:
            self.controller.notify(f"no {'later' if by > 0 else 'earlier'} rejection")
        self.controller.go(moved)

    def action_first(self) -> None:
        self.controller.go(self.player.first())

    def action_last(self) -> None:
        """The newest moment; live, stay with it."""
        self.feed.to_live()
        self.controller.go()

    def action_speed(self, by: int) -> None:
        if by == 0:
            self.player.as_recorded()
        else:
            self.player.faster(by)
        self.controller.paint_soon()
