"""The record of Lookahead decoding: its window and its pool."""

from typing import ClassVar

from specviz.events.base import Count, Event, Id, Level, PerRound


class Window(Event, tag="window", kw_only=True):
    """What a round fed besides the root, and what the pool held.

    `n_window`: tokens of the window fed; `n_guesses`: n-grams tried; `pool`: n-grams held; `added`: those of them that
    the round before brought and that were not there. `filled`: rows of the window that are grown; `ngram_size - 1`
    when it is warm. `rows[0]` begins with the newest token; a shorter window near the end of a context is empty.
    """

    written_at: ClassVar[Level] = "full"
    inside_round: ClassVar[bool] = True

    n_window: PerRound
    n_guesses: PerRound
    pool: Count
    added: PerRound
    filled: PerRound = 0
    rows: list[list[Id]] = []
