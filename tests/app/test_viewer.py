"""`Viewer`: one tab's look at a run that goes on."""

from itertools import groupby
from pathlib import Path

import pytest

from specviz.commands import Command
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.runlog.fold import fold
from specviz.sources import TraceFile
from specviz_app.ui import viewer
from specviz_app.ui.viewer import Viewer
from support.traces import make_events, write_trace


class Growing:
    """A live source that hands over a round at a time."""

    live = True
    ended = False
    silence = None

    def __init__(self) -> None:
        events = make_events(temperature=0.8, new_tokens=40)
        self.parts = [list(part) for _, part in groupby(events, key=lambda event: event.r)]

    def poll(self) -> list[Event]:
        return self.parts.pop(0) if self.parts else []

    def send(self, command: Command) -> None:
        raise AssertionError("nobody sends anything here")

    def close(self) -> None:
        """Nothing is open."""


def test_who_looks_at_the_newest_round_goes_on_with_the_run() -> None:
    held = Viewer.of("live", Growing())
    for _ in range(4):
        held.refresh()
    assert len(held.player.run.rounds) == 4
    assert held.player.cursor.index == held.newest == 3
    held.seek(held.player.cursor.index - 1)
    held.refresh()
    assert held.player.cursor.index == 2
    held.seek(held.newest)
    held.refresh()
    assert held.player.cursor.index == held.newest == 5


def test_who_chose_something_stays() -> None:
    held = Viewer.of("live", Growing())
    for _ in range(3):
        held.refresh()
    held.choose(-1)
    held.refresh()
    assert held.player.cursor.index == 2
    assert held.place == "r3/root"


def test_a_viewer_that_is_opened_late_begins_at_the_newest_round() -> None:
    source = Growing()
    source.parts = [[event for part in source.parts[:6] for event in part], *source.parts[6:]]
    held = Viewer.of("live", source)
    assert held.player.cursor.index == held.newest == 4


def test_a_long_file_is_read_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "AT_A_TIME", 60)
    events = make_events(temperature=0.8, new_tokens=60)
    path = write_trace(tmp_path / "long", events)
    held = Viewer.of("long", TraceFile(path, at_a_time=60))
    assert held.reading
    assert 0 < len(held.player.run.rounds) < len(fold(events).rounds)
    while held.read_on():
        pass
    assert (held.reading, held.finished) == (False, True)
    assert list(held.player.run.rounds.points()) == list(fold(events).rounds.points())


def test_a_place_further_on_is_read_up_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "AT_A_TIME", 60)
    path = write_trace(tmp_path / "long", make_events(temperature=0.8, new_tokens=60))
    held = Viewer.of("long", TraceFile(path, at_a_time=60))
    n = len(held.player.run.rounds)
    held.go(f"r{n + 3}")
    assert held.place == f"r{n + 3}"
    with pytest.raises(SpecvizError):
        held.go("r9999")
    assert not held.reading, "all was read before it was refused"
