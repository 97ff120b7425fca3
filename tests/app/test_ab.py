"""A/B of a live run whose knob was moved: both settings are decoded, kept by name, and laid side by side."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed (extra web)")
from app.conftest import Open
from app.fakes import fake_settings, until
from specviz.commands import Start, StepRounds, Stop
from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.sources.two_settings import two_settings
from specviz_app.server.core import ServedRun, Settings
from specviz_app.server.live_rounds import now
from specviz_app.server.server import Server, current
from specviz_app.ui import ab
from specviz_app.ui.library import choices


def _moved(core: ServedRun, **knobs: Any) -> None:
    """A run in which a knob was moved, held after some rounds."""
    core.start(Start(prompt="x", knobs={"max_new_tokens": 12, **knobs}, paused=True))
    until(lambda: core.running, "no run")
    core.set_knobs({"gamma": 6})
    core.command(StepRounds(n=2))
    until(lambda: core.run.changes, "no acknowledgement")


def test_both_settings_are_decoded_and_kept_under_their_names(core: ServedRun) -> None:
    _moved(core, temperature=0.5)
    starts: list[Start] = []
    start = core.start
    core.start = lambda wanted, paced=False: (starts.append(wanted), start(wanted, paced))[1]  # type: ignore[method-assign]
    trial = core.try_both()
    until(lambda: not trial.running, "it does not end")
    assert trial.problem is None
    assert trial.names == ["A/B 1: γ 4", "A/B 1: γ 6"]
    kept = {"max_new_tokens": 12, "temperature": 0.5}
    assert [question.knobs for question in starts] == [kept, kept | {"gamma": 6}]
    assert [(question.prompt, question.paused) for question in starts] == [("x", False)] * 2
    runs = [core.events_of(name) for name in trial.names]
    headers = [next(event for event in events if isinstance(event, Header)) for events in runs]
    assert len({header.run for header in headers}) == 2
    assert all(events[-1].__struct_config__.tag == "end" for events in runs)
    assert set(trial.names) <= set(choices(current(), {}))


def test_a_run_that_was_kept_is_not_offered_twice(core: ServedRun) -> None:
    _moved(core)
    trial = core.try_both()
    until(lambda: not trial.running, "it does not end")
    core.start(Start(prompt="y", knobs={"max_new_tokens": 4}))
    until(lambda: core.run.end is not None and not core.running and not core.preparing, "no other run")
    runs = [past.run for past in core.past.values()]
    assert len(runs) == len(set(runs))
    assert [name for name in core.past if name.startswith("A/B")] == trial.names


def test_it_is_offered_where_a_knob_stands_otherwise_than_it_began(core: ServedRun) -> None:
    import json

    core.start(Start(prompt="x", paused=True))
    until(lambda: core.running, "no run")
    assert json.loads(core.look(now))["ab"] == ""
    with pytest.raises(SpecvizError, match="move one first"):
        core.try_both()
    core.set_knobs({"gamma": 6})
    core.command(StepRounds(n=2))
    until(lambda: core.run.changes, "no acknowledgement")
    assert json.loads(core.look(now))["ab"] == "A/B: the same prompt with γ 4 and with γ 6"
    core.set_knobs({"gamma": 4})
    core.command(StepRounds(n=2))
    until(lambda: len(core.run.changes) == 2, "no acknowledgement")
    with core.lock:
        assert two_settings(core) is None, "it stands as it began"


@pytest.mark.parametrize("end", ["cancel", "stop", "start"])
def test_it_is_ended_by_a_person_and_says_so(end: str, server: Callable[[Settings], Server]) -> None:
    core = server(fake_settings("0.2")).core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    _moved(core)
    trial = core.try_both()
    until(lambda: core.started is trial.asked.starts[0] and core.running, "it does not begin")
    with pytest.raises(SpecvizError, match="goes on already"):
        core.try_both()
    if end == "cancel":
        trial.cancel()
    elif end == "stop":
        core.command(Stop())
    else:
        core.start(Start(prompt="z", knobs={"max_new_tokens": 4}))
    until(lambda: not trial.running, "it does not end")
    assert trial.cancelled is (end != "start")
    assert end != "start" or "another run" in str(trial.problem)
    assert trial.names == []
    until(lambda: not core.running, "the core goes on")


def test_a_start_that_is_refused_is_told(core: ServedRun) -> None:
    _moved(core)
    assert core.started is not None
    core.started.prompt = "too long"
    trial = core.try_both()
    until(lambda: not trial.running, "it waits")
    assert "no space is left" in str(trial.problem)


def test_a_core_that_goes_ends_it(core: ServedRun) -> None:
    _moved(core)
    trial = core.try_both()
    core.source.close()
    until(lambda: not trial.running, "it waits")
    assert trial.problem


def test_the_page_says_how_far_it_is_and_goes_to_both_when_they_are_done(open_page: Open) -> None:
    at = open_page(fake_settings("0.1", live=True), src="live run")
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    _moved(core)
    at.session_state[ab._MINE] = core.try_both().number
    trial = core.trial
    assert trial is not None
    at.run()
    assert not at.exception
    assert at.button(key="ab-cancel")
    share, words = trial.progress()
    assert 0 <= share < 1
    assert words.startswith("A/B 1 of 2, γ 4: ")
    until(lambda: not trial.running, "it does not end")
    assert trial.problem is None
    assert trial.progress()[0] <= 1
    at.run()
    assert not at.exception
    assert at.multiselect(key="runs").value == trial.names
    assert "ab-mine" not in at.session_state


def test_the_button_of_the_page_ends_it(open_page: Open) -> None:
    at = open_page(fake_settings("0.2", live=True), src="live run")
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    _moved(core)
    trial = core.try_both()
    at.run()
    at.button(key="ab-cancel").click().run()
    until(lambda: not trial.running, "it does not end")
    assert trial.cancelled
