"""Screen 5: what it shows of case D, how it steps, and what it says when there is nothing to scan."""

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from specviz.events import RoundEnd
from specviz.view.panels.verification.build import VerificationPanel
from specviz_tui.app import SpecvizApp
from specviz_tui.panels.verification import ScanPane
from specviz_tui.widgets.tree import TreeCanvas
from support.live import NARROW, WIDE, Script, catalogue, lines, live_app, main_of, press, recorded, replay_app, shown
from support.traces import make_events, write_trace
from support.worked_trace import worked_events


def row(app: SpecvizApp, label: str) -> list[str]:
    """The cells of a row of the table."""
    line = next(line for line in lines(app) if line.startswith(f"│ {label}"))
    return line.split("│ how")[0].removeprefix(f"│ {label}").split()


async def test_case_d_is_drawn_as_designed(case_d: Path) -> None:
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        text = shown(app)
        for words in (
            "Round 37 · γ=6 · rule hsd (lossless, = blockwise) · keep the LONGEST prefix that passes",
            ".025│.205 .280│.280 .453│.453 .300│.300 0│1",
            "✓ kept*   ✓ kept    ✓ kept    ✓ STOP    ✗ failed ✗ failed",
            "* alone it would fail: .900 ≥ .123",
            "same u: stops at 1, keeps nothing",
            "Prefix ratio",
            "6.12",
            "Residual max(0, c·p − q), c 1: mass .300",
            "→  ▁hours",
            "▶ blockwise = hsd  ✓✓✓✓✗✗  4 of 6",
            "token-wise         ✗·····  0 of 6",
            "[5 HSD]",
        ):
            assert words in text, words


async def test_a_step_tests_one_column_right_to_left(case_d: Path) -> None:
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5", *["comma"] * 5)
        seen = [row(app, "verdict")]
        for _ in range(3):
            await press(pilot, "full_stop")
            seen.append(row(app, "verdict"))
        words = [" ".join(cells) for cells in seen]
        assert words[0].startswith("? now")
        assert words[1].startswith("? now ✗ failed")
        assert words[2].startswith("? now ✗ failed ✗ failed")
        assert words[3].startswith("✓ kept* ✓ kept ✓ kept ✓ STOP ✗ failed ✗ failed")


async def test_arrows_choose_a_column_and_its_sentence(case_d: Path) -> None:
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5", "left")
        assert "at its running maximum: kept for certain" in shown(app)
        await press(pilot, "left", "left", "left")
        assert "Alone it would have failed: .900 ≥ .123." in shown(app)
        await press(pilot, "right")
        assert "Kept with a longer prefix: the test at depth 4 passed." in shown(app)
        await press(pilot, "escape")
        assert app.focused is main_of(app).query_one(ScanPane)


async def test_a_click_on_a_column_chooses_it(case_d: Path) -> None:
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        at = next(y for y, line in enumerate(lines(app)) if "│ draft" in line)
        await pilot.click(offset=(lines(app)[at].index("she"), at))
        await pilot.pause()
        assert main_of(app).frame is not None
        assert main_of(app).frame.selected == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (100, 30), (120, 24), (120, 36), (200, 50)])
@pytest.mark.parametrize("gamma", [2, 6, 24])
async def test_the_screen_is_filled_exactly(size: tuple[int, int], gamma: int, tmp_path: Path) -> None:
    path = recorded(tmp_path, f"g{gamma}", temperature=0.9, verifier="hsd", gamma=gamma, new_tokens=60, noise=0.4)
    app = replay_app(path)
    async with app.run_test(size=size) as pilot:
        await press(pilot, "5")
        for _ in range(3):
            rows = lines(app)
            assert (len(rows), {cell_len(line) for line in rows}) == (size[1], {size[0]})
            assert "verdict" in shown(app)
            await press(pilot, "comma")


async def test_a_long_draft_keeps_the_column_that_matters_in_view(tmp_path: Path) -> None:
    path = recorded(tmp_path, "long", temperature=0.9, verifier="hsd", gamma=24, new_tokens=60, noise=0.4)
    app = replay_app(path)
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "5", "comma", "comma")
        while main_of(app).frame.phase == 4:  # type: ignore[union-attr]
            frame = main_of(app).frame
            assert frame is not None
            panel = VerificationPanel.of(frame)
            assert panel is not None
            assert panel.scan is not None
            fresh = [c.t for c in panel.scan.columns if c.fresh]
            numbers = next(line for line in lines(app) if line.startswith("│ t ")).split()
            assert all(str(t) in numbers for t in fresh), (fresh, numbers)
            await press(pilot, "comma")


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"temperature": 0.0}, "nothing is drawn"),
        ({"shape": "tree", "temperature": 0.7}, "no sampled chain"),
        ({"temperature": 0.7, "level": "none"}, "recorded with --level none"),
    ],
)
async def test_an_empty_screen_gives_the_reason(recipe: dict[str, Any], words: str, tmp_path: Path) -> None:
    app = replay_app(recorded(tmp_path, "empty", **recipe))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        text = " ".join(shown(app).split())
        assert words in text
        assert "--verifier hsd" in text
        await press(pilot, "full_stop", "1")
        assert app.focused is main_of(app).query_one(TreeCanvas)
        assert main_of(app).query_one("#body").display


async def test_a_recording_at_summary_says_what_it_lacks(tmp_path: Path) -> None:
    app = replay_app(write_trace(tmp_path / "summary", worked_events(level="summary")))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        assert "D+ and D- need whole rows, which only --level full records" in shown(app)
        assert row(app, "h  keep")[:3] == [".123", "1", "1"]


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_not_lossless_is_told_on_every_screen(size: tuple[int, int], tmp_path: Path) -> None:
    path = recorded(tmp_path, "ref", temperature=0.8, verifier="hsd_ref", gamma=5, new_tokens=60)
    app = replay_app(path)
    async with app.run_test(size=size) as pilot:
        for key in ("1", "5"):
            await press(pilot, key)
            assert "NOT LOSSLESS · TV 1/9 on the toy" in lines(app)[0]


async def test_no_colour_and_ascii_say_the_same(case_d: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replay_app(case_d, ascii=True)
    async with plain.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        assert [line for line in lines(plain) if not line.isascii()] == []
        assert "+ kept*" in shown(plain)
        assert "? kept" not in shown(plain)
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        coloured = shown(app)
    monkeypatch.setenv("NO_COLOR", "1")
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        assert shown(app) == coloured


async def test_it_works_while_the_run_goes_on() -> None:
    script = Script()
    app = live_app(script)
    events = make_events(temperature=0.8, verifier="hsd", gamma=4, new_tokens=60)
    first = next(k for k, event in enumerate(events) if isinstance(event, RoundEnd))
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *events[:3]])
        await pilot.pause(0.2)
        await press(pilot, "escape", "5")  # the dialog for a prompt stands over it
        assert "The draft has not been judged yet." in shown(app) or "Nothing was drafted" in shown(app)
        script.play(events[3 : first + 1])
        await pilot.pause(0.3)
        assert "keep the LONGEST prefix" in shown(app)
        script.play(events[first + 1 :])
        await pilot.pause(0.3)
        frame = main_of(app).frame
        assert frame is not None
        panel = VerificationPanel.of(frame)
        assert panel is not None
        assert panel.survival is not None
        assert panel.survival.curves
        assert not panel.survival.missing


async def test_another_run_on_the_same_screen_is_scanned_too(case_d: Path, tmp_path: Path) -> None:
    app = replay_app(case_d)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "5")
        before = app.feed
        app.feed = app.library.trace(recorded(tmp_path, "next", temperature=0.8, verifier="blockwise"))
        main_of(app).show(app.feed)
        before.close()
        await pilot.pause()
        assert "w  weight" in shown(app)
        assert "(lossless, = hsd)" in shown(app)
