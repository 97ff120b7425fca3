"""What the core warns of, at every size and however much; bookmarks that outlive the screen; pages of the guide."""

import stat
from pathlib import Path

import pytest
from textual.pilot import Pilot

from specviz import events as ev
from specviz.sources.bundled import bundled_traces
from specviz.trace import read_events
from specviz_tui.app import SpecvizApp
from specviz_tui.common.bookmarks import ENDING, beside, bookmark_file, keep_bookmark, kept_bookmarks
from specviz_tui.screens.dialogs import PickScreen
from specviz_tui.screens.main import MainScreen
from specviz_tui.screens.page import GuideScreen, guide_page, pages
from specviz_tui.widgets.text_strip import TextStrip
from specviz_tui.widgets.timeline import Transport
from support.live import NARROW, WIDE, Script, catalogue, lines, live_app, main_of, recorded, replay_app, shown
from support.traces import make_events, write_trace

LONG = (
    "with d_max 6 every one of the exit layers 7, 8 lies deeper than a token may climb, which leaves no layer to stop "
    "at, so nothing is drafted; raise d_max to 7, or choose exit layers up to 6, and drafting begins with the next one"
)
SIZES = pytest.mark.parametrize("size", [WIDE, NARROW, (200, 24), (60, 18)], ids=lambda s: f"{s[0]}x{s[1]}")


def words(app: SpecvizApp, widget: str = "") -> str:
    """The screen, or what stands inside one widget of it, without line ends: a wrapped sentence is whole again."""
    rows = lines(app)
    if widget:
        part = app.screen.query_one(widget)
        inside = part.content_region
        right = inside.right - part.scrollbar_size_vertical
        rows = [row[inside.x : right] for row in rows[inside.y : inside.bottom]]
    return " ".join(" ".join(rows).split())


def warned(folder: Path, *warnings: ev.Warn) -> Path:
    """A recording in which the core warned at the end of some rounds."""
    events: list[ev.Event] = []
    for event in make_events(temperature=0.8, new_tokens=40, knob_at=5):
        events.append(event)
        if isinstance(event, ev.RoundEnd):
            events += [w for w in warnings if w.r == event.r]
    for i, event in enumerate(events):
        event.i = i
    return write_trace(folder / "warned", events)


@SIZES
async def test_a_long_warning_can_be_read_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    app = replay_app(warned(tmp_path, ev.Warn(r=5, code="no_exit_layer", message=LONG)))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "⚠" in lines(app)[0], "the first line says that there is one"
        await pilot.press("w")
        await pilot.pause()
        assert f"no exit layer: {LONG}" in words(app, "OptionList")
        await pilot.press("enter")
        await pilot.pause()
        assert main_of(app).frame.round == 5


@SIZES
async def test_of_many_warnings_every_one_is_listed(tmp_path: Path, size: tuple[int, int]) -> None:
    many = [ev.Warn(r=r, code="clamped_knob", message=f"number {r}.{k} [red]{LONG}") for r in (2, 4, 6) for k in "ab"]
    app = replay_app(warned(tmp_path, *many))
    async with app.run_test(size=size) as pilot:
        await pilot.press("w")
        await pilot.pause()
        text = words(app, "OptionList")
        for _ in many:
            await pilot.press("j")
            await pilot.pause()
            text += words(app, "OptionList")
        for warning in many:
            assert f"clamped knob: {warning.message}" in text
        await pilot.press("enter")
        await pilot.pause()
        assert main_of(app).frame.round in (2, 4, 6)


async def test_what_is_said_again_and_again_stands_once_with_its_rounds(tmp_path: Path) -> None:
    """Enter goes to the next round that has it, round and round."""
    same = [ev.Warn(r=r, code="clamped_knob", message=LONG) for r in (2, 4, 6)]
    app = replay_app(warned(tmp_path, *same, ev.Warn(r=4, code="other", message="once")))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("home")
        for expected in (2, 4, 6, 2):
            await pilot.press("w")
            await pilot.pause()
            text = words(app)
            assert "Warnings: 4 of 2 kinds" in text
            assert text.count(LONG[:40]) == 1
            assert "3 times: r2, r4, r6" in text
            await pilot.press("enter")
            await pilot.pause()
            assert main_of(app).frame.round == expected


async def test_a_click_on_the_count_opens_the_list(tmp_path: Path) -> None:
    app = replay_app(warned(tmp_path, ev.Warn(r=5, code="x", message=LONG)))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        await pilot.click("#status", offset=(lines(app)[0].index("⚠"), 0))
        await pilot.pause()
        assert isinstance(app.screen, PickScreen)


async def test_no_warnings_no_count(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "⚠" not in lines(app)[0]
        await pilot.press("w")
        await pilot.pause()
        assert not isinstance(app.screen, PickScreen)
        assert [n.message for n in app._notifications] == ["the core has warned of nothing in this run"]


async def test_a_warning_of_a_live_run_is_told_at_once_and_once() -> None:
    app = live_app(script := Script())
    async with app.run_test(size=NARROW) as pilot:
        events = make_events(temperature=0.8, new_tokens=40)
        script.play([catalogue(), *events[:-1]])
        main_of(app).tick()
        script.play(ev.Warn(r=1, code="clamped_knob", message=f"{k} {LONG}") for k in range(5))
        for _ in range(3):
            main_of(app).tick()
            await pilot.pause()
        messages = [n.message for n in app._notifications]
        assert messages == [f"clamped knob: {k} {LONG}" for k in range(2)] + ["and 3 more: w lists them"]


async def test_a_warning_shows_on_the_time_line_beside_a_knob_change(tmp_path: Path) -> None:
    app = replay_app(warned(tmp_path, ev.Warn(r=5, code="x", message="y")))
    async with app.run_test(size=NARROW) as pilot:  # more rounds than cells would do the same
        await pilot.pause()
        point = main_of(app).frame.timeline.points[4]
        assert set(point.markers) == {"⚠", "◆"}
        assert "⚠" in app.screen.query_one(Transport).render().plain


# The guide ----------------------------------------------------------------------------------------------------------


async def test_every_page_of_the_guide_is_reached_by_keys(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("f1")
        seen = []
        for _ in pages():
            await pilot.pause()
            assert isinstance(app.screen, GuideScreen)
            title, text = guide_page(app.screen.page_name)
            assert title in shown(app)
            assert text.split()[-1] in words(app, ".page") or app.screen.query_one(".page").max_scroll_y > 0
            assert f"{len(seen) + 1} of {len(pages())}" in shown(app)
            seen.append(app.screen.page_name)
            await pilot.press("right")
        assert sorted(seen) == sorted(pages())
        assert len(seen) == len(set(seen)) >= 15
        await pilot.press("left", "left")
        assert app.screen.page_name == seen[-2]
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, MainScreen)


# Bookmarks ----------------------------------------------------------------------------------------------------------


async def bookmark(pilot: Pilot[int], note: str) -> None:
    await pilot.press("]", "]", "b", *note, "enter")
    await pilot.pause()


async def test_a_bookmark_in_a_recording_is_there_again(tmp_path: Path) -> None:
    path = recorded(tmp_path, "kept", temperature=0.8, new_tokens=40)
    bytes_before, files_before = path.read_bytes(), sorted(p.name for p in tmp_path.iterdir())
    for visit, note in enumerate(("odd", "even")):
        app = replay_app(path)
        async with app.run_test(size=WIDE) as pilot:
            await pilot.pause()
            marked = [p.r for p in main_of(app).frame.timeline.points if "⚑" in p.markers]
            assert marked == ([3] if visit else [])
            await bookmark(pilot, note)
    assert path.read_bytes() == bytes_before, "no trace is touched"
    added = {p.name for p in tmp_path.iterdir()} - {*files_before, "state"}
    assert added == {path.name + ENDING}, "one file, beside it"
    there = tmp_path / "there"
    there.mkdir()
    for name in (path.name, path.name + ENDING):
        (tmp_path / name).rename(there / name)
    app = replay_app(there / path.name)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("B")
        await pilot.pause()
        assert "odd" in shown(app)
        assert "even" in shown(app)


def test_bookmarks_kept_elsewhere_are_read_and_a_file_that_is_not_ours_stays(tmp_path: Path) -> None:
    path = recorded(tmp_path, "kept", temperature=0.8, new_tokens=40)
    header = read_events(path)[0]
    assert isinstance(header, ev.Header)
    notes = [ev.Note(text=text, at=ev.At(r=2), q=0, r=2, t=5) for text in ("before", "now", "then")]
    keep_bookmark(header, notes[0])
    file = beside(path)
    assert file is not None
    assert keep_bookmark(header, notes[1], path) == file
    assert [note.text for note in kept_bookmarks(header, path)] == ["before", "now"]
    file.write_text("somebody's own list")
    assert keep_bookmark(header, notes[2], path) == bookmark_file(header)
    assert file.read_text() == "somebody's own list"
    assert [note.text for note in kept_bookmarks(header, path)] == ["before", "then"]
    assert beside(next(iter(bundled_traces().values()))) is None, "what comes along stays as it came"


async def test_the_file_of_bookmarks_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = recorded(tmp_path, "kept", temperature=0.8, new_tokens=40)
    app = replay_app(path)
    async with app.run_test(size=WIDE) as pilot:
        await bookmark(pilot, "odd")
    header = read_events(path)[0]
    assert isinstance(header, ev.Header)
    file = beside(path)
    assert file is not None
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(keep_bookmark(header, ev.Note(text="even", at=ev.At(r=1))).stat().st_mode) == 0o600
    assert {note.text for note in kept_bookmarks(header, path)} == {"odd", "even"}


async def test_bookmarks_that_cannot_be_kept_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    path = recorded(tmp_path, "kept", temperature=0.8, new_tokens=40)
    path.with_name(path.name + ENDING).mkdir()  # no file can be written there
    app = replay_app(path)
    async with app.run_test(size=WIDE) as pilot:
        await bookmark(pilot, "odd")
        (message,) = [n.message for n in app._notifications]
        assert message.startswith("the bookmark stays until you leave: cannot write ")
        assert "⚑" in main_of(app).frame.timeline.points[2].markers


@pytest.mark.parametrize("content", [b"", b"{", b"[1]\n", b"\xff\xfe", b'{"ev":"end"}\n'])
async def test_a_damaged_file_of_bookmarks_does_no_harm(tmp_path: Path, content: bytes) -> None:
    path = recorded(tmp_path, "kept", temperature=0.8, new_tokens=40)
    header = read_events(path)[0]
    assert isinstance(header, ev.Header)
    file, own = bookmark_file(header), beside(path)
    assert own is not None
    file.parent.mkdir(parents=True)
    for bookmarks in (file, own):
        bookmarks.write_bytes(content)
    app = replay_app(path)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert main_of(app).frame.round == 1


# Small things -------------------------------------------------------------------------------------------------------


async def test_ids_of_the_prompt_are_its_ids(chain_trace: Path) -> None:
    prefill = next(e for e in read_events(chain_trace) if isinstance(e, ev.Prefill))
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("t", "t")
        await pilot.pause()
        text = app.screen.query_one(TextStrip).render().plain
        assert text.split("│")[0].split() == [str(id) for id in prefill.prompt]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_tabs_can_be_clicked(chain_trace: Path, size: tuple[int, int]) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=size) as pilot:
        for digit, title, name in (("3", "lanes", "lanes"), ("5", "hsd", "verification"), ("1", "tree", "tree")):
            await pilot.pause()
            row = 0 if size == NARROW else 2  # below the judgement
            line = lines(app)[row]
            assert all(d in line for d in "12345")
            tab = f"{digit} " if size == NARROW else f"{digit} {title[:2]}"
            column = line.lower().rindex(tab) if size == NARROW else line.lower().index(tab)
            await pilot.click(offset=(column, row))
            await pilot.pause()
            assert main_of(app).shown == name


async def test_the_footer_says_what_space_does_now(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "space play" in lines(app)[-1]
        await pilot.press("home", "space")
        await pilot.pause()
        assert main_of(app).frame.state.name == "replay"
        assert "space pause" in lines(app)[-1]
        await pilot.press("space")
        await pilot.pause()
        assert "space play" in lines(app)[-1]


async def test_the_footer_names_the_way_out_and_the_way_to_another(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        for entry in ("? help", "q quit", "o open"):
            assert entry in lines(app)[-1]


async def test_a_text_that_is_not_there_is_not_found(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.press("g", *"nowhere", "enter")
        await pilot.pause()
        assert "'nowhere' is not found in the text" in words(app, "#hint")
        await pilot.press(*["backspace"] * 7, *"r999", "enter")
        await pilot.pause()
        assert "no round 999" in shown(app)


async def test_what_needs_a_core_says_so_in_a_recording(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("p")
        await pilot.pause()
        (message,) = [n.message for n in app._notifications]
        assert message.startswith("this is a recording: there is no core to ask")


def test_no_button_is_an_emoji() -> None:
    from specviz_tui.widgets.timeline import BUTTONS, LEGEND

    assert not set("⏸⏮⏭⏯⏹⏩⏪▶◀✖⛔") & set("".join(caption for caption, _ in BUTTONS) + LEGEND)
