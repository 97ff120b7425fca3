"""The metric: what a round adds above and below the line."""

from specviz.metrics import ratio
from specviz.metrics.registry import RoundFigures
from toy.record import Guess


def declare() -> None:
    """Where an author decorates a function at the top of a module, here it waits to be called."""

    @ratio("guessed_right", unit="share", help="rounds whose guess came true", most=1.0)
    def guessed_right(at: RoundFigures) -> tuple[int, int] | None:
        """Rounds in which as many tokens were kept as guessed / rounds with a guess."""
        guess = at.record.first(Guess)
        return None if guess is None else (int(guess.n == at.end.n_accepted), 1)
