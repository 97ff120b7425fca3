"""Damage to traces, from a seed, and everything that looks at a trace: what is damaged is refused or shown, no more."""

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

from specviz.cli import main
from specviz.errors import SpecvizError
from specviz.sources import TraceFile
from specviz.view import Feed, Options
from specviz.view.frame.frame import Cursor
from specviz.view.panels import all_panels
from specviz.view.panels.lanes.build import LanesPanel
from specviz_app.server.core import ServedRun, Settings
from specviz_app.server.live_rounds import LiveRounds, now, run_key
from specviz_tui.common.feed import RunFeed

NUMBERS = (
    "-1",
    "0",
    "1",
    "2",
    "7",
    "-7",
    "0.5",
    "-0.5",
    "64",
    "4096",
    "65536",
    "1000000000",
    "-1000000000",
    "2147483647",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "100000000000000000000000",
    "1e-300",
    "1e300",
    "-1e300",
    "1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "null",
    "true",
    '"7"',
    "[]",
    "{}",
)
SCREENS = (
    Options(),
    *(Options(panels={panel.id: panel.options()}) for panel in all_panels()),
    LanesPanel.choose(Options(), clock="model"),
)
Lines = list[bytes]
_NUMBER = re.compile(rb"(?<=[:,\[])-?[0-9][0-9.e+-]*(?=[,\]}])")


def lines_of(path: Path) -> Lines:
    """A trace's lines with their newlines."""
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def few_rounds(lines: Lines, most: int = 6) -> Lines:
    """The first rounds and what follows the last one, so that a screen is quickly drawn."""
    ends = [k for k, line in enumerate(lines) if line.startswith(b'{"ev":"round_end"')]
    if len(ends) <= most:
        return lines
    return lines[: ends[most - 1] + 1] + [line for line in lines[ends[-1] + 1 :] if b'"ev":"end"' not in line]


def cut(lines: Lines, rng: random.Random) -> bytes:
    whole = b"".join(lines)
    return whole[: rng.randrange(len(lines[0]), len(whole))]


def cut_at_a_line(lines: Lines, rng: random.Random) -> bytes:
    return b"".join(lines[: rng.randrange(1, len(lines) + 1)])


def other_numbers(lines: Lines, rng: random.Random) -> bytes:
    """One to three numbers are others."""
    lines = list(lines)
    for _ in range(rng.randrange(1, 4)):
        k = rng.randrange(len(lines))
        matches = list(_NUMBER.finditer(lines[k]))
        if matches:
            at = rng.choice(matches)
            lines[k] = lines[k][: at.start()] + rng.choice(NUMBERS).encode() + lines[k][at.end() :]
    return b"".join(lines)


def near_numbers(lines: Lines, rng: random.Random) -> bytes:
    """Some numbers a little off: what no range can refuse."""
    lines = list(lines)
    for _ in range(rng.randrange(1, 9)):
        k = rng.randrange(1, len(lines))
        matches = [at for at in _NUMBER.finditer(lines[k]) if at[0].isdigit()]
        if matches:
            at = rng.choice(matches)
            other = str(max(0, int(at[0]) + rng.choice((-2, -1, 1, 2, 5)))).encode()
            lines[k] = lines[k][: at.start()] + other + lines[k][at.end() :]
    return b"".join(lines)


def moved_lines(lines: Lines, rng: random.Random) -> bytes:
    """Lines doubled, left out, swapped."""
    lines = list(lines)
    for _ in range(rng.randrange(1, 6)):
        a, b = (rng.randrange(1, len(lines)) for _ in range(2))
        how = rng.randrange(3)
        if how == 0:
            lines.insert(b, lines[a])
        elif how == 1 and len(lines) > 2:
            del lines[a]
        else:
            lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


DAMAGE: tuple[Callable[[Lines, random.Random], bytes], ...] = (
    cut,
    cut_at_a_line,
    other_numbers,
    near_numbers,
    moved_lines,
)


def look(path: Path) -> list[int]:
    """Everything that reads a trace, on this one: exit codes of the commands. Whatever is no SpecvizError is raised."""
    codes = [main(["stats", str(path), "--json"]), main(["stats", str(path), "--check"])]
    if b'"exit_table"' in path.read_bytes():
        codes.append(
            main(["whatif", str(path), "--sweep", "specbound", "--alpha", "0.5", "--tau", "0.5,0.9", "--json"])
        )
    try:
        frames(path, n=2)
    except SpecvizError:
        codes.append(2)
    return codes


def frames(path: Path, n: int = 4) -> int:
    """Every screen at the end of some rounds and in the middle of them, as terminal and browser show them; how many."""
    feed = RunFeed(TraceFile(path), "damaged", animate=False)
    try:
        feed.read()
    finally:
        feed.source.close()
    player, drawn, core = feed.player, 0, ServedRun(Settings())
    core.player = core.live_player = player
    last = len(player.run.rounds) - 1
    places = [player.cursor]
    for index in sorted({round(k * last / n) for k in range(n + 1)}) if last >= 0 else ():
        moments = player.builder.steps(index).moments
        places += [Cursor(index, *moments[k]) for k in sorted({0, len(moments) // 2, len(moments) - 1})]
    for place in places:
        for screen in SCREENS:
            frame = player.builder.frame(place, screen, Feed())
            drawn += 1
        now(frame, core)
    if places and player.run.rounds:
        for index in {place.index for place in places}:
            LiveRounds(core, run_key(core)).rounds(index, 1)
    return drawn
