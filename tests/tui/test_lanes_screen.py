"""Screen 3: lanes on both clocks, moving over blocks, and what it says when there is nothing."""

from itertools import pairwise
from pathlib import Path

import pytest
from rich.cells import cell_len

from specviz.view.panels.lanes.build import LanesPanel
from specviz.view.panels.lanes.model import Chart
from specviz_tui.app import SpecvizApp
from specviz_tui.panels.lanes import LanesPane
from support.live import NARROW, WIDE, frame_of, lines, press, recorded, replay_app, shown


def chart(app: SpecvizApp) -> Chart:
    panel = LanesPanel.of(frame_of(app))
    assert panel is not None
    assert panel.chart is not None
    return panel.chart


def lane(app: SpecvizApp, name: str) -> str:
    """The cells of a lane."""
    line = next(line for line in lines(app) if line.lstrip("│ ").startswith(name))
    return line.lstrip("│ ").split("│")[1]


async def test_lanes_show_passes_bubbles_and_what_was_void(branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "c", "end", *["Z"] * 4)
        target, draft = lane(app, "target"), lane(app, "draft")
        assert set(target) == {"▤", "░"}
        assert {"▣", "▥", "░", "╳"} == set(draft)
        share = target.count("▤") / len(target)
        assert abs(share - 12 / 15) < 0.05, "three passes of 4 in 15"
        assert set(lane(app, "branch 2").strip()) == {"╳"}
        assert "modelled clock" in shown(app)
        assert "[3 Lanes]" in shown(app)


async def test_c_switches_the_clock_and_says_which(branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "end")
        assert chart(app).clock == "measured"
        assert "no spans in this trace" in shown(app)
        await press(pilot, "c")
        assert chart(app).clock == "model"
        assert "modelled clock, both lanes at once: costs as measured, c 4" in shown(app)
        await press(pilot, "c")
        assert "modelled clock" not in shown(app)


async def test_arrows_move_over_blocks_and_select_their_tokens(branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "c", "home", "]")
        await press(pilot, "[", "]", "[")
        assert frame_of(app).cursor.index == 0
        seen = []
        await press(pilot, "escape")
        while chart(app).blocks[chart(app).cursor or 0].lane != "draft":
            await press(pilot, "down" if chart(app).blocks[chart(app).cursor or 0].lane == "target" else "up")
        for _ in range(3):
            seen.append(chart(app).blocks[chart(app).cursor or 0])
            await press(pilot, "left")
        assert all(a.lane == b.lane == "draft" for a, b in pairwise(seen))
        assert [b.t0 for b in seen] == sorted((b.t0 for b in seen), reverse=True)
        block = chart(app).blocks[chart(app).cursor or 0]
        if block.nodes:
            assert frame_of(app).selected == block.nodes[0]
        await press(pilot, "enter")
        assert app.screen_stack[0].shown == "tree"  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 36), (200, 50)])
async def test_the_screen_is_filled_exactly(size: tuple[int, int], branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=size) as pilot:
        await press(pilot, "3", "c", "end")
        for _ in range(4):
            rows = lines(app)
            assert (len(rows), {cell_len(line) for line in rows}) == (size[1], {size[0]})
            await press(pilot, "v")
        assert isinstance(app.focused, LanesPane)


async def test_the_parts_below_the_chart(branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "c", "home", "]", "[")
        await press(pilot, "]", "[")
        text = shown(app)
        assert "k = max(1, ⌊6·(1 − .20)⌋) = 4" in text
        assert ".200 < .300" in text
        assert "▶b1" in text
        await press(pilot, "v")
        assert "draft: s = 1" in " ".join(shown(app).split()) or "s = 1" in shown(app)


async def test_a_click_chooses_a_block(branched: Path) -> None:
    app = replay_app(branched)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "c", "end")
        y = next(k for k, line in enumerate(lines(app)) if line.lstrip("│ ").startswith("target"))
        x = lines(app)[y].index("▤")
        await pilot.click(offset=(x, y))
        await pilot.pause()
        block = chart(app).blocks[chart(app).cursor or 0]
        assert (block.lane, block.kind) == ("target", "verify")


async def test_plain_drafting_and_level_none(tmp_path: Path) -> None:
    app = replay_app(recorded(tmp_path, "draft", temperature=0.8, new_tokens=20))
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "3", "]")
        assert set(lane(app, "target")) <= {"▤", "░", " "}
        assert "one thing after the other" in shown(app)
    app = replay_app(recorded(tmp_path, "bare", temperature=0.8, level="none"))
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "3")
        assert "level none" in shown(app)


async def test_ascii_shows_nothing_else(branched: Path) -> None:
    app = replay_app(branched, ascii=True)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "3", "c", "end")
        for _ in range(2):
            assert [line for line in lines(app) if not line.isascii()] == []
            assert {len(line) for line in lines(app)} == {WIDE[0]}
            await press(pilot, "v")
