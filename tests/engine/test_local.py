"""Whole runs with events: levels, invariants of the records, and every way a run can end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.commands import Start
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.compiled.passes import kernel_backend
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.errors import KnobError, ModelError, SpecvizError
from specviz.events import (
    Chain,
    Closing,
    Commit,
    End,
    Event,
    Header,
    Knob,
    Node,
    Pieces,
    Prefill,
    RoundEnd,
    Span,
    Verify,
    Warn,
    decode,
    encode,
    prob,
)
from specviz.methods import get_method
from specviz.trace import Recorder, read_events
from support.models import blurred, build, save

RUNS: list[dict[str, Any]] = [
    {"method": "ar"},
    {"method": "ar", "knobs": {"temperature": 1.0}},
    {"knobs": {"gamma": 5}},
    {"knobs": {"temperature": 0.9}},
    {"verifier": "walk", "knobs": {"temperature": 0.9, "draw": "race"}},
    {"verifier": "walk", "knobs": {"temperature": 0.9, "draft_mode": "shared"}},
    {"knobs": {"shape": "tree", "d_max": 3, "node_budget": 12}},
    {"knobs": {"shape": "tree", "d_max": 3, "node_budget": 12, "temperature": 1.2}},
    {"verifier": "tokenwise", "knobs": {"shape": "tree", "d_max": 2, "temperature": 1.2}},
    {"method": "ngram", "knobs": {"temperature": 0.6}},
    {"verifier": "blockwise", "knobs": {"temperature": 0.9, "gamma": 5}},
    {"verifier": "hsd_naive", "knobs": {"temperature": 0.9, "gamma": 4}},
    {"verifier": "hsd_ref", "knobs": {"temperature": 0.9}},
    {"verifier": "multi_hsd", "knobs": {"shape": "chains", "temperature": 0.9, "candidates": 3}},
    {"verifier": "multi_traversal", "knobs": {"shape": "caterpillar", "temperature": 0.9}},
    {"verifier": "tokenwise", "knobs": {"shape": "drawn_tree", "d_max": 3, "temperature": 0.9, "replacement": False}},
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A pair loaded from disk, in float64 so that no rounding moves a token."""
    root = tmp_path_factory.mktemp("pair")
    target = save(build("llama", seed=1), root / "target")
    draft = save(blurred(build("llama", seed=1)), root / "draft")
    return load_pair(target, draft, dtype="float64", threads=1)


def events_of(pair: Pair, **start: Any) -> tuple[LocalRun, list[Event]]:
    """A whole run and its events, through lines and back."""
    knobs = {"max_new_tokens": 24, **start.pop("knobs", {})}
    lines: list[bytes] = []
    run = LocalRun(pair, Start(prompt="ab ab ab", knobs=knobs, **start), lambda e: lines.append(encode(e)))
    for _ in run.rounds():
        pass
    events = [decode(line) for line in lines]
    assert None not in events
    return run, [e for e in events if e is not None]


def of(events: list[Event], kind: type[Any]) -> list[Any]:
    """The events of one kind."""
    return [e for e in events if isinstance(e, kind)]


def _of_the_machine(event: Event) -> bool:
    """Whether it says no more than that this machine has no kernel."""
    return isinstance(event, Warn) and event.code == "kernel"


@pytest.mark.parametrize("start", RUNS)
def test_records_keep_their_promises(pair: Pair, start: dict[str, Any], tmp_path: Path) -> None:
    """Everything a reader checks holds, and more that only the core can know."""
    run, events = events_of(pair, **start)
    assert [e.i for e in events] == list(range(len(events)))
    assert isinstance(events[0], Header)
    assert isinstance(next(later for later in events[1:] if not _of_the_machine(later)), Prefill)
    assert isinstance(events[-1], End)
    assert "".join(t for c in of(events, Commit) for t in c.texts) == run.text
    assert [t for c in of(events, Commit) for t in c.tokens] == run.tokens
    recorder = Recorder(tmp_path / "run.sv.jsonl")
    for event in events:
        recorder.write(event)
    recorder.close()
    assert len(read_events(tmp_path / "run.sv.jsonl.gz", check=True)) == len(events)


@pytest.mark.parametrize("start", [r for r in RUNS if r.get("method") != "ar"])
def test_every_verdict_can_be_decided_again(pair: Pair, start: dict[str, Any]) -> None:
    """From the records alone: u against the threshold, u against the interval, and who must have been looked at."""
    run, events = events_of(pair, **start)
    nodes = {n.node: n for n in of(events, Node)}
    verdicts = of(events, Verify)
    assert verdicts
    backward = run.verifier.traits.backward
    for verdict in verdicts:
        node = nodes[verdict.node]
        assert (verdict.status == "pruned") == (not node.kept)
        assert verdict.implied == (verdict.why == "implied") or verdict.why in ("length", "after_stop")
        assert backward or not verdict.implied
        if verdict.kind == "test" and verdict.u is not None and not verdict.implied:
            cut = verdict.why in ("length", "after_stop")
            assert cut or (verdict.u < verdict.thr) == (verdict.status == "accepted")
        if verdict.interval is not None:
            low, high = verdict.interval
            inside = low <= verdict.u < high
            kept = verdict.status == "accepted" or verdict.why in ("length", "after_stop")
            assert inside == kept
            assert abs((high - low) - prob(verdict.logp)) < 1e-5
        parent = next((v for v in verdicts if v.node == node.parent), None)
        if verdict.order is not None and node.parent != -1 and not backward:
            assert parent is not None
            assert parent.status == "accepted" or parent.why in ("length", "after_stop")
    for end in of(events, RoundEnd):
        mine = [v for v in verdicts if v.r == end.r]
        assert sum(v.order is not None for v in mine) == end.n_tested
        assert sum(v.status == "accepted" for v in mine) == end.n_accepted
        assert sum(v.status != "pruned" for v in mine) == end.n_drafted


def test_ratios_are_recorded_whatever_the_verifier(pair: Pair) -> None:
    """One draft, one set of `chain` records: what another verifier would have done can be worked out from any trace."""
    knobs = {"temperature": 0.9, "gamma": 5}
    ratios = {}
    for verifier in get_method("draft").fitting(get_method("draft").table.knobs(knobs).values):
        _, events = events_of(pair, verifier=verifier, knobs=knobs)
        chains = [e for e in of(events, Chain) if e.r == 1]
        assert len(chains) == 5
        ratios[verifier] = [(e.node, e.log_r, e.cap_at, e.log_c, e.h, e.credit_naive) for e in chains]
        if verifier in ("hsd", "blockwise"):
            thr = {e.node: e.thr for e in of(events, Verify) if e.r == 1}
            assert {e.node: e.h for e in chains} == thr
    assert len(ratios) == 10
    assert len({tuple(records) for records in ratios.values()}) == 1


def test_every_chain_from_the_root_has_ratios(pair: Pair) -> None:
    """Also of several chains and of the main chain of a caterpillar; never of point masses."""
    for shape, n in (("chains", 8), ("caterpillar", 8), ("drawn_tree", 6)):
        _, events = events_of(pair, knobs={"shape": shape, "gamma": 4, "d_max": 3, "temperature": 1.0})
        nodes = {e.node: e for e in of(events, Node)}
        chains = [nodes[e.node].cand for e in of(events, Chain) if e.r == 1]
        assert (len(chains), set(chains)) == (n, {0, 1})
    for knobs in ({"temperature": 0.0}, {"temperature": 1.0, "draft_mode": "argmax"}):
        assert not of(events_of(pair, knobs=knobs)[1], Chain)


@pytest.mark.parametrize("start", RUNS)
def test_levels_change_what_is_written_and_nothing_else(pair: Pair, start: dict[str, Any]) -> None:
    """none is in summary is in full; the tokens are the same."""
    runs = {level: events_of(pair, **start, level=level) for level in ("none", "summary", "full")}
    assert len({tuple(run.tokens) for run, _ in runs.values()}) == 1
    kinds = {level: Counter(type(e) for e in events) for level, (_, events) in runs.items()}
    assert not {Node, Verify, Closing, Span} & set(kinds["none"])
    assert kinds["summary"] == kinds["full"] - Counter({Pieces: 999, Chain: 9999})
    assert all(kinds["none"][k] == kinds["full"][k] for k in kinds["none"])
    assert all(v.top is None and v.entropy_p is None for v in of(runs["summary"][1], Verify))
    if kinds["full"][Verify] and start.get("method") != "ngram":
        assert any(v.top for v in of(runs["full"][1], Verify))
        assert any(n.top for n in of(runs["full"][1], Node))


def test_knob_change_is_acknowledged_and_versioned(pair: Pair) -> None:
    """Requested in one round, applied at the next, version counted, temperature marked as changing the text."""
    events: list[Event] = []
    run = LocalRun(pair, Start(prompt="ab ab", knobs={"max_new_tokens": 20}), events.append)
    for done in run.rounds():
        if done.number == 2:
            run.set_knob("temperature", 0.5)
            run.set_knob("gamma", "1")
    acks = of(events, Knob)
    assert [(a.name, a.requested_r, a.applied_r, a.changes_text) for a in acks] == [
        ("temperature", 2, 3, True),
        ("gamma", 2, 3, False),
    ]
    assert [e.n_drafted for e in of(events, RoundEnd)][:3] == [4, 4, 1]


def failing(at: int, error: BaseException, real: Callable[..., Any]) -> Callable[..., Any]:
    """A function that raises at its n-th call."""
    calls = count(1)

    def called(*args: Any) -> Any:
        if next(calls) == at:
            raise error
        return real(*args)

    return called


@pytest.mark.parametrize(
    ("error", "reason"),
    [(RuntimeError("out of memory"), "error"), (KeyboardInterrupt(), "cancelled"), (MemoryError(), "error")],
)
@pytest.mark.parametrize("at", [1, 4])
def test_whatever_breaks_leaves_a_trace_that_ends(
    pair: Pair, error: BaseException, reason: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the prefill and in a round; an aborted round is told, its number is not in the trace as done."""
    events: list[Event] = []
    run = LocalRun(pair, Start(prompt="ab ab ab", knobs={"max_new_tokens": 24}), events.append)
    adapter = pair.target.adapter
    monkeypatch.setattr(adapter, "forward", failing(at, error, adapter.forward))  # whatever its layers are run by
    with pytest.raises(type(error)):
        for _ in run.rounds():
            pass
    end = events[-1]
    assert isinstance(end, End)
    assert end.reason == reason
    assert ("out of memory" in (end.message or "")) == isinstance(error, RuntimeError)
    assert len(of(events, RoundEnd)) == end.totals["n_rounds"]
    codes = [w.code for w in of(events, Warn) if not _of_the_machine(w)]
    assert codes == (["aborted_round"] if at > 1 else [])


def test_a_closed_pipe_is_cancelled(pair: Pair) -> None:
    """The consumer of the text goes away in the middle."""
    events: list[Event] = []
    run = LocalRun(pair, Start(prompt="ab"), events.append)
    rounds = run.rounds()
    next(rounds)
    with pytest.raises(BrokenPipeError):
        rounds.throw(BrokenPipeError())
    assert isinstance(events[-1], End)
    assert events[-1].reason == "cancelled"


def test_a_generator_that_is_dropped_ends_its_trace(pair: Pair) -> None:
    """A caller that stops iterating."""
    events: list[Event] = []
    rounds = LocalRun(pair, Start(prompt="ab"), events.append).rounds()
    next(rounds)
    rounds.close()
    assert [e.reason for e in of(events, End)] == ["cancelled"]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": "a" * 300}, "300 tokens, the target's context holds 192"),
        ({"prompt": "a", "method": "drafft"}, "did you mean 'draft'"),
        ({"prompt": "a", "verifier": "walks"}, "did you mean 'walk'"),
        ({"prompt": "a", "method": "ar", "verifier": "tokenwise"}, "known: walk"),
        ({"prompt": "a", "knobs": {"gamma": -1}}, "0..64"),
        ({"prompt": "a", "knobs": {"gamme": 1}}, "did you mean 'gamma'"),
        ({"prompt": "a", "knobs": {"shape": "tree", "draft_mode": "sampled"}}, "use shape drawn_tree"),
        ({"prompt": "a", "chat": True}, "no chat template"),
    ],
)
def test_bad_requests_are_refused_before_the_first_event(pair: Pair, start: dict[str, Any], words: str) -> None:
    """One line each, nothing written."""
    events: list[Event] = []
    with pytest.raises(SpecvizError) as caught:
        LocalRun(pair, Start(**start), events.append)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert events == []


def test_method_without_draft_model_says_so(pair: Pair) -> None:
    """A target alone can do plain decoding and prompt lookup."""
    alone = Pair(pair.target, None)
    with pytest.raises(ModelError, match="needs a draft model"):
        LocalRun(alone, Start(prompt="a"), lambda e: None)
    run = LocalRun(alone, Start(prompt="a", method="ngram", knobs={"max_new_tokens": 3}), lambda e: None)
    assert len(list(run.rounds())) >= 1


@pytest.mark.parametrize(
    ("start", "change"),
    [
        ({"verifier": "blockwise", "knobs": {"shape": "chains", "candidates": 1}}, ("candidates", 2)),
        ({"verifier": "tokenwise", "knobs": {"draft_mode": "shared"}}, ("temperature", 0.8)),
    ],
)
def test_a_knob_the_verifier_could_not_go_on_with_is_refused(
    pair: Pair, start: dict[str, Any], change: tuple[str, Any]
) -> None:
    """Live, by the one who asks for it, and not by a round that fails."""
    run = LocalRun(pair, Start(prompt="a", **start), lambda e: None)
    with pytest.raises(KnobError, match="could not go on"):
        run.set_knob(*change)
    run.set_knob("gamma", 2)
    assert len(list(run.rounds())) > 1


def test_a_control_says_how_far_off_it_is(pair: Pair) -> None:
    """In the header, with the knobs of the verifier; lossless ones say nothing."""
    for verifier, knobs, far in (
        ("hsd_ref", {}, 1 / 9),
        ("slack", {"slack": 0.3}, 0.2),
        ("hsd", {}, None),
        ("hsd_naive", {}, None),
    ):
        _, events = events_of(pair, verifier=verifier, knobs={"temperature": 1.0, "max_new_tokens": 3, **knobs})
        [header] = of(events, Header)
        assert (header.lossless, header.distance) == (far is None, far and pytest.approx(far))
        assert header.knobs.get("slack") == knobs.get("slack", 0.25)


def test_bans_are_texts_or_ids(pair: Pair) -> None:
    """A text of several tokens is refused with their ids; what is banned is not said."""
    plain, _ = events_of(pair, method="ar")
    token = plain.tokens[2]
    run, events = events_of(pair, knobs={"ban": [f"id:{token}", "q"]})
    assert not {token, plain.texts.token_of("q")} & set(run.tokens)
    assert of(events, Header)[0].sampling["ban"] == [f"id:{token}", "q"]
    for ban, words in (("ab", r"'ab' is 2 tokens \(id:"), ("id:260", "from 0 to 259"), ("", "is no text")):
        with pytest.raises(KnobError, match=words):
            LocalRun(pair, Start(prompt="a", knobs={"ban": [ban]}), lambda e: None)
    with pytest.raises(KnobError, match="nothing is left"):
        LocalRun(pair, Start(prompt="a", knobs={"ban": [f"id:{k}" for k in range(260)]}), lambda e: None)


def test_shared_noise_draft_goes_with_walk(pair: Pair) -> None:
    """Its default verifier is walk; the one that does not fit is refused at the start and says which does."""
    knobs = {"draft_mode": "shared", "temperature": 1.0}
    assert LocalRun(pair, Start(prompt="a", knobs=knobs), lambda e: None).verifier.name == "walk"
    with pytest.raises(SpecvizError, match="these do: walk"):
        LocalRun(pair, Start(prompt="a", verifier="tokenwise", knobs=knobs), lambda e: None)


def test_global_state_is_left_alone(pair: Pair) -> None:
    """Decoding twice with another session in between gives the same tokens."""
    first = events_of(pair, knobs={"temperature": 1.0})[0].tokens
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert events_of(pair, knobs={"temperature": 1.0})[0].tokens == first
    with pytest.raises(KnobError):
        events_of(pair, knobs={"temperature": -1})


@pytest.mark.parametrize(
    ("why", "warning"),
    [
        (NotCompiled("no C compiler here", True), "no C compiler here: passes are torch's, two to five times as slow"),
        (NotCompiled("/usr/bin/cc failed: no space", True), "cc failed: no space: passes are torch's"),
        (NotCompiled("nowhere to keep a kernel", True), "nowhere to keep a kernel: passes are torch's"),
        (NotCompiled("--compile off", False), None),
        (None, None),
    ],
)
def test_a_compiler_that_is_all_that_lacks_is_told(
    why: NotCompiled | None, warning: str | None, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has none would take a third of the speed for what there is."""
    pair = replace(pair, target=replace(pair.target, no_kernel=why))
    warned = [event.message for event in of(events_of(pair, method="ar")[1], Warn) if event.code == "kernel"]
    assert [message[: len(warning or "")] for message in warned] == ([warning] if warning else [])


def test_why_there_is_no_kernel_is_kept_from_loading(pair: Pair) -> None:
    """There is none for float64; which of the things it lacks is met first is the machine's."""
    lacking, adapter = pair.target.no_kernel, pair.target.adapter
    assert adapter.products == "torch"
    assert lacking is not None
    assert lacking == kernel_backend(adapter)
    (header,) = of(events_of(pair, method="ar")[1], Header)
    assert header.env["no_kernel"] == lacking.why
