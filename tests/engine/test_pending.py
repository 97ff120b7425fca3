"""Rounds that judge what an earlier round drafted: ids, counts, records, and what an abort leaves behind."""

import threading
from collections import Counter
from typing import Any

import pytest
import torch

from engine.pipelined import Ahead
from specviz.engine.decode.text_output import Texts
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.record.probe import Probe
from specviz.events import Commit, Event, Node, RoundEnd, RoundStart, Span, Verify
from support.driver import session
from support.models import blurred, build, tokenizer

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
SETTINGS = [{}, {"depth": 1, "width": 3, "more": 4}, {"depth": 0}, {"width": 0}, {"more": 0}, {"depth": 3, "width": 5}]


@pytest.fixture(scope="module")
def pair() -> tuple[ModelAdapter, ModelAdapter]:
    target = build("llama", seed=1, dtype=torch.float64)
    return ModelAdapter(target), ModelAdapter(blurred(build("llama", seed=1, dtype=torch.float64), 0.03))


def ahead(pair: Any, settings: dict[str, Any], **knobs: Any) -> Any:
    """A session with a pipelined drafter."""
    return session(*pair, PROMPT, drafter=Ahead(FactoryModels(*pair, 640), **settings), **knobs)


def recorded(pair: Any, settings: dict[str, Any], level: Any = "full", **knobs: Any) -> tuple[Any, list[Event]]:
    """The same, run to its end, with its records."""
    events: list[Event] = []
    texts = Texts(tokenizer())
    run = ahead(pair, settings, sink=Probe(events.append, texts, level), texts=texts, **knobs)
    run.generate()
    return run, events


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("temperature", [0, 0.4])
def test_the_text_is_that_of_plain_decoding(pair: Any, settings: dict[str, Any], temperature: float) -> None:
    """With limits and end tokens wherever they fall; the caches follow the text."""
    want = session(*pair, PROMPT, method="ar", temperature=temperature).generate()
    pending = 0
    for limit in (1, 2, 5, 40):
        run = ahead(pair, settings, temperature=temperature, max_new_tokens=limit)
        for done in run.rounds():
            pending += len(done.draft.pending)
            assert run.cache.tokens == run.tokens[:-1]
        assert run.new_tokens == want[:limit]
    eos = want[14]
    run = ahead(pair, settings, temperature=temperature, eos=(eos,))
    assert run.generate() == want[: want.index(eos) + 1]
    works_ahead = settings.get("more", 2) and settings.get("width", 2)
    assert bool(pending) == bool(works_ahead), "nothing was ever pending, or out of nothing"


def test_a_node_is_born_once_and_judged_later_under_the_same_id(pair: Any) -> None:
    """`node` once per id, in the round it was drafted; `verify` where it was judged; pending ones counted."""
    _, events = recorded(pair, {"depth": 2, "more": 3})
    born = {event.node: event for event in events if isinstance(event, Node)}
    assert Counter(event.node for event in events if isinstance(event, Node)).most_common(1)[0][1] == 1
    verdicts = [event for event in events if isinstance(event, Verify)]
    late = [event for event in verdicts if born[event.node].r < event.r]
    assert late, "nothing was judged later than it was born"
    pending = Counter(event.r for event in late)
    starts = {event.r: event.n_pending for event in events if isinstance(event, RoundStart)}
    assert {r: n for r, n in starts.items() if n} == dict(pending)
    for event in late:
        n = next(e.n for e in events if isinstance(e, RoundStart) and e.r == event.r)
        assert born[event.node].pos >= n


def test_counts_add_up_over_the_run(pair: Any) -> None:
    """Drafted: in the round of birth, continuations included. Accepted and tested never exceed it over the run."""
    run, events = recorded(pair, {"depth": 2, "more": 3}, temperature=0.4)
    ends = [event for event in events if isinstance(event, RoundEnd)]
    born = Counter(event.r for event in events if isinstance(event, Node) and event.kept)
    assert {end.r: end.n_drafted for end in ends if end.n_drafted} == dict(born)
    assert sum(end.n_emitted for end in ends) == len(run.new_tokens)
    assert any(event.n_pending for event in events if isinstance(event, RoundStart))
    for count in ("n_accepted", "n_tested"):
        assert sum(getattr(end, count) for end in ends) <= sum(end.n_drafted for end in ends)
    kinds = [kind for event in events if isinstance(event, Commit) for kind in event.kinds]
    assert {"accepted", "branch"} <= set(kinds)


@pytest.mark.parametrize("level", ["none", "summary"])
def test_levels_below_full(pair: Any, level: Any) -> None:
    """The same tokens and counts whatever is recorded."""
    settings = {"depth": 2, "more": 3}
    full, events = recorded(pair, settings)
    less, fewer = recorded(pair, settings, level)
    counts = [
        [(e.n_drafted, e.n_tested, e.n_accepted) for e in some if isinstance(e, RoundEnd)] for some in (events, fewer)
    ]
    assert less.tokens == full.tokens
    assert counts[0] == counts[1]


def test_what_was_done_meanwhile_has_a_span_and_counts_as_drafting(pair: Any) -> None:
    """On serial lanes the stages add up to no more than the round took, and the draft lane works after the target."""
    _, events = recorded(pair, {"depth": 2})
    spans = [event for event in events if isinstance(event, Span) and event.r == 2]
    target, beside = (next(s for s in spans if s.name == name) for name in ("target", "meanwhile"))
    assert (target.lane, beside.lane) == ("target", "draft")
    assert beside.t0 >= target.t0 + target.dur_ns
    end = next(event for event in events if isinstance(event, RoundEnd) and event.r == 2)
    assert end.stage_ns["target"] == target.dur_ns
    assert end.stage_ns["draft"] >= beside.dur_ns


class Broken(Exception):
    """Raised on purpose."""


@pytest.mark.parametrize("where", ["draft_ahead", "target"])
@pytest.mark.parametrize("fail_at", [1, 2, 5])
def test_an_abort_loses_nothing(pair: Any, where: str, fail_at: int) -> None:
    """In `draft_ahead` or in the target's pass: the caches follow the text, the drafter is told, and it goes on."""
    want = session(*pair, PROMPT, method="ar", temperature=0.4).generate()
    run = ahead(pair, {"depth": 2, "more": 3}, temperature=0.4)
    rounds, main = run.rounds(), threading.get_ident()
    for _ in range(fail_at):
        next(rounds)

    def fail(*_: Any) -> None:
        raise Broken

    hook = None
    if where == "target":
        hook = run.target.layers[1].register_forward_pre_hook(fail)
    else:
        run.drafter.during = fail
    committed = list(run.tokens)
    with pytest.raises(Broken):
        next(rounds)
    assert threading.get_ident() == main
    assert run.tokens == committed
    assert run.cache.tokens == run.tokens[:-1]
    assert run.drafter.n_aborted == 1
    if hook is not None:
        hook.remove()
    run.drafter.during = lambda: None
    assert run.generate() == want
