"""The recordings that ship: a draft slower than its target, or a text that turns in a circle, is not one of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specviz import events as ev
from specviz.sources.bundled import FIRST, bundled_traces
from support.traces import make_events, write_trace
from tools.recordings import FEWEST, MOST_REPEATED, fault, loops, repeated, slow, untold


@pytest.mark.parametrize("name", list(bundled_traces()))
def test_a_bundled_recording_was_made_on_a_quiet_machine_and_does_not_loop(name: str) -> None:
    """Record it again with tools/bundle_traces.py when this fails; it refuses such recordings itself."""
    assert fault(bundled_traces()[name]) is None
    assert untold(bundled_traces()[name]) is None


def _trace(folder: Path, change: Callable[[ev.RoundEnd], None], models: ev.Models | None = None) -> Path:
    """A recording of the table model with its stages set by hand."""
    events = make_events(temperature=0.8, seed=1, new_tokens=40)
    for event in events:
        if isinstance(event, ev.RoundEnd):
            change(event)
        elif isinstance(event, ev.Header) and models is not None:
            event.models = models
    return write_trace(folder / "t.sv.jsonl", events)


def _stages(draft: int, target: int, but: dict[int, int] | None = None) -> Callable[[ev.RoundEnd], None]:
    """The same stages in every round, `but` with another drafting time in some."""

    def change(end: ev.RoundEnd) -> None:
        end.n_draft_calls = 4
        end.stage_ns = {"draft": (but or {}).get(end.r, draft), "target": target}

    return change


def test_drafting_of_a_second_model_is_held_to_the_target_pass(tmp_path: Path) -> None:
    assert slow(_trace(tmp_path, _stages(6_000_000, 8_000_000))) is None
    words = slow(_trace(tmp_path, _stages(9_000_000, 8_000_000)))
    assert words is not None
    assert words.startswith("in ")
    first = slow(_trace(tmp_path, _stages(6_000_000, 8_000_000, {1: 9_000_000})))
    assert first is not None
    assert first.endswith("first in r1")
    assert slow(_trace(tmp_path, _stages(6_000_000, 8_000_000, {3: 9_000_000}))) is None  # one round is an accident
    assert (
        slow(_trace(tmp_path, _stages(6_000_000, 8_000_000, {2: 9_000_000, 3: 9_000_000, 4: 9_000_000, 5: 9_000_000})))
        is not None
    )


def test_a_small_network_is_held_to_the_target_call_by_call(tmp_path: Path) -> None:
    """Its round may take longer than a pass, as that of eagle3 does here on the quietest machine."""
    alone = ev.Models(target=ev.ModelInfo(name="t"))
    assert slow(_trace(tmp_path, _stages(25_000_000, 15_000_000), alone)) is None
    assert slow(_trace(tmp_path, _stages(61_000_000, 15_000_000), alone)) == (
        "a call that drafts takes 15.2 ms, a target pass 15.0 ms"
    )


def test_what_drafts_nothing_is_never_slow(tmp_path: Path) -> None:
    def nothing(end: ev.RoundEnd) -> None:
        end.n_draft_calls, end.stage_ns = 0, {"draft": 9_000, "target": 8_000}

    assert slow(_trace(tmp_path, nothing)) is None
    assert FEWEST > 1


@pytest.mark.parametrize(
    ("tokens", "share"),
    [
        ([], 0),
        ([1, 2, 3], 0),
        (list(range(20)), 0),
        ([1] * 12, 6 / 7),
        ([*range(6), *range(6)], 1 / 7),
    ],
)
def test_repetition_is_counted_in_runs_of_six(tokens: list[int], share: float) -> None:
    assert repeated(tokens) == pytest.approx(share)


def test_a_text_that_turns_in_a_circle_is_told(tmp_path: Path) -> None:
    events = make_events(temperature=0.8, seed=1, new_tokens=40)
    path = write_trace(tmp_path / "a.sv.jsonl", events)
    new = [token for event in events if isinstance(event, ev.Commit) for token in event.tokens]
    assert (loops(path) is None) == (repeated(new) <= MOST_REPEATED)
    for event in events:
        if isinstance(event, ev.Commit):
            event.tokens = [1] * len(event.tokens)
    words = loops(write_trace(tmp_path / "b.sv.jsonl", events))
    assert words is not None
    assert words.endswith("of its text repeats itself")


def test_the_recording_that_is_looked_at_first_is_offered_first() -> None:
    assert next(iter(bundled_traces())) == FIRST
