"""Marks: glyph first, colour second, words third; and the words a frame is made of. Okabe-Ito colours, never green
against red; light themes use darker tones. Without colour glyph and style word carry everything, also in ASCII.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Literal

from specviz.runlog.run import Mark

# Of a confusion cell: on the diagonal, right of it, left of it; left of it where the prediction made the slot give up.
RankCost = Literal["right", "narrow", "wide", "gave_up"]


BlockKind = Literal["draft", "branch", "verify", "hrad", "sync", "idle"]


CellKind = Literal["own", "catch_up", "align", "sweep"]  # of a row in a layer, docs/screens/panels.md


ROOT, CLOSING = -1, -2  # node ids of the root and of the token a round closes with

StateName = Literal["idle", "loading", "live", "paused", "replay", "ended", "lag", "silent", "error", "core_lost"]
# Colours of a run's promise: the distribution of plain decoding, another one, or unknown.
Tone = Literal["kept", "broken", "open"]
TONES: dict[Tone, str] = {"kept": "✓", "broken": "⚠", "open": "?"}
ValueName = Literal["q", "p", "p/q", "u", "rank"]
VALUE_MODES: tuple[ValueName, ...] = ("q", "p", "p/q", "u", "rank")
LinkShape = Literal["line", "tee", "branch", "corner", "bar"]  # ─── ─┬─ ├─ └─ │


class Phase(IntEnum):
    """The six phases of a round, in order."""

    ROOT = 1
    DRAFT = 2
    VERIFY = 3
    ACCEPT = 4
    CLOSE = 5
    COMMIT = 6


PHASE_WORDS: dict[Phase, str] = {
    Phase.ROOT: "ROOT",
    Phase.DRAFT: "DRAFT",
    Phase.VERIFY: "VERIFY",
    Phase.ACCEPT: "ACCEPT/REJECT",
    Phase.CLOSE: "RESAMPLE/BONUS",
    Phase.COMMIT: "COMMIT",
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a mark looks. `emphasis` is a Rich style word (`bold`, `underline`, `reverse`, `dim`), "" for none."""

    glyph: str
    ascii: str
    word: str
    dark: str
    light: str
    emphasis: str = ""


STYLES: dict[Mark, Style] = {
    "root": Style("●", "@", "committed", "#E6E6E6", "#1A1A1A", "bold"),
    "prompt": Style(" ", " ", "prompt", "#9A9A9A", "#5F5F5F", "dim"),
    "drafted": Style("?", "?", "drafted, not tested yet", "#F0E442", "#6F6000"),
    "testing": Style("?", "?", "being tested", "#F0E442", "#6F6000", "reverse"),
    "accepted": Style("✓", "+", "accepted", "#56B4E9", "#00669F", "bold"),
    "rejected": Style("✗", "x", "rejected", "#D55E00", "#A84300", "underline"),
    "recovered": Style("↻", "r", "recovered", "#E69F00", "#855600", "reverse"),
    "bonus": Style("★", "*", "bonus", "#009E73", "#00664B", "bold"),
    "plain": Style("◦", "-", "plain: nothing drafted stands before it", "#C8C8C8", "#4D4D4D"),
    "untested": Style("·", ".", "never tested", "#8C8C8C", "#636363", "dim"),
    "pruned": Style("·", ".", "pruned before the target saw it", "#8C8C8C", "#636363", "dim"),
    "exit": Style("⇥", ">", "early exit", "#CC79A7", "#8F3F6B"),
}

# The marks where a terminal has 16 colours. Rounded to them, rejected, recovered and drafted would all be yellow and
# others grey. These are the very tones that rounding knows (dark ground, light ground), so each stays itself.
SIXTEEN: dict[Mark, tuple[str, str]] = {
    "root": ("#FFFFFF", "#000000"),
    "prompt": ("#AAAAAA", "#555555"),
    "plain": ("#AAAAAA", "#555555"),
    "drafted": ("#FFFF55", "#AA5500"),
    "testing": ("#FFFF55", "#AA5500"),
    "accepted": ("#55FFFF", "#0000AA"),
    "rejected": ("#FF5555", "#AA0000"),
    "recovered": ("#FF55FF", "#AA00AA"),
    "bonus": ("#5555FF", "#00AAAA"),
    "untested": ("#AAAAAA", "#555555"),
    "pruned": ("#AAAAAA", "#555555"),
    "exit": ("#AA00AA", "#FF55FF"),
}

# How a cell of an early-exit round came about: a letter first, a colour second.
KINDS: dict[CellKind, Style] = {
    "own": Style("o", "o", "climbing by itself, to draft", "#56B4E9", "#00669F"),
    "catch_up": Style("c", "c", "taken along by a later row that drafted", "#E69F00", "#855600", "bold"),
    "align": Style("a", "a", "last climb, up to the deepest layer with a test", "#CC79A7", "#8F3F6B"),
    "sweep": Style("s", "s", "last climb, above it: the verification", "#009E73", "#00664B"),
}
# Confidence from faint to strong, after the colours of cividis; the glyph carries it without colour.
BANDS: tuple[Style, ...] = (
    Style("░", ".", "below .5", "#7F8FB0", "#9AA3B5"),
    Style("▒", "%", ".5 to .8", "#A5A28F", "#7D7A68"),
    Style("▓", "=", ".8 to .95", "#D3BF5F", "#575C6D", "bold"),
    Style("█", "#", ".95 or more", "#FEE838", "#00224E", "bold"),
)
BLOCKS: dict[BlockKind, Style] = {  # stretches of a lane
    "draft": Style("▣", "d", "draft", "#E69F00", "#855600"),
    "branch": Style("▥", "b", "branch", "#CC79A7", "#8F3F6B"),
    "verify": Style("▤", "v", "verify", "#56B4E9", "#00669F"),
    "hrad": Style("◇", "h", "H-RAD", "#F0E442", "#6F6000"),
    "sync": Style("‖", "|", "barrier", "#8C8C8C", "#636363"),
    "idle": Style("░", ".", "idle", "#8C8C8C", "#636363", "dim"),
}
VOID = Style("╳", "X", "rolled back", "#D55E00", "#A84300", "bold")
WOULD = Style("⇢", "~", "would exit at another threshold", "#CC79A7", "#8F3F6B", "bold")

# Predicted against true rank buckets, and where a drafted node came from: a sign first, a colour second.
COSTS: dict[RankCost, Style] = {
    "right": Style("=", "=", "right bucket", "#56B4E9", "#00669F", "bold"),
    "narrow": Style("›", ">", "too narrow: the round may end there", "#D55E00", "#A84300", "bold"),
    "wide": Style("‹", "<", "too wide: nodes that buy nothing", "#E69F00", "#855600"),
    "gave_up": Style("⊘", "!", "stopped widening within reach: no siblings, no further", "#CC79A7", "#8F3F6B"),
}

STATES: dict[StateName, tuple[str, str, str]] = {  # glyph, ascii, word
    "idle": ("○", "o", "IDLE"),
    "loading": ("◐", "~", "LOADING"),
    "live": ("●", "@", "LIVE"),
    "paused": ("‖", "=", "PAUSED"),
    "replay": ("▸", ">", "REPLAY"),
    "ended": ("■", "#", "ENDED"),
    "lag": ("⚠", "!", "LAG"),
    "silent": ("⚠", "!", "NO ANSWER"),
    "error": ("╳", "X", "ERROR"),
    "core_lost": ("⊗", "X", "CORE LOST"),
}

LINKS: dict[LinkShape, tuple[str, str]] = {  # drawn in three cells, the middle one under the stem
    "line": ("───", "---"),
    "tee": ("─┬─", "-+-"),
    "branch": (" ├─", " +-"),
    "corner": (" └─", " `-"),
    "bar": (" │ ", " | "),
}


def glyph(mark: Mark, ascii: bool = False) -> str:
    """The one-cell glyph of a mark."""
    style = STYLES[mark]
    return style.ascii if ascii else style.glyph


def word(mark: Mark) -> str:
    """The mark in words, for screen readers and tables."""
    return STYLES[mark].word


def colour(mark: Mark, dark: bool = True) -> str:
    """The hex colour of a mark on a dark or light ground."""
    return STYLES[mark].dark if dark else STYLES[mark].light


def rich_style(mark: Mark, dark: bool = True, no_color: bool = False, sixteen: bool = False) -> str:
    """A Rich style: `bold #56B4E9`, or the emphasis alone without colour. `sixteen`: colours are all there are."""
    if sixteen and not no_color:
        return f"{STYLES[mark].emphasis} {SIXTEEN[mark][0 if dark else 1]}".strip()
    return rich(STYLES[mark], dark, no_color)


def rich(style: Style, dark: bool = True, no_color: bool = False) -> str:
    """The Rich style of any of these styles."""
    return style.emphasis if no_color else f"{style.emphasis} {style.dark if dark else style.light}".strip()


def link(shape: LinkShape, ascii: bool = False) -> str:
    """The three cells of a connecting line."""
    return LINKS[shape][1 if ascii else 0]


def no_color(environ: Mapping[str, str] | None = None) -> bool:
    """The NO_COLOR convention: set and not empty means no colour."""
    return bool((os.environ if environ is None else environ).get("NO_COLOR"))


LEAST = 4.5  # of text in its ordinary size
_STEPS = 32
Rgb = tuple[int, int, int]


def parse(colour: str) -> Rgb:
    """`#56B4E9` as numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: Rgb) -> float:
    """Relative luminance, 0 black to 1 white."""
    red, green, blue = (_linear(channel / 255) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def contrast(one: Rgb, other: Rgb) -> float:
    """From 1 (the same) to 21 (black on white)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(4096)
def legible(colour: Rgb, ground: Rgb, least: float = LEAST) -> Rgb:
    """The colour itself when it can be read on the ground, else the nearest that can on its way to white or black.

    The hue stays as long as there is any left; the way that takes fewer steps is taken.
    """
    if contrast(colour, ground) >= least:
        return colour
    for step in range(1, _STEPS + 1):
        for end in ((0, 0, 0), (255, 255, 255)):
            r, g, b = (round(c + (e - c) * step / _STEPS) for c, e in zip(colour, end, strict=True))
            if contrast((r, g, b), ground) >= least:
                return r, g, b
    return colour  # never: black or white is 4.58 away from any colour
