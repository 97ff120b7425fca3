"""The footer says what a key would do now, and leaves out what can do nothing; narrow screens name the phase on top."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from specviz import events as ev
from specviz.commands import Start
from specviz.view.words.palette import PHASE_WORDS, Phase
from specviz_tui.app import SpecvizApp
from support.live import NARROW, WIDE, Script, catalogue, lines, live_app, main_of, replay_app
from support.traces import make_events

RUN = make_events(temperature=0.8, new_tokens=40)


async def footer(pilot: Pilot[int]) -> str:
    main_of(pilot.app).tick()  # type: ignore[arg-type]
    await pilot.pause()
    return lines(pilot.app)[-1]  # type: ignore[arg-type]


async def test_a_recording_offers_no_knobs_and_nothing_to_follow(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        line = await footer(pilot)
        assert "rejection" in line
        for word in ("knobs", "follow", "hold", "full speed"):
            assert word not in line


async def test_where_nothing_was_rejected_no_key_leads_to_a_rejection(tmp_path: Path) -> None:
    app = live_app(script := Script())
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), ev.State(state="idle")])
        line = await footer(pilot)
        assert "knobs" in line
        for word in ("rejection", "step", "what if"):
            assert word not in line, "no round has begun"


async def begun(app: SpecvizApp, script: Script, pilot: Pilot[Any]) -> None:
    """A live run is asked for; its first round is still to come."""
    script.play([catalogue(), ev.State(state="idle")])
    await footer(pilot)
    await pilot.press("escape")  # it asks for a prompt
    app.feed.start(Start(prompt="a"))


async def test_on_the_knobs_enter_says_what_it_does_there() -> None:
    app = live_app(script := Script())
    async with app.run_test(size=(160, 36)) as pilot:
        await begun(app, script, pilot)
        script.play(RUN[:-1])
        assert "enter why" in await footer(pilot)
        await pilot.press("K")
        line = await footer(pilot)
        assert "enter type a value" in line
        assert "enter why" not in line
        await pilot.press("escape")
        assert "enter why" in await footer(pilot)


async def test_a_live_run_says_follow_and_stay_hold_and_go_on() -> None:
    app = live_app(script := Script())
    async with app.run_test(size=(160, 36)) as pilot:
        await begun(app, script, pilot)
        ended = next(k for k, event in enumerate(RUN) if isinstance(event, ev.RoundEnd) and event.r >= 2)
        script.play(RUN[: ended + 1])
        line = await footer(pilot)
        assert "space stay" in line
        assert "H hold" in line
        assert "follow" not in line
        await pilot.press("space")
        line = await footer(pilot)
        assert "space play" in line
        assert "End follow" in line
        await pilot.press("H")
        line = await footer(pilot)
        assert "H go on" in line


@pytest.mark.parametrize("size", [NARROW, (60, 18)], ids=["80x24", "60x18"])
async def test_the_phase_is_named_on_a_narrow_screen(size: tuple[int, int], tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=size) as pilot:
        await pilot.press("home")
        seen = set()
        for _ in range(40):
            await pilot.pause()
            here = main_of(app).frame.phase
            assert f"{int(here)}/6 " in lines(app)[0]
            seen |= {phase for phase in Phase if PHASE_WORDS[phase] in lines(app)[0]}
            await pilot.press("full_stop")
        assert seen >= {Phase.ROOT, Phase.DRAFT, Phase.VERIFY, Phase.ACCEPT, Phase.COMMIT}
