"""What the picture of several texts is given: plain records, ready for JSON. Positions count from the prompt's end."""

import msgspec

from specviz.numerals import plural
from specviz.view.compare.aligned import Aligned, LaneRound, RunLane
from specviz.view.words.palette import STYLES

WINDOW = 600  # positions that are shown at a time


class ScoreToken(msgspec.Struct, frozen=True, array_like=True):
    """A committed token: its escaped text, its mark, and what a screen reader says of it."""

    shown: str
    mark: str
    spoken: str


class ScoreBlock(msgspec.Struct, frozen=True, array_like=True):
    """A round as it stands in this stretch of text. `rejected`: one of its drafted tokens was."""

    first: int
    stop: int
    place: str
    words: str
    rejected: bool


class ScoreLane(msgspec.Struct, frozen=True):
    """One run's line."""

    letter: str
    title: str
    tokens: tuple[ScoreToken, ...]
    blocks: tuple[ScoreBlock, ...]


class Score(msgspec.Struct, frozen=True):
    """`first`: position of the first tokens here; `n_same`: tokens that all runs begin with; `parted`: and then do not
    have in common. `marks`: glyph, and colour on a dark and a light ground."""

    first: int
    n_same: int
    parted: bool
    lanes: tuple[ScoreLane, ...]
    marks: dict[str, tuple[str, str, str]]


def score(text: Aligned, first: int = 0, n: int = WINDOW) -> Score:
    """A stretch of the texts."""
    lanes = tuple(_lane(lane, first, n) for lane in text.lanes)
    seen = {token.mark for lane in lanes for token in lane.tokens}
    looks = {str(mark): (style.glyph, style.dark, style.light) for mark, style in STYLES.items()}
    marks = {mark: look for mark, look in looks.items() if mark in seen}
    return Score(first, text.n_same, text.parted and text.same_prompt, lanes, marks)


def _lane(lane: RunLane, first: int, n: int) -> ScoreLane:
    stop = first + n
    tokens = tuple(
        ScoreToken(token.shown, token.mark, f"{lane.letter}, token {at}: {token.shown}, {token.mark}, {token.place}")
        for at, token in enumerate(lane.tokens[first:stop], first + 1)
    )
    blocks = tuple(
        ScoreBlock(max(block.first, first), min(block.stop, stop), block.place, wrote(block), block.rejected)
        for block in lane.rounds
        if block.first < stop and block.stop > first and block.stop > block.first
    )
    return ScoreLane(lane.letter, lane.title, tokens, blocks)


def wrote(block: LaneRound) -> str:
    """What a round wrote, in words."""
    sentence = f"{block.place} wrote {plural(block.stop - block.first, 'token')}"
    if not block.n_drafted:
        return sentence
    return f"{sentence}: {block.n_accepted} of {block.n_drafted} drafted were kept"
