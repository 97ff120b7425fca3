"""A paced core: a recording while it loads, a round at a time, full speed on a key, and what is said of its silence."""

from pathlib import Path

import pytest
from textual.pilot import Pilot

from specviz import events as ev
from specviz.commands import Pause, Resume, Start, StepRounds, Stop
from specviz.runlog.fold import fold
from specviz.sources import bundled
from specviz.trace import read_events
from specviz.view import Cursor, Player
from specviz.view.words.palette import Phase
from specviz_tui.app import SpecvizApp
from specviz_tui.common.feed import SEEN_FIRST, RunFeed
from specviz_tui.screens.library import Library, WorkerStart
from support.live import WIDE, Script, catalogue, lines, main_of, shown
from support.traces import make_events

RUN = make_events(temperature=0.8, new_tokens=40)


class Obeying(Script):
    """A core that runs one round for every step it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[list[ev.Event]] = []
        for event in RUN:
            if isinstance(event, ev.RoundStart):
                self.parts.append([])
            if self.parts:
                self.parts[-1].append(event)
        self.n_rounds = len(self.parts)
        self.asked = self.loaded = False
        self.begin_with = catalogue()

    def send(self, command: object) -> None:
        super().send(command)  # type: ignore[arg-type]
        if isinstance(command, Start):
            assert command.paused
            self.asked = True
            self._begin()
        elif isinstance(command, StepRounds):
            self.play(self.parts.pop(0) if self.parts else [])
            self.play([ev.State(state="paused")])
        elif isinstance(command, Resume):
            while self.parts:
                self.play(self.parts.pop(0))
        elif isinstance(command, Stop):
            self.parts = []
            self.play([ev.End(reason="stopped")])

    def ready(self) -> None:
        self.loaded = True
        self.play([self.begin_with, ev.State(state="idle")])
        self._begin()

    def _begin(self) -> None:
        if self.asked and self.loaded:
            self.play(RUN[: RUN.index(self.parts[0][0])])
            self.play([ev.State(state="paused")])


def paced(script: Script, prelude: bool = False, animate: bool = True) -> RunFeed:
    recording = Player(fold(make_events(temperature=0.8, seed=5, new_tokens=40)), animate) if prelude else None
    return RunFeed(script, "live", animate=animate, paced=True, prelude=recording)


def watch(feed: RunFeed, since: float = 0.0, tick_s: float = 0.25) -> list[Cursor]:
    """What is on screen, look by look, until the run has ended there."""
    cursors: list[Cursor] = []
    for k in range(5_000):
        feed.tick(since + k * tick_s)
        if feed.run.rounds and (not cursors or cursors[-1] != feed.player.cursor):
            cursors.append(feed.player.cursor)
        if feed.frame().state.name == "ended":
            return cursors
    raise AssertionError(f"stands still at {cursors[-3:]}")


def test_every_moment_is_seen_and_the_core_runs_a_round_at_a_time() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="def f(x):"))
    cursors = watch(feed)
    whole = Player(fold(RUN))
    whole.first()
    wanted = [whole.cursor]
    while whole.next_step():
        wanted.append(whole.cursor)
    assert cursors == wanted
    assert sum(isinstance(c, StepRounds) for c in script.commands) == script.n_rounds
    assert feed.last_start is not None
    assert not feed.last_start.paused  # what a person asked for; the pace is not theirs
    feed.player.toggle()
    assert feed.player.cursor == Cursor(0, Phase.ROOT)


def test_the_core_never_counts_as_held_for_being_paced() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a"))
    for k in range(20):
        feed.tick(k * 0.25)
        if feed.run.rounds:
            assert feed.frame().state.text == "LIVE every round"
            assert not feed.held
    assert feed.run.rounds


def test_a_start_that_asked_to_be_held_is_held_and_goes_on_paced() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a", paused=True))
    for k in range(8):
        feed.tick(k * 1.0)
    assert feed.held
    assert [type(c) for c in script.commands] == [Start]
    feed.step_core()
    feed.tick(9.0)
    assert len(feed.run.rounds) == 1
    assert not feed.toggle_hold()
    assert len(watch(feed, 10.0)) > script.n_rounds
    assert not any(isinstance(c, Resume) for c in script.commands)


def test_holding_a_paced_core_asks_for_no_more_rounds() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a"))
    for k in range(20):
        feed.tick(k * 0.25)
    assert feed.toggle_hold()
    n = len(feed.run.rounds)
    for k in range(20, 200):
        feed.tick(k * 0.25)
    assert len(feed.run.rounds) - n <= 1  # the one that was asked for
    assert feed.frame().state.text == "PAUSED"
    assert feed.frame().state.detail == "the core waits"
    feed.toggle_hold()
    watch(feed, 60.0)


def test_the_pace_is_switched_live() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a"))
    for k in range(30):
        feed.tick(k * 0.25)
    assert feed.other_pace == "full speed"
    assert not feed.switch_pace()
    assert isinstance(script.commands[-1], Resume)
    feed.tick(8.0)
    assert len(feed.run.rounds) == script.n_rounds
    assert feed.other_pace == "every round"
    assert feed.switch_pace()
    other = Obeying()
    slow = RunFeed(other, "live")
    other.ready()
    slow.source.send = lambda command: Script.send(other, command)  # type: ignore[method-assign]
    slow.start(Start(prompt="a"))
    other.play([*RUN[:3], ev.State(state="running")])
    slow.tick(0.0)
    assert slow.switch_pace()
    assert isinstance(other.commands[-1], Pause)


def test_a_recording_plays_while_the_models_load() -> None:
    script = Obeying()
    feed = paced(script, prelude=True)
    feed.start(Start(prompt="a"))
    places, name = [], feed.prelude.run.header.run
    for k in range(3, 40):
        feed.tick(k * 0.25)
        frame = feed.frame()
        places.append(frame.cursor)
        assert frame.state.name == "loading"
        assert frame.state.text == f"LOADING {(k - 3) * 0.25:.0f} s · meanwhile the recording {name}"
        assert frame.state.meanwhile == name
    assert len(set(places)) > 15
    assert not frame.knobs.items or all(item.disabled for item in frame.knobs.items)
    script.ready()
    feed.tick(10.0)
    assert feed.prelude is None
    assert (feed.frame().state.text, feed.frame().state.meanwhile) == ("LIVE every round", "")


def test_the_recording_begins_again_at_its_end() -> None:
    feed = paced(Obeying(), prelude=True)
    feed.start(Start(prompt="a"))
    indices = []
    for k in range(2_000):
        feed.tick(k * 0.25)
        indices.append(feed.player.cursor.index)
    assert indices.count(0) > 20
    assert max(indices) > 3
    assert indices[-1] < max(indices) or 0 in indices[indices.index(max(indices)) :]


def test_who_looks_at_a_moment_of_the_recording_is_left_there_until_they_ask() -> None:
    script = Obeying()
    feed = paced(script, prelude=True)
    feed.start(Start(prompt="a"))
    feed.tick(0.0)
    feed.player.next_round()
    before = feed.player.cursor
    script.ready()
    for k in range(20):
        feed.tick(1.0 + k)
    assert feed.prelude is not None
    assert feed.player.cursor == before
    assert "End shows the live run" in feed.frame().state.text
    assert sum(isinstance(c, StepRounds) for c in script.commands) == 1  # it waits at its first round
    feed.note("look here")
    assert [note.text for note in feed.prelude.run.notes] == ["look here"]
    feed.to_live()
    assert feed.player.run is feed.run
    assert watch(feed, 30.0)[0] == Cursor(0, Phase.ROOT)


@pytest.mark.parametrize("how", ["refused", "lost"])
def test_the_recording_does_not_hide_what_went_wrong(how: str) -> None:
    script = Obeying()
    feed = paced(script, prelude=True)
    feed.start(Start(prompt="a"))
    feed.tick(0.0)
    script.asked = False  # it comes to nothing
    script.ready()
    feed.tick(0.1)
    if how == "refused":
        script.play([ev.Refused(id=script.commands[0].id, message="the prompt is empty")])
    else:
        script.play([ev.End(reason="core_lost", message="SIGKILL")])
        script.die()
    for k in range(4):
        feed.tick(0.2 + k)
    assert feed.prelude is None
    assert feed.take_notices()


def test_the_bundled_recording_is_sampled_and_shows_both_ends() -> None:
    """Its first rounds, which are what is seen while the models load."""
    events = read_events(bundled.bundled_traces()[bundled.FIRST])
    header = next(e for e in events if isinstance(e, ev.Header))
    assert header.sampling["temperature"] > 0
    ends = [e for e in events if isinstance(e, ev.RoundEnd)]
    kept = [e.n_accepted == e.n_drafted for e in ends[:4]]
    assert set(kept) == {True, False}


def scripted(*_words: object, **_options: object) -> Script:
    return Script()


def test_a_live_library_is_paced_and_has_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Start(prompt="a")
    feed = Library(core=WorkerStart(start=start, begin=scripted)).live()
    assert feed.paced
    assert feed.prelude is not None
    assert Library(core=WorkerStart(begin=scripted)).live().prelude is None  # the dialog opens, nothing else moves
    assert not Library(core=WorkerStart(start=start, paced=False, begin=scripted)).live().paced
    monkeypatch.setattr("specviz_tui.screens.library.bundled_traces", lambda: {bundled.FIRST: Path("nowhere.sv.jsonl")})
    assert Library(core=WorkerStart(start=start, begin=scripted)).live().prelude is None


def test_of_a_first_answer_a_few_rounds_wait_for_the_eye_then_it_comes_at_full_speed() -> None:
    script = Obeying()
    script.begin_with = catalogue(talks=True)
    feed = paced(script)
    script.ready()
    feed.say("hello", Start())
    cursors = watch(feed)
    stepped = [c.index for c in cursors if c.phase is Phase.DRAFT]
    assert set(stepped) == set(range(SEEN_FIRST)), "step by step, then end states"
    assert not feed.paced
    assert feed.player.speed == 1.0


def test_who_chooses_the_pace_of_the_first_answer_keeps_it() -> None:
    script = Obeying()
    script.begin_with = catalogue(talks=True)
    feed = paced(script)
    script.ready()
    feed.say("hello", Start())
    feed.tick(0.0)
    feed.switch_pace()
    feed.switch_pace()
    watch(feed, 1.0)
    assert feed.paced


# On the screen --------------------------------------------------------------------------------------------------


async def settle(pilot: Pilot[int]) -> None:
    main_of(pilot.app).tick()  # type: ignore[arg-type]
    await pilot.pause()


async def test_the_footer_says_what_the_key_of_the_pace_brings() -> None:
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a"))
    app = SpecvizApp(Library(), feed)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "F full speed" in lines(app)[-1]
        await pilot.press("F")
        await settle(pilot)
        assert "F every round" in lines(app)[-1]
        assert not feed.paced
        await settle(pilot)
        assert "ENDED · space: again" in lines(app)[0]
        assert "space again" in lines(app)[-1]
        await pilot.press("space")
        await pilot.pause()
        assert feed.player.cursor.index == 0
        assert feed.player.playing


async def test_a_core_that_does_not_answer_is_told_at_every_width() -> None:
    for size in (WIDE, (80, 24), (60, 18)):
        script = Obeying()
        feed = paced(script)
        script.ready()
        feed.start(Start(prompt="a"))
        app = SpecvizApp(Library(), feed)
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            script.silence = "the core has not answered for 4 s"
            await settle(pilot)
            assert "NO ANSWER" in shown(app)
            assert script.silence in [note.message for note in app._notifications]
            script.silence = None
            await settle(pilot)
            assert "NO ANSWER" not in lines(app)[0]


def test_a_run_of_which_nothing_comes_counts_the_seconds() -> None:
    """Alive, and in a round that takes long: nothing is judged, only counted."""
    script = Obeying()
    feed = paced(script)
    script.ready()
    feed.start(Start(prompt="a"))
    script.parts.insert(0, [])  # the first step brings nothing yet
    for k in range(20):
        feed.tick(k * 0.5)
    assert feed.frame().state.text == "LIVE waiting for the core, 9 s"
