"""`Pace`: a core held to the view. One round is asked for whenever the last one has been shown to its end.

The worker runs it (`StepRounds`) while the last step of the round before is on screen, so the view waits for a slow
core only. At most one round is ahead: a knob takes effect in the round that comes next on screen.
"""

from specviz.view.play.player import Player

WATCHED = 2.0  # speed of a run that waits for the eye


class Pace:
    """For one run; another run needs another one."""

    def __init__(self) -> None:
        self._asked = -1  # rounds that were done when the next one was asked for

    def due(self, player: Player) -> bool:
        """Whether to ask for a round now; True once for every round. The run has begun and not ended."""
        rounds = player.run.rounds
        done = len(rounds) if not rounds or rounds[-1].complete else len(rounds) - 1
        if not player.at_end or done <= self._asked:
            return False
        self._asked = done
        return True
