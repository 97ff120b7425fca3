"""The invariants checked on read: true streams pass, one lie each is found with its line and round."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from specviz.errors import TraceError
from specviz.events import (
    Catalogue,
    Closing,
    Commit,
    End,
    Event,
    Header,
    Models,
    Node,
    Prefill,
    RoundEnd,
    RoundStart,
    Verify,
    encode,
)
from specviz.trace import read_events
from support.traces import Recipe, make_events, write_trace

TRUE = [
    Recipe(),
    Recipe(shape="none"),
    Recipe(shape="tree"),
    Recipe(temperature=1.0, queries=3, stops=True),
    Recipe(temperature=1.0, verifier="walk"),
    Recipe(temperature=1.0, verifier="walk", draw="race"),
    Recipe(shape="tree", temperature=1.2),
    Recipe(shape="tree", temperature=0.8, verifier="tokenwise", queries=2, stops=True, knob_at=2),
    Recipe(temperature=1.0, level="summary"),
    Recipe(temperature=1.0, level="none"),
]


@pytest.mark.parametrize("recipe", TRUE, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_true_streams_pass(tmp_path: Path, recipe: Recipe, seed: int) -> None:
    events = make_events(replace(recipe, seed=seed))
    assert len(read_events(write_trace(tmp_path / "run", events), check=True)) == len(events)


Lie = Callable[[list[Event]], None]


def change(kind: type[Event], where: Callable[[Event], bool] = lambda _: True, **fields: object) -> Lie:
    """Changes the first fitting record."""

    def lie(events: list[Event]) -> None:
        place = next(i for i, e in enumerate(events) if isinstance(e, kind) and where(e))
        values = {name: f(events[place]) if callable(f) else f for name, f in fields.items()}
        events[place] = msgspec.structs.replace(events[place], **values)

    return lie


def drop(kind: type[Event], r: int) -> Lie:
    """Takes the first record of a kind out of a round."""

    def lie(events: list[Event]) -> None:
        del events[next(i for i, e in enumerate(events) if isinstance(e, kind) and e.r == r)]

    return lie


def smuggle(event: Event) -> Lie:
    return lambda events: events.insert(5, event)


def accepted(e: Event) -> bool:
    return isinstance(e, Verify) and e.status == "accepted"


def rejected(e: Event) -> bool:
    return isinstance(e, Verify) and e.status == "rejected"


TOKENWISE = Recipe(temperature=1.0)
WALK = Recipe(shape="tree", temperature=1.0)
LIES: list[tuple[Recipe, Lie, str]] = [
    (TOKENWISE, change(Verify, accepted, u=lambda e: e.thr), "accepted, but u is not below thr"),
    (TOKENWISE, change(Verify, rejected, u=lambda e: e.thr / 2), "rejected, but u is below thr"),
    (TOKENWISE, change(Verify, accepted, node=9999), "verdict on node 9999, which was never drafted"),
    (WALK, change(Verify, accepted, u=lambda e: e.interval[1] + 1e-9), "accepted, but u .* disagree"),
    (WALK, change(Verify, rejected, u=lambda e: sum(e.interval) / 2), "rejected, but u .* disagree"),
    (WALK, change(Verify, rejected, status="accepted"), "accepted, but its token was not committed at its position"),
    (WALK, change(Closing, lambda e: e.token is not None, token=15), "the closing token is not the last one committed"),
    (WALK, change(RoundStart, lambda e: e.r == 3, n=lambda e: e.n + 1), "starts at n [0-9]+, but [0-9]+ tokens"),
    (WALK, change(RoundStart, lambda e: e.r == 3, root=15), "root 15 is not the last committed token"),
    (WALK, change(Commit, n=lambda e: e.n + 1), "commit says n [0-9]+, but its tokens end at"),
    (WALK, change(Commit, texts=lambda e: e.texts[1:]), "tokens, texts and kinds differ in number"),
    (WALK, change(RoundEnd, n_emitted=lambda e: e.n_emitted + 1), "n_emitted [0-9]+, committed"),
    (WALK, change(RoundEnd, n_accepted=lambda e: e.n_accepted + 1), "n_accepted [0-9]+, committed"),
    (WALK, change(RoundEnd, n_tested=9999), "n_tested [0-9]+ over the run, drafted"),
    (WALK, change(Prefill, n_prompt=3), "n_prompt 3, but 6 prompt tokens"),
    (WALK, drop(Commit, 1), "ends without a commit"),
    (WALK, drop(Prefill, 0), "a round before its query's prefill"),
    (WALK, drop(RoundEnd, 2), "totals say n_rounds"),
    (WALK, smuggle(Catalogue(methods=[], verifiers=[], models=Models())), "'catalogue' record belongs on the wire"),
]


@pytest.mark.parametrize(("recipe", "lie", "message"), LIES, ids=[message for *_, message in LIES])
def test_every_lie_is_found_with_its_line_and_round(tmp_path: Path, recipe: Recipe, lie: Lie, message: str) -> None:
    events = read_events(write_trace(tmp_path / "true", make_events(recipe)))
    lie(events)
    path = tmp_path / "lie.sv.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    with pytest.raises(TraceError, match=rf"lie.sv.jsonl line [0-9]+ \(query 0, round [0-9]+\): .*{message}"):
        read_events(path, check=True)


def test_a_lie_is_read_without_check(tmp_path: Path) -> None:
    events = make_events(TOKENWISE)
    change(RoundEnd, n_accepted=77)(events)
    path = tmp_path / "lie.sv.jsonl"
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events))
    assert read_events(path) == events
    assert isinstance(events[0], Header)
    assert isinstance(events[-1], End)


def test_an_aborted_round_may_use_its_number_again(tmp_path: Path) -> None:
    events = make_events(TOKENWISE)
    place = next(i for i, e in enumerate(events) if isinstance(e, RoundStart) and e.r == 2)
    begun = [e for e in events[place : place + 4] if isinstance(e, RoundStart | Node)]
    path = write_trace(tmp_path / "run", [*events[:place], *begun, *events[place:]])
    assert len(read_events(path, check=True)) == len(events) + len(begun)
