"""Live decoding over a scripted core: what is asked of it, what is shown of it, and that nothing it says is lost."""

from collections.abc import Iterator

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Select, Static

from specviz import events as ev
from specviz.commands import Pause, Resume, SetKnob, Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.page import PageScreen
from specviz_tui.screens.start import StartScreen
from specviz_tui.widgets.knob_bar import KnobPanel
from support.live import WIDE, Script, catalogue, live_app, main_of, shown
from support.traces import make_events


async def settle(pilot: Pilot[int]) -> None:
    """One tick of the clock, without waiting for it."""
    main_of(pilot.app).tick()  # type: ignore[arg-type]
    await pilot.pause()


def rounds_of(events: list[ev.Event]) -> Iterator[list[ev.Event]]:
    """Header and prefill, then one list per round, then the end."""
    part: list[ev.Event] = []
    for event in events:
        if isinstance(event, ev.RoundStart | ev.End) and part:
            yield part
            part = []
        part.append(event)
    yield part


@pytest.fixture
def script() -> Script:
    return Script()


async def started(pilot: Pilot[int], script: Script, n_rounds: int) -> list[list[ev.Event]]:
    """A run of which the first rounds have come; the rest is returned."""
    app = main_of(pilot.app)  # type: ignore[arg-type]
    script.play([catalogue()])
    app.feed.start(Start(prompt="def f(x):"))
    parts = list(rounds_of(make_events(temperature=0.8, new_tokens=40)))
    for part in parts[: n_rounds + 1]:
        script.play(part)
    await settle(pilot)
    return parts[n_rounds + 1 :]


async def test_it_says_that_it_loads_then_asks_for_a_prompt(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "LOADING" in shown(app)
        script.play([catalogue(), ev.State(state="idle")])
        await settle(pilot)
        assert isinstance(app.screen, StartScreen)
        await pilot.press(*"def f():", "ctrl+s")
        await pilot.pause()
        (start,) = script.commands
        assert isinstance(start, Start)
        assert (start.prompt, start.method, start.verifier, start.paused) == ("def f():", "draft", None, False)


async def test_the_dialog_refuses_nothing_and_wrong_knobs(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue()])
        await settle(pilot)
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert "at least one token" in shown(app)
        await pilot.press("a", *["tab"] * 6, *"gama=3", "ctrl+s")
        await pilot.pause()
        assert "did you mean 'gamma'" in shown(app)
        assert script.commands == []
        await pilot.press("home", *["delete"] * 6, *"gamma=3", "ctrl+t")
        await pilot.pause()
        (start,) = script.commands
        assert isinstance(start, Start)
        assert (start.knobs, start.paused) == ({"gamma": 3}, True)


async def test_live_and_replay_show_the_same_frame(script: Script) -> None:
    app = live_app(script)
    events = make_events(temperature=0.8, new_tokens=40)
    async with app.run_test(size=WIDE) as pilot:
        main = main_of(app)
        for event in events[:-1]:
            script.play([event])
            main.tick()
        script.play(events[-1:])
        await settle(pilot)
        piecewise = main.frame
    whole = live_app(second := Script())
    async with whole.run_test(size=WIDE) as pilot:
        second.play(events)
        await settle(pilot)
        assert main_of(whole).frame == piecewise
        assert piecewise is not None
        assert piecewise.n_rounds == sum(isinstance(e, ev.RoundStart) for e in events)


async def test_pausing_freezes_the_view_and_loses_nothing(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        rest = await started(pilot, script, 3)
        await pilot.press("space")
        for part in rest[:4]:
            script.play(part)
            await settle(pilot)
        assert main_of(app).frame.round == 3
        assert "PAUSED (+4)" in shown(app)
        await pilot.press("end")
        await settle(pilot)
        assert main_of(app).frame.round == 7
        assert "LIVE" in shown(app)


async def test_a_knob_is_staged_sent_and_acknowledged(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        rest = await started(pilot, script, 2)
        await pilot.press("K")
        await pilot.pause()
        name = app.screen.query_one("#knobs").item.name  # type: ignore[attr-defined]
        assert name == "gamma"
        await pilot.press("right", "right", "left", "right")
        await pilot.pause()
        assert "4→6" in shown(app)
        assert not any(isinstance(c, SetKnob) for c in script.commands)
        await pilot.press("a")
        await pilot.pause()
        (sent,) = [c for c in script.commands if isinstance(c, SetKnob)]
        assert (sent.name, sent.value) == ("gamma", 6)
        assert "4⇒6" in shown(app)
        script.play([ev.Knob(name="gamma", old=4, new=6, requested_r=2, applied_r=3, r=3)])
        script.play(rest[0])
        await settle(pilot)
        assert "4⇒6" not in shown(app)
        assert "γ 4→6" in shown(app)
        assert "◆" in main_of(app).frame.timeline.points[2].markers


async def test_undo_default_and_a_typed_value(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        desk = main_of(app).feed.edits
        await pilot.press("K", "right", "right", "z")
        await pilot.pause()
        assert desk.staged == {"gamma": 5}
        await pilot.press("x")
        await pilot.pause()
        assert desk.staged == {}
        await pilot.press("enter", "backspace", *"99", "enter")
        await pilot.pause()
        assert "0..64" in shown(app)
        assert desk.staged == {}
        await pilot.press("backspace", "backspace", *"12", "enter")
        await pilot.pause()
        assert desk.staged == {"gamma": 12}


def press_at_once(app: SpecvizApp, *actions: str) -> None:
    """Keys that all come before the next frame, as a held key sends them."""
    panel = app.screen.query_one(KnobPanel)
    for action in actions:
        {
            "right": lambda: panel.action_adjust(1),
            "left": lambda: panel.action_adjust(-1),
            "down": lambda: panel.action_move(1),
        }[action]()


async def test_a_burst_of_presses_loses_none(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        desk = main_of(app).feed.edits
        await pilot.press("K")
        press_at_once(app, *["right"] * 6, "left", "right")
        await pilot.pause()
        assert desk.staged == {"gamma": 10}
        assert "4→10" in shown(app)
        press_at_once(app, "right", "down")  # the cursor has gone on when the press is answered
        await pilot.pause()
        assert desk.staged == {"gamma": 11}


async def test_every_undo_takes_back_what_can_be_seen(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        desk = main_of(app).feed.edits
        await pilot.press("K")
        press_at_once(app, *["right"] * 3)
        await pilot.pause()
        seen = []
        for _ in range(3):
            await pilot.press("z")
            seen.append(dict(desk.staged))
        assert seen == [{"gamma": 6}, {"gamma": 5}, {}]
        press_at_once(app, *["left"] * 6)  # four to the end of the range, two that change nothing
        await pilot.pause()
        await pilot.press("z")
        assert desk.staged == {"gamma": 1}


async def test_the_slider_stands_at_the_value_asked_for(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        rest = await started(pilot, script, 2)
        await pilot.press("K", "enter", "backspace", *"64", "enter")
        await pilot.pause()
        panel = app.screen.query_one(KnobPanel)
        assert panel.item is not None
        assert (panel.item.value, panel.item.fill) == (4, 1.0)
        await pilot.press("a")
        await pilot.pause()
        assert panel.item.fill == 1.0, "sent, not yet confirmed"
        await pilot.press("left")
        await pilot.pause()
        assert main_of(app).feed.edits.staged == {"gamma": 63}, "from the value that was sent"
        assert "4⇒64→63" in shown(app)
        await pilot.press("z")
        script.play([ev.Knob(name="gamma", old=4, new=64, requested_r=2, applied_r=3, r=3)])
        script.play(rest[0])
        await settle(pilot)
        assert (panel.item.value, panel.item.staged, panel.item.fill) == (64, None, 1.0)


async def test_a_refused_knob_is_told_and_taken_back(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        await pilot.press("K", "right", "a")
        await pilot.pause()
        sent = script.commands[-1]
        script.play([ev.Refused(id=sent.id, message="not while it rains")])
        await settle(pilot)
        await pilot.pause()
        assert [note.message for note in app._notifications] == ["not while it rains"]
        assert main_of(app).feed.edits.sent == {}


async def test_a_refused_start_is_told_in_a_panel(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue()])
        app.feed.start(Start(prompt="much too long"))
        script.play([ev.Refused(id=script.commands[0].id, message="the prompt is longer than the context")])
        await settle(pilot)
        await pilot.pause()
        assert isinstance(app.screen, PageScreen)
        assert "longer than the context" in shown(app)


async def test_the_core_is_held_stepped_and_let_go(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        rest = await started(pilot, script, 2)
        await pilot.press("H", "]")
        script.play(rest[0])
        await settle(pilot)
        assert main_of(app).frame.round == 3
        await pilot.press("H", "S")
        kinds = [type(command) for command in script.commands]
        assert kinds == [Start, Pause, StepRounds, Resume, Stop]


async def test_another_prompt_stops_the_run_and_begins_afresh(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 4)
        await pilot.press("p")
        await pilot.pause()
        assert isinstance(app.screen, StartScreen)
        await pilot.press(*"!", "ctrl+s")
        await pilot.pause()
        assert [type(c) for c in script.commands[1:]] == [Stop]  # a start would be refused now
        script.play([ev.End(reason="stopped")])
        await settle(pilot)
        assert [type(c) for c in script.commands[1:]] == [Stop]  # the worker has not said that it is free
        script.play([ev.State(state="idle")])
        await settle(pilot)
        assert [type(c) for c in script.commands[1:]] == [Stop, Start]
        assert script.commands[-1].prompt == "def f(x):!"  # type: ignore[attr-defined]
        script.play(make_events(new_tokens=8, temperature=0.8))
        await settle(pilot)
        frame = main_of(app).frame
        assert frame.timeline.points[0].index == 0
        assert len(frame.timeline.points) == frame.n_rounds < 8


def _lacking(*names: str) -> ev.Catalogue:
    """A catalogue of a worker whose models lack what these methods need."""
    offer = catalogue()
    for info in offer.methods:
        if info.name in names:
            info.missing = ev.Missing(
                why="no heads for the target",
                command=f"specviz train {info.name}",
                then="--drafter heads",
                knob="drafter",
            )
    return offer


async def test_a_method_that_cannot_run_stands_last_says_why_and_never_ends_the_run_in_hand(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 4)
        script.play([_lacking("adadecode", "medusa")])
        await settle(pilot)
        await pilot.press("p")
        await pilot.pause()
        box = app.screen.query_one("#method", Select)
        labels = [str(label).partition(":")[0] for label, _ in box._options]
        assert labels[-2:] == ["adadecode (not here)", "medusa (not here)"]
        assert sum("not here" in label for label in labels) == 2
        box.value = "medusa"
        await pilot.pause()
        hint = app.screen.query_one("#hint", Static)
        assert "specviz train medusa, then give --drafter heads" in str(hint.content)
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert isinstance(app.screen, StartScreen)
        assert app.screen.query_one("#hint").has_class("-refused")
        assert [type(c) for c in script.commands] == [Start]  # neither Stop nor Start: the run in hand goes on
        app.screen.query_one("#knobs", Input).value = "drafter=some/folder"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert [type(c) for c in script.commands] == [Start, Stop]  # a part named by hand


async def test_the_feed_starts_nothing_that_cannot_run(script: Script) -> None:
    """Whoever asks, dialog or not: a run in hand is not ended for what would be refused."""
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        script.play([_lacking("draft")])
        await settle(pilot)
        with pytest.raises(SpecvizError, match="draft cannot run here: no heads for the target: specviz train draft"):
            app.feed.start(Start(prompt="x", method="draft"))
        assert [type(c) for c in script.commands] == [Start]


async def test_the_dialog_proposes_a_method_that_can_run(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([_lacking("draft"), ev.State(state="idle")])
        await settle(pilot)
        assert isinstance(app.screen, StartScreen)
        assert app.screen.query_one("#method", Select).value == "ngram"


async def test_a_lost_core_is_told_in_a_panel_and_keeps_its_trace(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 3)
        script.play([ev.End(reason="core_lost", message="the core was lost: SIGKILL - probably out of memory")])
        script.die()
        await settle(pilot)
        await pilot.pause()
        assert isinstance(app.screen, PageScreen)
        assert "SIGKILL" in shown(app)
        await pilot.press("escape", "[")
        await settle(pilot)
        assert main_of(app).frame.round == 2
        assert "CORE LOST" in shown(app)
        await pilot.press("p")
        await pilot.pause()
        assert not isinstance(app.screen, StartScreen)


async def test_a_failed_run_is_told_without_a_traceback(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await started(pilot, script, 2)
        script.play([ev.End(reason="error", message="RuntimeError: [red] not finite")])
        await settle(pilot)
        await pilot.pause()
        assert "RuntimeError: [red] not finite" in shown(app)
        assert "Traceback" not in shown(app)


async def test_a_core_that_never_was_ready_ends_the_screen_with_code_2(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.die()
        main_of(app).tick()
        await pilot.pause()
    assert app.return_code == 2
    assert script.closed


async def test_a_core_that_is_killed_while_it_loads_says_how(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([ev.End(reason="core_lost", message="the core was lost: SIGKILL - probably out of memory")])
        script.die()
        main_of(app).tick()
        await pilot.pause()
    assert app.return_code == 2
    assert app.feed.failed == "the core was lost: SIGKILL - probably out of memory"


async def test_a_recording_may_begin_in_the_middle(
    script: Script, tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specviz.trace import read_events

    monkeypatch.chdir(tmp_path)  # type: ignore[arg-type]
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        rest = await started(pilot, script, 2)
        await pilot.press("R")
        await pilot.pause()
        assert "rec factory" in shown(app)
        for part in rest:
            script.play(part)
        await settle(pilot)
        assert "rec factory" not in shown(app)
    events = read_events("factory")
    assert sum(isinstance(e, ev.RoundEnd) for e in events) == 2 + sum(isinstance(p[0], ev.RoundStart) for p in rest)
    assert isinstance(events[-1], ev.End)
