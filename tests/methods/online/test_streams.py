"""Streams: one drafter goes through many prompts; whatever it learns meanwhile, the text is plain decoding's."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from methods.online.stage import PROMPTS, Ticks, decoded, loaded, texts
from specviz.commands import Prompt, Start
from specviz.engine.run.local import LocalRun, Pair
from specviz.errors import KnobError, ModelError, SpecvizError
from specviz.events import Adapt, End, Event, Header, Knob, Prefill, RoundEnd
from specviz.methods import all_methods
from specviz.methods.online.bandit import Bandit
from specviz.methods.trained.parts import fingerprint
from specviz.trace import Recorder, read_events

EAGER = {"adapt": "on", "adapt_cost_scale": 0.0, "adapt_budget": 1.0, "adapt_caution": 0.0, "adapt_lr_head": 2e-2}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, str]:
    return loaded(tmp_path_factory.mktemp("target"))


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def redrawn(rng: random.Random) -> Any:
    """Other knobs before every round, and weights moved under the drafter's feet."""

    def between(run: LocalRun) -> None:
        for name, values in (
            ("node_budget", [0, 3, 24, 60]),
            ("blocks", [1, 2, 3]),
            ("k_max", [1, 4, 10]),
            ("start_cap", [0, 3, 10]),
            ("merge", [True, False]),
        ):
            run.set_knob(name, rng.choice(values))
        if run.has_more:
            run.set_knob("adapt_actions", rng.choice(["all", "head", "full"]))
            run.set_knob("adapt_do", rng.choice(["learn", "learn", "learn", "reset_to_anchor", "reset_to_base"]))
            run.set_knob("adapt_steps", rng.choice([1, 3]))
        noise = torch.Generator().manual_seed(rng.randrange(1 << 30))
        drafter: Any = run.session.drafter
        with torch.no_grad():
            for parameter in drafter.network.parameters():
                parameter.add_(0.03 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype))

    return between


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_the_text_is_plain_decoding_s_while_the_drafter_learns(
    small: tuple[Pair, str], temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates after every query, knobs redrawn in every round, weights moved in between; the target bit-identical."""
    monkeypatch.setattr(Bandit, "budget", lambda bandit, setting: 1e6)  # seconds: of no clock of this machine
    pair, folder = small
    model = pair.target.adapter.model
    whole, print_ = {n: weights.clone() for n, weights in model.state_dict().items()}, fingerprint(pair.target.adapter)
    common = {"temperature": temperature, "seed": 3}
    _, plain = decoded(pair, "ar", level="none", **common)
    for salt, between in ((0, None), (1, redrawn(random.Random(1)))):
        _, events = decoded(pair, "specblock", drafter=[folder], between=between, **EAGER, **common)
        assert texts(events) == texts(plain), salt
        steps = of(events, Adapt)
        assert len(steps) == len(PROMPTS)
        assert sum(weights.action != "skip" or weights.reset is not None for weights in steps) >= 3
        assert steps[-1].version_after >= 2
    assert all(torch.equal(model.state_dict()[name], weights) for name, weights in whole.items())
    assert fingerprint(pair.target.adapter) == print_


def test_every_query_has_its_record_in_its_place(small: tuple[Pair, str], tmp_path: Path) -> None:
    """Behind its last round, before the next prefill; versions go on; a reader finds nothing wrong with the file."""
    pair, folder = small
    run, events = decoded(pair, "specblock", drafter=[folder], **EAGER)
    marks = [event for event in events if isinstance(event, Prefill | Adapt)]
    assert [type(event) for event in marks] == [Prefill, Adapt] * len(PROMPTS)
    assert [event.q for event in marks] == [q for q in range(len(PROMPTS)) for _ in range(2)]
    version = 0
    for prefill, step in zip(marks[::2], marks[1::2], strict=True):
        assert isinstance(prefill, Prefill)
        assert isinstance(step, Adapt)
        ends = [event for event in of(events, RoundEnd) if event.q == prefill.q]
        assert prefill.drafter_version == step.version_before == version
        version = step.version_after
        assert (prefill.text, prefill.domain) == (PROMPTS[prefill.q], "code" if prefill.q % 2 else "prose")
        assert (step.domain, step.r) == (prefill.domain, ends[-1].r)
        assert (step.n_rounds, step.n_tokens) == (len(ends), sum(event.n_emitted for event in ends))
        assert step.accepted_histogram[0] == sum(event.n_accepted == 0 for event in ends)
        assert sum(step.accepted_histogram) == len(ends)
    header = of(events, Header)[0]
    assert header.env["stream"] == {"n_queries": len(PROMPTS), "domains": {"prose": 3, "code": 3}}
    assert of(events, End)[0].reason == "done"
    recorder = Recorder(tmp_path / "a.sv.jsonl")
    for event in events:
        recorder.write(event)
    recorder.close()
    assert len(read_events(tmp_path / "a.sv.jsonl.gz", check=True)) == len(events)
    assert run.session.query == len(PROMPTS) - 1


def test_the_network_from_disk_is_never_written_to(small: tuple[Pair, str]) -> None:
    """Another run of the same folder begins where the first one began."""
    pair, folder = small
    runs = [decoded(pair, "specblock", PROMPTS[:3], "none", drafter=[folder], **EAGER) for _ in range(2)]
    first, second = (
        [(adapt.action, adapt.S, adapt.coverage_before) for adapt in of(events, Adapt)] for _, events in runs
    )
    assert first[0][1:] == second[0][1:]
    networks = [run.session.drafter.trained.network for run, _ in runs]  # type: ignore[union-attr]
    assert networks[0] is not networks[1]
    assert runs[0][0].session.drafter.tutor.learner.base is runs[1][0].session.drafter.tutor.learner.base  # type: ignore[union-attr]


def test_a_clock_and_a_seed_settle_everything(small: tuple[Pair, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same stream twice, time told by a counter: the same records, decisions and costs included."""
    pair, folder = small

    def found() -> list[Adapt]:
        monkeypatch.setattr("time.perf_counter_ns", Ticks(100_000))
        monkeypatch.setattr("specviz.methods.online.trainer.OnlineTrainer.__init__.__defaults__", ((), Ticks(100_000)))
        _, events = decoded(pair, "specblock", PROMPTS[:4], "none", drafter=[folder], **EAGER)
        monkeypatch.undo()
        return of(events, Adapt)

    first, second = found(), found()
    for step in (*first, *second):
        step.t = 0
    assert first == second
    assert any(step.action != "skip" for step in first)


@pytest.mark.parametrize("method", [name for name, spec in all_methods().items() if not spec.needs_draft])
def test_methods_that_need_no_parts_go_through_a_stream(small: tuple[Pair, str], method: str) -> None:
    """Every query with its own seed, as if it had been decoded alone with that one."""
    pair, folder = small
    parts: dict[str, Any] = {"drafter": [folder]} if method == "specblock" else {}
    try:
        _, events = decoded(pair, method, prompts=PROMPTS[:3], level="none", temperature=0.8, seed=5, **parts)
    except ModelError as error:
        pytest.skip(f"no trained part of it lies here: {error}")
    _, plain = decoded(pair, "ar", prompts=PROMPTS[:3], level="none", temperature=0.8, seed=5)
    if all_methods()[method].default_verifier[1] == "walk":
        assert texts(events) == texts(plain)
    assert not of(events, Adapt)
    assert [event.seed for event in of(events, Prefill)] == [5, 6, 7]


def test_knobs_of_queries_wait_for_the_next_one(small: tuple[Pair, str]) -> None:
    """Asked for in a round, in force at the next query, on record there; refused when no query follows."""
    pair, folder = small
    asked: list[int] = []

    def between(run: LocalRun) -> None:
        if run.session.query == 1 and run.session.number == 2:
            run.set_knob("max_new_tokens", 7, by="test")
            run.set_knob("adapt_do", "reset_to_base")
            run.set_knob("k_max", 3)
        if not run.has_more and not asked:
            asked.append(1)
            with pytest.raises(KnobError, match="next prompt"):
                run.set_knob("max_new_tokens", 9)

    _, events = decoded(pair, "specblock", drafter=[folder], between=between, **EAGER)
    assert asked
    lengths = [sum(end.n_emitted for end in of(events, RoundEnd) if end.q == q) for q in range(len(PROMPTS))]
    assert lengths == [20, 20, 7, 7, 7, 7]
    changes = [(change.q, change.applied_r, change.name, change.new, change.by) for change in of(events, Knob)]
    assert (1, 3, "k_max", 3, "user") in changes
    assert (2, 1, "max_new_tokens", 7, "test") in changes
    assert (2, 1, "adapt_do", "reset_to_base", "user") in changes
    assert (2, 1, "adapt_do", "learn", "specviz") in changes  # it acts once
    assert [adapt.reset for adapt in of(events, Adapt)] == [None, "base", None, None, None, None]


def test_learning_may_be_switched_on_and_off_between_queries(small: tuple[Pair, str]) -> None:
    pair, folder = small

    def between(run: LocalRun) -> None:
        if run.session.number == 1 and run.has_more:
            run.set_knob("adapt", "on" if run.session.query in (1, 2) else "off")

    _, events = decoded(pair, "specblock", drafter=[folder], between=between, **{**EAGER, "adapt": "off"})
    assert [adapt.q for adapt in of(events, Adapt)] == [2, 3]
    versions = [prefill.drafter_version for prefill in of(events, Prefill)]
    assert versions[:3] == [0, 0, 0]
    assert versions[4] == versions[5]  # off: what was learnt stays


def test_replays_are_recorded_and_change_nothing(small: tuple[Pair, str]) -> None:
    pair, folder = small
    longer: dict[str, Any] = {"max_new_tokens": 36}  # enough events to learn from the first query on
    some = PROMPTS[:2]
    _, events = decoded(pair, "specblock", some, "none", drafter=[folder], adapt_regret="replay", **EAGER, **longer)
    _, plain = decoded(pair, "ar", some, level="none", **longer)
    assert texts(events) == texts(plain)
    steps = of(events, Adapt)
    assert all(step.replays for step in steps)
    assert [step.next_length is None for step in steps[0].replays] == [False, False, False]
    assert [step.next_length is None for step in steps[1].replays] == [True, True, True]  # no query follows
    taken = next(step for step in steps[0].replays if step.action == steps[0].action)
    assert steps[1].mean_acceptance_length == pytest.approx(taken.next_length, rel=1e-5)  # it came as foretold


def test_stopping_between_and_inside_queries(small: tuple[Pair, str]) -> None:
    """The round in hand is the last; the trace says stopped; no query begins, and an unfinished one teaches nothing."""
    pair, folder = small
    for stop_at in ((1, 2), (1, None)):

        def between(run: LocalRun, stop_at: Any = stop_at) -> None:
            query, number = stop_at
            if run.session.query == query and (run.session.finish if number is None else run.session.number == number):
                run.stop("cancelled")

        _, events = decoded(pair, "specblock", drafter=[folder], between=between, **EAGER)
        assert len(of(events, Prefill)) == 2
        assert [adapt.q for adapt in of(events, Adapt)] == ([0] if stop_at[1] else [0, 1])
        assert of(events, End)[0].reason == "cancelled"
        assert isinstance(events[-1], End)


def test_bad_prompts_are_named_before_anything_begins(small: tuple[Pair, str]) -> None:
    pair, _ = small
    events: list[Event] = []
    stream = [Prompt(text="a"), Prompt(text="word " * 3000, where="p.jsonl line 7")]
    with pytest.raises(SpecvizError, match=r"p\.jsonl line 7: the prompt has \d+ tokens"):
        LocalRun(pair, Start(stream=stream, method="ar"), events.append)
    with pytest.raises(SpecvizError, match="not both"):
        LocalRun(pair, Start(prompt="a", stream=stream, method="ar"), events.append)
    with pytest.raises(KnobError, match="last query would have seed"):
        LocalRun(pair, Start(stream=[stream[0]] * 2, method="ar", knobs={"seed": 2**53 - 1}), events.append)
    assert events == []
