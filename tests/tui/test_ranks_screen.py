"""Screen 4: the tree with badges, the table of buckets and its cells, widths, learning; by keyboard alone."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from specviz.view.frame.frame import TreeNode
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.panels.ranks.model import RanksModel
from specviz.view.words.palette import ROOT
from specviz_tui.app import SpecvizApp
from specviz_tui.panels.ranks import NARROW_PARTS, WIDE_PARTS, RanksPane
from support.live import NARROW, WIDE, frame_of, lines, press, replay_app, shown


def ranks(app: SpecvizApp) -> RanksModel:
    panel = RanksPanel.of(frame_of(app))
    assert panel is not None
    return panel


def part(app: SpecvizApp) -> str:
    return app.screen_stack[0].query_one(RanksPane).part


def _listed(app: SpecvizApp) -> list[TreeNode]:
    """The nodes in the order of their lines."""
    return sorted(frame_of(app).tree.nodes, key=lambda node: (node.row, node.column))


async def test_the_tree_shows_badges_starts_and_merges(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "]")
        text = shown(app)
        assert "[4 Ranks]" in text
        panel, nodes = ranks(app), frame_of(app).tree.nodes
        for node in nodes[1:4]:
            assert f"{node.glyph} {node.shown}" in text
            assert panel.badges[node.id] in text
        assert "◎" in text
        assert panel.tree_text in text


async def test_arrows_walk_the_tree_and_enter_goes_to_the_draft_tree(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "]", *["up"] * 40)
        assert frame_of(app).selected == ROOT
        await press(pilot, "down")
        first = _listed(app)[1]
        assert frame_of(app).selected == first.id
        assert first.cursor
        await press(pilot, "right")
        chosen = frame_of(app).selected
        assert frame_of(app).tree.node(chosen).depth == 2  # type: ignore[arg-type, union-attr]
        await press(pilot, "enter")
        assert app.screen_stack[0].shown == "tree"  # type: ignore[attr-defined]
        assert frame_of(app).selected == chosen


async def test_a_cell_lists_expansions_and_enter_jumps_to_one(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v", "down", "down", "right")
        assert part(app) == "buckets"
        cell = ranks(app).cell
        assert cell is not None
        assert cell.title == f"predicted 2–4 × true 2–4 ({len(cell.rows)})"
        assert cell.title in shown(app)
        await press(pilot, "enter", "down", "down")
        cell = ranks(app).cell
        assert cell is not None
        assert cell.cursor == 2
        place, at = cell.places[2], cell.rows[2][0].text
        assert place is not None
        await press(pilot, "enter")
        assert part(app) == "tree"
        assert frame_of(app).cursor.index == place.index
        assert frame_of(app).selected == place.node
        assert at.split()[-1] in {f"b{view.block}·s{view.slot}" for view in ranks(app).expansions}


async def test_escape_leaves_the_list_before_the_screen(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v", "down", "enter")
        assert ranks(app).cell is not None
        assert ranks(app).cell.cursor == 0  # type: ignore[union-attr]
        await press(pilot, "escape")
        assert ranks(app).cell.cursor is None  # type: ignore[union-attr]
        assert part(app) == "buckets"


async def test_filters_go_through_blocks_and_slots(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v")
        every = ranks(app).confusion
        assert every is not None
        assert "all kept" in shown(app)
        await press(pilot, "f")
        on_path = ranks(app).confusion
        assert on_path is not None
        assert on_path.n < every.n
        assert "given that every token before was right" in shown(app)
        await press(pilot, "f", "c")
        assert ranks(app).filter_text.startswith("block 1 ·")
        await press(pilot, "c", "s")
        assert ranks(app).filter_text.startswith("block 2 · slot 0 ·")
        await press(pilot, "c")
        assert ranks(app).filter_text.startswith("all blocks ·")


async def test_wrong_buckets_are_told_apart_without_colour(ranked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v")
        table = ranks(app).confusion
        assert table is not None
        rows = [line for line in lines(app) if "pred " in line]
        for pred, (row, squares) in enumerate(zip(rows, table.heat.squares, strict=True)):
            low = "⊘" if table.widths[pred].startswith("0") else "‹"  # below the diagonal: too wide, or given up
            for true, square in enumerate(squares):
                sign = "=" if true == pred else "›" if true > pred else low
                assert square.text == "0" or f"{square.text}{sign}" in row


async def test_widths_and_blocks(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v", "v")
        text = shown(app)
        assert "children for each useful one" in text
        assert "drafting share" in text
        run = ranks(app).over_run
        assert run is not None
        for name in run.blocks.xs:
            assert str(name) in text


async def test_learning_has_a_screen_whose_queries_lead_to_their_rounds(learning: Path) -> None:
    app = replay_app(learning)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "8")
        text = shown(app)
        assert "▶ head" in text
        await press(pilot, *["down"] * 3)
        assert "taken back" in shown(app)
        await press(pilot, "enter")
        assert frame_of(app).query == 3


async def test_without_learning_it_says_what_to_run(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "8")
        assert "--stream" in shown(app)


async def test_other_methods_say_which_have_ranks(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "v", "down", "f", "c", "s")  # enter would open the recording that has some
        text = shown(app)
        assert "draft predicts no ranks" in text
        assert "specblock" in text


async def test_every_part_fits_every_size(ranked: Path, learning: Path) -> None:
    """No line is wider than the screen, and every part paints something, on a narrow screen one at a time."""
    for path in (ranked, learning):
        for size, parts in ((WIDE, WIDE_PARTS), (NARROW, NARROW_PARTS)):
            app = replay_app(path)
            async with app.run_test(size=size) as pilot:
                await press(pilot, "4")
                seen = []
                for _ in parts:
                    seen.append(part(app))
                    assert all(cell_len(line) == size[0] for line in lines(app))
                    assert len([line for line in lines(app) if line.strip()]) > 7
                    await press(pilot, "v")
                assert seen == list(parts)
                assert part(app) == parts[0]


async def test_the_line_of_the_cursor_stays_in_view(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=NARROW) as pilot:
        await press(pilot, "4", "]", "X")
        assert len(frame_of(app).tree.nodes) > 30, "longer than the screen"
        await press(pilot, *["down"] * 60)
        await pilot.pause(0.1)
        last = _listed(app)[-1]
        assert last.cursor
        assert f"{last.glyph} {last.shown}" in shown(app)


async def test_token_text_cannot_write_to_the_terminal(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4")
        met = 0
        for _ in range(8):
            await press(pilot, "]")
            assert "\x1b" not in shown(app)
            met += "⟨1B⟩[31m" in shown(app)
        assert met, "the token that would colour the screen was there to be seen"


async def test_clicks_choose_nodes_and_cells(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "]")
        await pilot.click("#rank-left", offset=(6, 2))
        await pilot.pause()
        assert frame_of(app).selected == _listed(app)[2].id
        await press(pilot, "v")
        await pilot.click("#rank-left", offset=(25, 3))
        await pilot.pause()
        cell = ranks(app).cell
        assert cell is not None
        assert cell.title.startswith("predicted 2–4 × true 2–4 ")


async def test_the_guide_explains_the_screen(ranked: Path) -> None:
    app = replay_app(ranked)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "4", "f1")
        assert "what shaped the tree" in shown(app)
