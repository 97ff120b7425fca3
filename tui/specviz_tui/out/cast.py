"""The screen as a recording of a terminal (asciicast v2), for asciinema and whoever plays its files."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.color import ColorSystem
from rich.style import Style
from textual.screen import Screen
from textual.strip import Strip

CLEAR, HOME, NEXT = "\x1b[2J\x1b[?25l", "\x1b[H", "\r\n"
_PLAIN = Style()


def painted(screen: Screen[Any]) -> str:
    """What is on a screen now, in the codes of a terminal."""
    return HOME + NEXT.join(_line(strip) for strip in screen._compositor.render_strips())  # no public name gives them


def _line(strip: Strip) -> str:
    pieces = (segment for segment in strip if not segment.control)
    return "".join((p.style or _PLAIN).render(p.text, color_system=ColorSystem.TRUECOLOR) for p in pieces)


def asciicast(frames: Sequence[tuple[float, str]], size: tuple[int, int], title: str) -> bytes:
    """Frames with the seconds at which they come, as a file: a head and one line each; the same frame twice is one."""
    head = {"version": 2, "width": size[0], "height": size[1], "title": title, "env": {"TERM": "xterm-256color"}}
    lines = [json.dumps(head), *_events(frames)]
    return ("\n".join(lines) + "\n").encode()


def _events(frames: Iterable[tuple[float, str]]) -> Iterable[str]:
    before = None
    for number, (at, text) in enumerate(frames):
        if text != before or number == 0:
            yield json.dumps([round(at, 3), "o", (CLEAR if number == 0 else "") + text])
        else:
            yield json.dumps([round(at, 3), "o", ""])
        before = text
