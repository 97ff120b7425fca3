"""Runs side by side in the terminal: aligned by position, the first difference found, numbers with their distance."""

from pathlib import Path

import pytest

from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view.compare.build import comparison
from specviz_tui.compare import columns
from specviz_tui.compare.screen import ChooseRuns, CompareScreen
from support.live import NARROW, WIDE, lines, recorded, replay_app, shown


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One prompt, two temperatures: the texts part."""
    folder = tmp_path_factory.mktemp("pair")
    first = recorded(folder, "one", queries=2, new_tokens=24, temperature=0.9)
    return first, recorded(folder, "other", queries=2, new_tokens=24, temperature=0.9, seed=5)


async def compared(pilot, path: Path) -> None:  # type: ignore[no-untyped-def]
    await pilot.press("C")
    await pilot.pause()
    assert isinstance(pilot.app.screen, ChooseRuns)
    pilot.app.screen.dismiss([str(path)])
    await pilot.pause()
    await pilot.pause()


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_it_opens_where_the_texts_part(pair: tuple[Path, Path], size: tuple[int, int]) -> None:
    whole = comparison([(path.name, fold(read_events(path))) for path in pair])
    assert whole.text.parted
    app = replay_app(pair[0])
    async with app.run_test(size=size) as pilot:
        await compared(pilot, pair[1])
        assert isinstance(app.screen, CompareScreen)
        text = shown(app)
        assert f"position {whole.text.n_same + 1} of {whole.text.n_positions}" in text
        assert whole.text.words.split(",")[0][:40] in text.replace("\n", " ")
        assert "≠" in text
        assert all(len(line) <= size[0] for line in lines(app))
        for lane in whole.text.lanes:
            assert lane.tokens[whole.text.n_same].shown[:6] in text
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, CompareScreen)


async def test_keys_go_to_differences_agreements_and_prompts(pair: tuple[Path, Path]) -> None:
    whole = comparison([(path.name, fold(read_events(path))) for path in pair])
    app = replay_app(pair[0])
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair[1])
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        await pilot.press("home")
        for place in [k for k in range(1, whole.text.n_positions) if columns.differ(whole.text, k)]:
            await pilot.press("exclamation_mark")
            assert screen._at == place
        await pilot.press("home", "right", "right", "left")
        assert screen._at == 1
        await pilot.press("end")
        assert screen._at == whole.text.n_positions - 1
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert "prompt 2 of 2" in shown(app)


async def test_a_run_beside_itself_says_the_same_text(pair: tuple[Path, Path]) -> None:
    app = replay_app(pair[0])
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair[0])
        assert "The same text" in shown(app)
        assert "≠" not in shown(app)


async def test_the_delta_row_is_that_of_the_view(pair: tuple[Path, Path]) -> None:
    whole = comparison([(path.name, fold(read_events(path))) for path in pair])
    app = replay_app(pair[0])
    async with app.run_test(size=WIDE) as pilot:
        await compared(pilot, pair[1])
        text = shown(app)
        for row in whole.numbers.rows:
            assert row.label in text
        assert whole.numbers.rows[0].differences[1] in text


async def test_a_choice_is_asked_for_and_a_bad_file_is_one_line(
    pair: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.sv.jsonl").write_text("no trace")
    app = replay_app(pair[0])
    notices: list[str] = []
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("C")
        await pilot.pause()
        assert "[ ] bad" in shown(app)
        await pilot.press("space", "down", "space", "down", "space", "down", "space", "enter")
        await pilot.pause()
        assert shown(app).count("[x]") == 4
        assert "3 at most" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        monkeypatch.setattr(app.screen_stack[0], "notify", lambda message, **_: notices.append(message))
        await compared(pilot, tmp_path / "bad.sv.jsonl")
    assert len(notices) == 1
    assert "not a specviz trace" in notices[0]
