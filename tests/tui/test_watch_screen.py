"""The screen of a watched server: what it shows of a history, and what its keys do."""

from specviz.engines.watch import Counted, picture_of
from specviz_tui.screens.page import PageScreen
from specviz_tui.watch.app import WatchApp


async def test_a_history_is_shown_with_its_positions_and_restart() -> None:
    looks = [
        Counted(engine="vLLM", wall=float(t), n_rounds=n, n_drafted=2 * n, n_accepted=n, per_position=[n - 2, 2])
        for t, n in enumerate((10, 30, 5, 40))
    ]
    app = WatchApp(picture_of(looks), None, 1.0)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        shown = str(app.screen.query_one("#watched").render())
        for words in ("tokens a round", "position 2", "the server began again", "rule in force"):
            assert words in shown
        before = app.theme
        await pilot.press("t")
        assert app.theme != before
        await pilot.press("question_mark")
        assert isinstance(app.screen, PageScreen)
        await pilot.press("escape")
        await pilot.press("q")
    assert not app.is_running
