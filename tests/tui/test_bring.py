"""The door for what somebody has of another engine: pasted, or named; counts and rounds each find their screen."""

import threading
from pathlib import Path

import pytest
from textual.widgets import Static, TextArea

from specviz.errors import SpecvizError
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.bring import BringScreen, choices, read
from specviz_tui.screens.library import Library
from specviz_tui.screens.open import OpenScreen
from specviz_tui.watch.screen import WatchScreen
from support.live import WIDE, replay_app, shown

LOG = (
    "INFO 01-01 SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 3.00 tokens/s, Drafted "
    "throughput: 6.00 tokens/s, Accepted: 30 tokens, Drafted: 60 tokens, Per-position acceptance rate: 0.700, 0.500, "
    "0.300, Avg Draft acceptance rate: 50.0%"
)


async def test_a_pasted_log_is_shown_and_left_again(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        app._bring("")
        await pilot.pause()
        app.screen.query_one(TextArea).text = f"it was slow:\n> {LOG}\n> {LOG}\n"
        await pilot.press("ctrl+s")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, WatchScreen)
        assert "position 3" in shown(app)
        await pilot.press("q")
        await pilot.pause()
        assert not isinstance(app.screen, WatchScreen), "q leads back, and not out of the program"
        assert app.is_running


async def test_what_cannot_be_read_stays_with_the_reason(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        app._bring("")
        await pilot.pause()
        app.screen.query_one(TextArea).text = "nothing to\nsee here"
        await pilot.press("ctrl+s")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, BringScreen)
        hint = app.screen.query_one("#hint", Static)
        assert "what was pasted" in str(hint.render())
        assert hint.has_class("-refused")
        assert app.screen.query_one(TextArea).text == "nothing to\nsee here"


async def test_who_leaves_while_it_is_read_stays_away(chain_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr("specviz_tui.screens.bring.read", lambda text: go_on.wait(10) and Path("nowhere"))
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        app._bring("a file")
        await pilot.pause()
        await pilot.press("escape")
        go_on.set()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, OpenScreen)


async def test_the_list_has_the_door_and_the_logs_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.log").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    library = Library(look=list)
    app = SpecvizApp(library)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        if not isinstance(app.screen, OpenScreen):
            app.ask_what_to_open()
            await pilot.pause()
        await pilot.press("b", "down", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, WatchScreen)


def test_a_file_of_counts_and_one_of_rounds_become_traces(tmp_path: Path) -> None:
    file = tmp_path / "server.log"
    file.write_text(LOG)
    trace = read(str(file))
    assert isinstance(trace, Path)
    assert trace.parent != tmp_path, "nothing is written beside what was brought"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["server.log"]


@pytest.mark.parametrize("text", ["127.0.0.1:9", "http://127.0.0.1:9/metrics", "no/such/file.log", "\x00"])
def test_what_is_not_there_is_said(text: str) -> None:
    with pytest.raises(SpecvizError):
        read(text)


def test_few_files_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(40):
        (tmp_path / f"{k}.log").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert 2 <= len(list(choices())) <= 13
