"""A real run: a core of its own decodes with the embedded pair, and a real terminal draws it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.terminals import OnPty, Terminal, real_terminal, wait_for
from support.traces import make_events, write_trace

ROOT = Path(__file__).resolve().parents[2]
PHASES = ("1/6 ROOT", "2/6 DRAFT", "3/6 VERIFY", "4/6 ACCEPT", "5/6", "6/6 COMMIT")
LIVE = ("--example", "code", "--method", "draft", "--temperature", "0.8", "--max-new-tokens", "24")


def env(folder: Path) -> dict[str, str]:
    """The package as it stands here, with caches and settings of its own."""
    roots = [ROOT, *(ROOT / name for name in ("tui", "app", "assets", "train", "lab"))]
    own = {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**inherited, **own, "PYTHONPATH": os.pathsep.join(map(str, roots)), "TERM": "xterm-256color"}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Terminal]:
    argv = [sys.executable, "-m", "specviz", "tui", *LIVE]
    terminal = real_terminal()(argv, env(tmp_path), tmp_path)
    yield terminal
    terminal.close()


def test_frames_of_every_phase_of_a_live_run_are_drawn(live: Terminal) -> None:
    """The core waits for the eye, so that nothing that it does is passed over; nobody presses a key."""
    wait_for(live, "Draft tree", "LIVE")  # a recording plays while the model is loaded
    wait_for(live, *PHASES, since=len(live.sent()))
    live.press("q")


def test_every_phase_of_a_round_is_drawn_while_it_plays(tmp_path: Path) -> None:
    """Home goes to the bare root; space plays from there, step by step. On the bare terminal, wherever tmux is."""
    trace = write_trace(tmp_path / "run", make_events(shape="tree", temperature=0.8))
    terminal = OnPty([sys.executable, "-m", "specviz", "tui", "--replay", str(trace)], env(tmp_path), tmp_path)
    try:
        wait_for(terminal, "Draft tree")
        terminal.press("Home")
        wait_for(terminal, PHASES[0])
        terminal.press("Space")
        wait_for(terminal, *PHASES)
    finally:
        terminal.close()
