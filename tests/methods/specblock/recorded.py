"""Whole runs of tree drafters as their records; the fixture `run` makes them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from methods.specblock.stage import Hearsay
from specviz.engine.run.local import LocalRun
from specviz.events import Event
from specviz.methods.specblock import grower as drafting

Run = Callable[..., tuple[LocalRun, list[Event]]]


def knowing(run: Run, monkeypatch: pytest.MonkeyPatch, right: float = 0.8, **knobs: Any) -> None:
    """Give the drafter the text that will be written, in most places."""
    plain, _ = run("ar", **knobs)
    truth = [*plain.session.prompt, *plain.tokens]
    monkeypatch.setattr(drafting, "offers", Hearsay(truth, right))


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def by_round(events: list[Event]) -> dict[int, list[Event]]:
    rounds = defaultdict(list)
    for event in events:
        rounds[event.r].append(event)
    return rounds
