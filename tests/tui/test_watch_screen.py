"""The screen of a watched server: what it shows of a history, and what its keys do."""

from specviz.engines.watch import Counted, picture_of
from specviz_tui.screens.page import PageScreen
from specviz_tui.watch.app import WatchApp


async def test_a_history_is_shown_with_its_positions_and_restart() -> None:
    looks = [
        Counted(engine="vLLM", wall=float(t), n_rounds=n, n_drafted=2 * n, n_accepted=n, per_position=[n - 2, 2])
        for t, n in enumerate((10, 30, 5, 40))
    ]
    app = WatchApp(picture_of(looks), [], 1.0)
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


class _Watcher:
    """A server that was looked at."""

    def __init__(self, address: str, looks: list[Counted], problem: str | None = None) -> None:
        self.address, self.problem = address, problem
        self.picture = picture_of(looks) if looks else None

    def look(self) -> None:
        """Nothing new."""


async def test_several_servers_stand_in_one_table() -> None:
    looks = [
        Counted(engine="vLLM", wall=float(t), n_rounds=n, n_drafted=2 * n, n_accepted=n, per_position=[n - 2, 2])
        for t, n in enumerate((10, 30, 50, 90))
    ]
    watchers = [_Watcher("http://a:1/metrics", looks), _Watcher("http://b:2/metrics", [], "nothing answers")]
    app = WatchApp(None, watchers, 60.0)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        shown = str(app.screen.query_one("#watched").render())
        assert "2 of 2 servers need a look" in shown
        assert "a:1: a cliff at position 2" in shown
        assert "b:2: nothing answers" in shown
        assert any("a:1" in line and "2.00" in line for line in shown.splitlines())
        assert "2 servers" in str(app.screen.query_one("#watch-head").render())
