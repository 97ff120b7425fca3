"""Lanes: the same tokens, times that are told apart, exceptions of either side, interrupts, and the choice of lanes."""

import threading
import time
from typing import Any

import pytest
import torch

from engine.pipelined import Ahead
from specviz.engine.decode import overlap_choice
from specviz.engine.decode.overlap import Launched, Overlap, Serial, Threads
from specviz.engine.decode.overlap_choice import choose, possible, probed, threads_of
from specviz.engine.decode.session import Session, SessionConfig
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.errors import SpecvizError
from support.cards import on_cuda
from support.driver import session
from support.models import blurred, build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
PLACES = [
    pytest.param(("cpu", "cpu"), id="cpu-cpu"),
    *(on_cuda(pair, id="-".join(pair)) for pair in (("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda"))),
]


@pytest.fixture(scope="module", params=PLACES)
def models(request: pytest.FixtureRequest) -> FactoryModels:
    """A pair in float64 on every combination of places there is."""
    target, draft = request.param
    first = build("llama", seed=1, dtype=torch.float64).to(target)
    second = blurred(build("llama", seed=1, dtype=torch.float64), 0.03).to(draft)
    return FactoryModels(ModelAdapter(first), ModelAdapter(second), 640)


def overlapping(models: FactoryModels) -> Any:
    """The lanes besides serial that these places allow."""
    return overlap_choice.make_lanes(possible(models)[-1], models)


def ahead(models: FactoryModels, lanes: Any, during: Any = lambda: None, **knobs: Any) -> Session:
    """A session of a pipelined drafter on some lanes."""
    plain = session(models.target, models.draft, PROMPT, verifier=knobs.pop("verifier", "walk"), **knobs)
    drafter = Ahead(models, depth=2, width=3, more=3, during=during)
    parts = SessionConfig(models, drafter, plain.parts.verifier, lanes)
    return Session(parts, PROMPT, plain.table, plain.knobs, eos=plain.eos)


@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize("temperature", [0, 0.8])
def test_lanes_never_change_tokens(models: FactoryModels, temperature: float, verifier: str) -> None:
    """Serial against overlapped, several seeds; the drafts and what became of them too."""
    kept = 0
    for seed in range(4 if temperature else 1):
        knobs = {"temperature": temperature, "seed": seed, "verifier": verifier, "max_new_tokens": 24, "top_k": 3}
        rounds = [list(ahead(models, lanes, **knobs).rounds()) for lanes in (Serial(), overlapping(models))]
        for first, second in zip(*rounds, strict=True):
            assert first.tokens == second.tokens
            assert first.draft.tokens == second.draft.tokens
            assert first.draft.ids == second.draft.ids
            kept += len(first.draft.pending)
    assert kept, "nothing was ever pending"


def test_the_pass_runs_beside_what_is_drafted(models: FactoryModels) -> None:
    """On overlapping lanes the two stretches of time meet; on serial ones they follow each other."""
    for lanes in (Serial(), overlapping(models)):
        begun, both = threading.Event(), threading.Event()
        waits = isinstance(lanes, Threads)  # one thread cannot wait for itself; a device works on by itself

        def passing(*_: Any, begun: Any = begun, both: Any = both, waits: bool = waits) -> None:
            begun.set()
            assert not waits or both.wait(30)

        def drafting(begun: Any = begun, both: Any = both) -> None:
            assert begun.wait(30), "the target's pass never began"
            both.set()

        hook = models.target.layers[1].register_forward_pre_hook(passing)
        try:
            run = ahead(models, lanes, drafting)
            both.set()
            run.prefill()
            begun.clear()  # by the prefill's pass, beside which nothing is drafted
            both.clear()
            done = next(run.rounds())
        finally:
            hook.remove()
        spans = {name: (t0, t0 + took) for name, t0, took in done.clock.spans}
        target, beside = spans["target"], spans["meanwhile"]
        overlap = min(target[1], beside[1]) - max(target[0], beside[0])
        assert overlap > 0 if lanes.name != "serial" else overlap <= 0
        # No second of the round stands in two stages.
        assert sum(done.clock.ns.values()) <= done.ended_ns - done.started_ns


def test_inference_mode_reaches_the_other_thread(models: FactoryModels) -> None:
    """It is a mode of the thread: rows made there must be as those made here."""
    for lanes in (Serial(), overlapping(models)):
        done = next(ahead(models, lanes).rounds())
        assert done.logits is not None
        assert done.logits.is_inference()


class Broken(Exception):
    """Raised on purpose."""


@pytest.mark.parametrize("error", [Broken, KeyboardInterrupt])
@pytest.mark.parametrize("side", ["target", "drafter", "both"])
def test_an_exception_comes_through_when_both_rest(
    models: FactoryModels, side: str, error: type[BaseException]
) -> None:
    """Then the caches follow the text, and the session goes on to the same one."""
    want = session(models.target, None, PROMPT, method="ar", temperature=0.4).generate()
    run = ahead(models, overlapping(models), temperature=0.4)
    rounds = run.rounds()
    next(rounds)
    at_work = threading.Event()

    def fail(*_: Any) -> None:
        raise error

    def slow(*_: Any) -> None:
        at_work.set()
        time.sleep(0.02)

    hook = run.target.layers[1].register_forward_pre_hook(fail if side != "drafter" else slow)
    if side != "target":
        run.drafter.during = lambda: (at_work.wait(0.01), fail())
    committed = list(run.tokens)
    try:
        with pytest.raises(error):
            next(rounds)
    finally:
        hook.remove()
    assert run.tokens == committed
    assert run.cache.tokens == run.tokens[:-1]
    run.drafter.during = lambda: None
    assert run.generate() == want


@pytest.mark.parametrize("method", ["specbranch", "pearl"])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_model_that_fails_in_either_lane_loses_nothing(models: FactoryModels, method: str, role: str) -> None:
    """The real pipelines, broken in one of their models' passes now and then: caches in order, the same text."""
    common = {"temperature": 0.6, "top_k": 3, "max_new_tokens": 24}
    want = session(models.target, None, PROMPT, method="ar", **common).generate()
    failed = 0
    for fail_at in range(1, 40, 6):
        plain = session(models.target, models.draft, PROMPT, method=method, **common)
        lanes = overlapping(models)
        run = Session(SessionConfig(models, plain.drafter, plain.verifier, lanes), PROMPT, plain.table, plain.knobs)
        run.prefill()
        left = [fail_at]

        def bomb(*_: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Broken

        hook = getattr(models, role).layers[1].register_forward_pre_hook(bomb)
        try:
            while run.finish is None:
                try:
                    run.generate()
                except Broken:
                    failed += 1
                    assert run.cache.tokens == run.tokens[:-1]
        finally:
            hook.remove()
        assert run.new_tokens == want
        cache = run.drafter.rows.cache
        assert cache.tokens[: cache.length] == run.tokens[: cache.length]
    assert failed > 3


def test_an_interrupt_waits_for_the_pass_and_is_raised() -> None:
    """Raised in the waiting thread while the target still works: the pass ends first, nothing hangs."""
    ended: list[bool] = []
    at_work = threading.Event()

    def target() -> int:
        at_work.set()
        time.sleep(0.05)
        ended.append(True)
        return 1

    def drafter() -> int:
        assert at_work.wait(10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Threads().run(target, drafter, lambda: None)
    assert ended == [True]


def test_threads_of_torch_are_the_same_on_both_sides() -> None:
    """Rounding may depend on them."""
    before = torch.get_num_threads()
    try:
        for n in (1, 2):
            torch.set_num_threads(n)
            both: Overlap[int, int] = Threads().run(torch.get_num_threads, torch.get_num_threads, lambda: None)
            assert (both.target, both.drafter) == (n, n)
    finally:
        torch.set_num_threads(before)
    assert 1 <= threads_of("threads", 4096) < 4096
    assert threads_of("auto", 5) == threads_of("serial", 5) == 5


def test_auto_probes_only_what_can_overlap(models: FactoryModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drafter that does nothing meanwhile runs serially unprobed; one that does gets the fastest, once measured."""
    calls: list[str] = []
    inner = overlap_choice.make_lanes
    monkeypatch.setattr(overlap_choice, "make_lanes", lambda name, m: calls.append(name) or inner(name, m))
    assert choose("auto", models, None).lanes.name == "serial"
    assert calls == []
    chosen = choose("auto", models, Ahead(models))
    assert set(chosen.probed_ms) == set(possible(models))
    best = min(chosen.probed_ms, key=lambda name: chosen.probed_ms[name])
    assert chosen.lanes.name in (best, "serial")
    calls.clear()
    again = choose("auto", models, Ahead(models))
    assert (again.probed_ms, calls) == (chosen.probed_ms, [chosen.lanes.name])


def test_the_fastest_lanes_win_and_a_tie_is_serial(models: FactoryModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping must be worth it: the probe is not exact."""
    other = possible(models)[-1]
    for ms, want in ((0.5, other), (0.99, "serial"), (2.0, "serial")):
        monkeypatch.setattr(overlap_choice, "probed", lambda *_, ms=ms: {"serial": 1.0, other: ms})
        assert choose("auto", models, Ahead(models)).lanes.name == want


def test_lanes_that_cannot_be_are_refused(models: FactoryModels) -> None:
    """In one line that says why and which can be."""
    with pytest.raises(SpecvizError, match="did you mean 'threads'"):
        choose("thread", models, None)
    for name in sorted({"threads", "streams", "two_device"} - set(possible(models))):
        with pytest.raises(SpecvizError, match=rf"lanes {name} need .* use serial") as caught:
            choose(name, models, Ahead(models))
        assert "\n" not in str(caught.value)


def test_lanes_without_anything_to_overlap_say_so(models: FactoryModels) -> None:
    """Asked for by name, with a method that drafts between passes: serial, and a warning."""
    chosen = choose(possible(models)[-1], models, session(models.target, models.draft, PROMPT).drafter)
    assert chosen.lanes.name == "serial"
    assert "nothing to overlap" in (chosen.warning or "")


def test_no_probe_without_a_pair_of_the_library(models: FactoryModels) -> None:
    """Tables have no times."""
    assert probed(FactoryModels(models.target, None, 1), ("serial",)) == {}


def test_launching_without_a_device_is_the_host_in_turn() -> None:
    """`Launched` on the host: the code of the device path, as far as it goes without one."""
    host = torch.device("cpu")
    order: list[str] = []
    both = Launched("two_device", host, host).run(
        lambda: order.append("target") or 1, lambda: order.append("drafter") or 2, lambda: None
    )
    assert (both.target, both.drafter, order) == (1, 2, ["target", "drafter"])
    assert both.drafter_work is not None
    assert both.drafter_work[0] >= both.target_work[0] + both.target_work[1]
