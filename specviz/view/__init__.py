"""Turns events into frames, which both front-ends draw. No torch, no clock, no terminal.

The entry point is `Player`: feed it events (`extend`), move it (`next_step`, `seek`, `tick`), take its `frame(options,
feed)`.
"""

from specviz.runlog.fold import Run, fold
from specviz.view.frame.frame import FOLDINGS, Cursor, Feed, Frame, Options
from specviz.view.play.player import SPEEDS, WATCHED, Pace, Player
from specviz.view.words.palette import CLOSING, ROOT, Phase

__all__ = [
    "CLOSING",
    "FOLDINGS",
    "ROOT",
    "SPEEDS",
    "WATCHED",
    "Cursor",
    "Feed",
    "Frame",
    "Options",
    "Pace",
    "Phase",
    "Player",
    "Run",
    "fold",
]
