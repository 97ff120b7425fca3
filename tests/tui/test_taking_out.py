"""What the screen gives out: every kind of file, a link that leads back, nothing written over."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from specviz.cli import main as specviz
from specviz.trace import read_events
from specviz_tui.actions import exporting
from specviz_tui.screens.dialogs import PickScreen
from support.live import WIDE, Script, live_app, main_of, replay_app
from support.recordings import RECORDINGS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def taken(pilot, what: str) -> None:  # type: ignore[no-untyped-def]
    await pilot.press("e")
    await pilot.pause()
    assert isinstance(pilot.app.screen, PickScreen)
    pilot.app.screen.dismiss(what)
    await pilot.pause()  # what was picked begins its work
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def only(folder: Path, pattern: str) -> Path:
    paths = list(folder.glob(pattern))
    assert len(paths) == 1, (pattern, [path.name for path in folder.iterdir()])
    return paths[0]


async def test_every_kind_of_file(tree_trace: Path, here: Path) -> None:
    """For those alone who may read the trace."""
    mine = here / "run.sv.jsonl"
    mine.write_bytes(tree_trace.read_bytes())
    mine.chmod(0o600)
    app = replay_app(mine)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("right_square_bracket", "right")
        await pilot.pause()
        for what in ("svg", "json", "html", "csv"):
            await taken(pilot, what)
    assert {path.stat().st_mode & 0o777 for path in here.iterdir()} == {0o600}
    assert only(here, "*-r2.svg").read_text().startswith("<svg")
    assert "node" in json.loads(only(here, "*-r2-*.json").read_text())
    assert "<html" in only(here, "*.html").read_text()[:400].lower()
    with zipfile.ZipFile(io.BytesIO(only(here, "*.csv.zip").read_bytes())) as archive:
        assert {"rounds.csv", "nodes.csv"} <= set(archive.namelist())


async def test_nothing_is_written_over_and_a_folder_that_takes_nothing_is_told(
    chain_trace: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app(chain_trace)
    messages: list[str] = []
    async with app.run_test(size=WIDE) as pilot:
        await taken(pilot, "svg")
        await taken(pilot, "svg")
        names = sorted(path.name for path in here.glob("*.svg"))
        assert len(names) == 2
        assert names[0].endswith("-r1-2.svg")

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("specviz_tui.actions.exporting.open_like", refuse)
        monkeypatch.setattr(app, "notify", lambda message, **_: messages.append(message))
        await taken(pilot, "svg")
        monkeypatch.setattr(exporting, "LONG", 1)
        await taken(pilot, "html")
    assert len(list(here.glob("*.svg"))) == 2
    assert any("cannot write" in message and "Permission denied" in message for message in messages)
    assert any("specviz export --html" in message for message in messages)


async def test_a_link_leads_back_to_the_node(tree_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = replay_app(tree_trace)
    copied: list[str] = []
    async with app.run_test(size=WIDE) as pilot:
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        await pilot.press("right_square_bracket", "right_square_bracket", "left", "left", "right", "right")
        await pilot.pause()
        frame = main_of(app).frame
        assert frame is not None
        await pilot.press("Y")
        await pilot.pause()
    program, command, path, at, place = copied[0].split()
    assert (program, command, at) == ("specviz", "tui", "--at")
    again = replay_app(Path(path), at=place)
    async with again.run_test(size=WIDE) as pilot:
        await pilot.pause()
        now = main_of(again).frame
        assert now is not None
        assert (now.round, now.selected) == (frame.round, frame.selected)


async def test_a_run_in_no_file_has_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    script.play(read_events(RECORDINGS["code-ar"])[:-1])
    app = live_app(script)
    messages: list[str] = []
    async with app.run_test(size=WIDE) as pilot:
        monkeypatch.setattr(app, "notify", lambda message, **_: messages.append(message))
        await pilot.pause(0.3)
        main_of(app).action_link()
    assert any("R records it" in message for message in messages)


def test_a_trace_is_named_without_a_flag(capsys: pytest.CaptureFixture[str], tree_trace: Path) -> None:
    assert specviz(["tui", "no-such-trace"]) == 2
    assert "no trace no-such-trace" in capsys.readouterr().err
    assert specviz(["tui", str(tree_trace), "--replay", str(tree_trace)]) == 2
    assert "two traces" in capsys.readouterr().err
    assert specviz(["tui", str(tree_trace), "--method", "draft"]) == 2
    assert "recording" in capsys.readouterr().err
