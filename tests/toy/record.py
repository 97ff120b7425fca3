"""The record: what the drafter thought of its draft."""

from typing import ClassVar

from specviz.events.base import Count, Event, Level


class Guess(Event, tag="guess", kw_only=True):
    """How many tokens of its draft the toy drafter thought would be kept."""

    written_at: ClassVar[Level] = "summary"
    inside_round: ClassVar[bool] = True

    n: Count
