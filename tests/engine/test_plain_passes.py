"""Passes of plain decoding that are timed beside a run: they change no token and no row of it, keep to their share of
its time, and are on record."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.test_exact import DTYPES, METHODS, PROMPT, _common, assert_decided, draft, plain, tried
from specviz.commands import Start
from specviz.engine import measure
from specviz.engine.decode.round import RoundResult
from specviz.engine.decode.session import Session
from specviz.engine.measure import PlainPasses
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.events import Calibration, Event, RoundEnd
from specviz_lab.bench.identity import Decided
from support.driver import session
from support.models import build, save

UNPADDED = Calibration(widths=[1], target_ns=[2], plain_ns=1)  # exact rows are dearer: time those that need not be


def _timed(run: Session, passes: PlainPasses, times: list[int]) -> Iterator[RoundResult]:
    for done in run.rounds():
        yield done
        times.append(passes.between(run.cache, run.tokens))
        assert run.cache.length == len(run.tokens) - 1 or not times[-1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", METHODS)
def test_a_pass_after_every_round_changes_nothing(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "SHARE", float("inf"))
    times: list[int] = []
    run = session(tried(dtype), draft(dtype), PROMPT, **_common(0.9), **METHODS[name])
    decided = Decided.of(_timed(run, PlainPasses(run.target, UNPADDED), times))
    assert_decided(tried(dtype), decided, plain(dtype, 0.9))
    assert any(times)


def test_passes_keep_to_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only this test moves: 1 ms for a pass, 20 ms for a round."""
    clock = [0]

    def once(self: PlainPasses, cache: object, tokens: object) -> int:
        clock[0] += 1_000_000
        self._spent += 1_000_000
        return 1_000_000

    monkeypatch.setattr(measure.time, "perf_counter_ns", lambda: clock[0])
    monkeypatch.setattr(PlainPasses, "_once", once)
    passes, n_rounds = PlainPasses(tried(torch.float32), None), 1000
    n_timed = 0
    for _ in range(n_rounds):
        clock[0] += 20_000_000
        n_timed += bool(passes.between(None, ()))  # type: ignore[arg-type]
    assert n_timed - 1 <= measure.SHARE * clock[0] / 1e6 <= n_timed + 1


def _recorded(pair: Pair, level: str) -> tuple[list[int], list[Event]]:
    events: list[Event] = []
    start = Start(prompt="ab ab ab", method="ngram", knobs={"max_new_tokens": 24}, level=level)  # type: ignore[arg-type]
    run = LocalRun(pair, start, events.append)
    for _ in run.rounds():
        pass
    return run.tokens, events


def test_they_are_on_record_with_the_round_and_behind_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = load_pair(save(build("llama", seed=1), tmp_path / "target"), None, False, dtype="float64", threads=1)
    monkeypatch.setattr(measure, "SHARE", float("inf"))
    tokens, events = _recorded(pair, "summary")
    ends = [event for event in events if isinstance(event, RoundEnd)]
    assert not ends[0].plain_ns, "before the first round there is none"
    assert any(end.plain_ns for end in ends[1:])
    last = next(event for event in reversed(events) if isinstance(event, Calibration))
    assert last.behind_ns
    bare, silent = _recorded(pair, "none")
    assert tokens == bare
    assert not any(
        isinstance(event, Calibration) or (isinstance(event, RoundEnd) and event.plain_ns) for event in silent
    )
