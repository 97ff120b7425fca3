"""Sets of knob values: staged at once, kept by name for the method."""

import pytest
from textual.pilot import Pilot

from specviz import events as ev
from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz_tui.app import SpecvizApp
from specviz_tui.common import presets
from specviz_tui.screens.dialogs import PickScreen
from support.live import WIDE, Script, catalogue, live_app, main_of, shown
from support.traces import make_events


async def begun(app: SpecvizApp, pilot: Pilot[int], script: Script) -> None:
    """A run whose knob was moved in its third round."""
    script.play([catalogue()])
    main_of(app).feed.start(Start(prompt="def f(x):"))
    records = make_events(temperature=0.8, new_tokens=40, knob_at=3)
    script.play([record for record in records if not isinstance(record, ev.End)])
    main_of(app).tick()
    main_of(app).feed.to_live()
    main_of(app).paint()
    await pilot.pause()


async def test_the_values_of_the_beginning_are_staged() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await begun(app, pilot, script)
        await pilot.press("K", "s")
        await pilot.pause()
        assert isinstance(app.screen, PickScreen)
        assert "as the run began" in shown(app)
        assert "γ 6→4" in shown(app), "what it would change stands beside it"
        await pilot.press("down", "enter")
        await pilot.pause()
        assert main_of(app).feed.edits.staged == {"gamma": 4}


async def test_a_set_is_kept_for_its_method_and_comes_back() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await begun(app, pilot, script)
        await pilot.press("K", "left", "s", "end", "enter")
        await pilot.pause()
        await pilot.press(*"short", "enter")
        await pilot.pause()
        assert presets.kept_presets("draft")["short"]["gamma"] == 5
        assert presets.kept_presets("ngram") == {}
        await pilot.press("z", "s")
        await pilot.pause()
        assert "short" in shown(app)


def test_a_file_that_is_no_table_of_sets_is_passed_over_and_one_that_cannot_be_written_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = presets.preset_file()
    path.parent.mkdir(parents=True)
    path.write_text("[1, 2]")
    assert presets.kept_presets("draft") == {}
    presets.keep_preset("draft", "a", {"gamma": 1})
    assert presets.kept_presets("draft") == {"a": {"gamma": 1}}
    monkeypatch.setattr(presets, "preset_file", lambda: path / "below")
    with pytest.raises(SpecvizError, match="the set is not kept"):
        presets.keep_preset("draft", "b", {})
