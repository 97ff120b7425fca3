"""Screen 6 and the line on top: the run judged, findings with a key to their evidence."""

import re
from pathlib import Path

import pytest
from textual.widgets import OptionList

from specviz.numerals import number
from specviz.view.panels.overview.build import OverviewPanel
from specviz_tui.common.blocks import interval_bar
from specviz_tui.panels.overview import OverviewPane
from specviz_tui.screens.dialogs import PickScreen
from support.judged import judged_run, many
from support.live import NARROW, WIDE, lines, main_of, replay_app, shown
from support.traces import write_trace


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft that breaks off at position 3, and is dearer than it pays."""
    rounds = many(40, [0.8] * 4, [2, 2, 2, 2, 4, 1], draft_ms=20.0)
    for k, records in enumerate(rounds):  # texts follow one another
        for record in records:
            record.t += k * 1_000_000_000
    return write_trace(tmp_path_factory.mktemp("faulty") / "faulty", judged_run(rounds))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_the_line_on_top_judges_the_run(size: tuple[int, int], faulty: Path) -> None:
    app = replay_app(faulty)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        line = lines(app)[1]
        frame = main_of(app).frame
        assert frame is not None
        assert "tokens a round" in line
        assert ("plain decoding (modelled)" in line) == (size == WIDE)
        assert f"findings: i · {frame.judgement.findings[0].headline}" in line


async def test_every_part_of_the_overview_is_there(faulty: Path) -> None:
    app = replay_app(faulty)
    async with app.run_test(size=(140, 70)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        screen = shown(app)
        model = OverviewPanel.of(main_of(app).frame)
        assert model is not None
        for words in ("a cliff at position 3", "lower γ", "q draft", "Where time goes", "accepted / drafted"):
            assert words in screen
        assert model.blocks is not None
        for row in model.blocks.numbers.rows:
            assert row.value in screen
        for stage, ms in zip(model.blocks.stages.xs, model.blocks.stages.curves[0].ys, strict=True):
            assert re.search(rf"{stage} +{re.escape(number(ms))} ms", screen)


async def test_a_finding_leads_to_the_rounds_that_show_it(faulty: Path) -> None:
    app = replay_app(faulty)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("6")
        await pilot.pause()
        frame = main_of(app).frame
        assert frame is not None
        at = [finding.detector for finding in frame.judgement.findings].index("position_cliff")
        await pilot.press(*["down"] * at, "enter")
        await pilot.pause()
        cliff = frame.judgement.findings[at]
        after = main_of(app).frame
        assert after is not None
        assert main_of(app).shown == "tree"
        assert after.timeline.index == cliff.places[0].index
        assert after.selected == cliff.places[0].node
        await pilot.press("6", "enter")
        await pilot.pause()
        again = main_of(app).frame
        assert again is not None
        assert again.timeline.index == cliff.places[1].index


async def test_i_lists_findings_in_full_and_leads_there(faulty: Path) -> None:
    app = replay_app(faulty)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("i")
        await pilot.pause()
        assert isinstance(app.screen, PickScreen)
        frame = main_of(app).frame
        assert frame is not None
        seen = "\n".join(str(option.prompt) for option in app.screen.query_one(OptionList).options)
        for finding in frame.judgement.findings:
            assert finding.headline in seen
            assert finding.claim in seen
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is main_of(app)


async def test_i_says_so_where_nothing_stands_out(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("i")
        await pilot.pause()
        assert app.screen is main_of(app)
        assert any("nothing stands out" in n.message for n in app._notifications)


async def test_a_run_of_plain_tokens_still_has_its_numbers(tmp_path: Path) -> None:
    from support.live import recorded

    app = replay_app(recorded(tmp_path, "plain", shape="none"))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert "plain decoding (baseline)" in shown(app)
        assert "nothing was drafted" in shown(app)


def test_a_bar_shows_both_ends_of_its_interval() -> None:
    assert interval_bar(0.5, 0.25, 0.75, 8) == "██▒▒▒▒  "
    assert interval_bar(0.01, 0.0, 0.02, 8) == "▒       "
    assert len(interval_bar(1.0, 0.8, 1.0, 8)) == 8


async def test_the_pane_moves_its_cursor_round_and_round(faulty: Path) -> None:
    app = replay_app(faulty)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("6")
        await pilot.pause()
        pane = main_of(app).query_one(OverviewPane)
        frame = main_of(app).frame
        assert frame is not None
        n = len(frame.judgement.findings)
        assert n > 1
        await pilot.press(*["up"])
        await pilot.pause()
        assert pane.chosen.finding == n - 1
        await pilot.press("down")
        await pilot.pause()
        assert pane.chosen.finding == 0
