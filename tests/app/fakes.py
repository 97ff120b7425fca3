"""A core that follows a script, for the pages: its settings, and how to wait for what it does."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from specviz_app.server.core import Settings

FAKE = str(Path(__file__).with_name("fake_core.py"))


def fake_settings(pause: str = "0.02", *manner: str, **more: object) -> Settings:
    """A server whose worker is the fake one, which waits `pause` seconds between rounds."""
    return Settings(command=(sys.executable, FAKE, pause, *manner), **more)  # type: ignore[arg-type]


def until(true: Callable[[], object], what: str) -> None:
    """Wait for it, half a minute at most."""
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
