"""What an early-exit round leaves on record, and what looking at it costs: nothing, in text or in reads."""

from pathlib import Path
from typing import Any

import pytest
import torch

from methods.early_exit.stage import Hearsay, Placed, Sink, early, plain
from specviz.commands import Start
from specviz.cost.exit_replay import annealed
from specviz.cost.ledger import RoundCost
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.run.local import LocalRun, load_pair
from specviz.events import Event, ExitRound, Gate, LayerTrace, RoundEnd, decode, encode
from specviz.methods.early_exit.drafter import EarlyExit
from specviz.methods.early_exit.heads import LogitLens
from support.driver import session
from support.models import planted, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
N, L = 24, 5


def adapter_of(seed: int = 3) -> ModelAdapter:
    return ModelAdapter(planted(seed, layers=L)[0].double())


def of_kind(facts: list[Event], kind: Any) -> list[Any]:
    return [fact for fact in facts if isinstance(fact, kind)]


def recorded(adapter: ModelAdapter, right: float = 0.7, **knobs: Any) -> tuple[Sink, list[Any], list[int]]:
    want = plain(adapter, PROMPT, max_new_tokens=N)
    sink = Sink()
    run = early(
        adapter, Hearsay(adapter.vocab, PROMPT + want, right), PROMPT, Placed, sink=sink, max_new_tokens=N, **knobs
    )
    rounds = list(run.rounds())
    assert run.new_tokens == want
    return sink, rounds, want


def test_climbs_gates_and_costs_agree() -> None:
    sink, rounds, want = recorded(adapter_of(), alpha=0.5, tau=0.7, d_max=3)
    at, wrong = 0, 0
    for facts, done in zip(sink.rounds, rounds, strict=True):
        climbs, gates, (cost,) = of_kind(facts, LayerTrace), of_kind(facts, Gate), of_kind(facts, ExitRound)
        took = {gate.row: gate for gate in gates if gate.took}
        for climb in climbs:
            assert climb.pos == done.n - 1 + climb.row
            gate = took.get(climb.row)
            assert (gate.layer if gate else None) == climb.exit_layer
            assert climb.draft_token == (gate.top1 if gate else None)
            assert len(climb.width) == len(climb.past_len) == len(climb.layer_ns) == (climb.exit_layer or L)
        for gate in gates:
            assert gate.temp == pytest.approx(annealed(0.5, gate.layer, L), rel=1e-5)
            assert gate.took == (gate.conf >= 0.7) == (gate.raw_conf >= gate.raw_thr)
            assert gate.layer <= 3
            expected = gate.top1 == want[at + gate.row] if gate.row < len(done.tokens) else None
            assert gate.agrees == expected
            assert (gate.margin > 0, gate.entropy >= 0, gate.head_ns > 0, gate.top2 != gate.top1) == (True,) * 4
        exits = tuple(climb.exit_layer for climb in climbs[:-1])
        ledger = RoundCost(L, exits, done.n_accepted)
        assert (cost.layer_calls, cost.cells) == (ledger.layer_calls, ledger.cells)
        assert (cost.saved_calls, cost.wasted_cells) == (ledger.saved_calls, ledger.wasted_cells)
        assert cost.head_tests == len(gates)
        at += len(done.tokens)
        wrong += done.n_accepted < len(exits)
    assert wrong > 0


def test_records_survive_a_trace() -> None:
    adapter, sink = adapter_of(), Sink()
    early(adapter, LogitLens(adapter), PROMPT, sink=sink, max_new_tokens=N, observe_all=True).generate()
    assert {type(fact) for facts in sink.rounds for fact in facts} == {LayerTrace, Gate, ExitRound}
    for facts in sink.rounds:
        for fact in facts:
            assert decode(encode(fact)) == fact


def test_observing_all_changes_no_decision() -> None:
    """The same climbs and tests; besides them every other cell below the top is looked at, off the record of costs."""
    adapter = adapter_of()
    lens = LogitLens(adapter)
    runs = {}
    for watch in (False, True):
        sink = Sink()
        run = early(adapter, lens, PROMPT, sink=sink, max_new_tokens=N, observe_all=watch, alpha=0, d_max=3, tau=0.5)
        tokens = run.generate()
        runs[watch] = (tokens, sink)
    assert runs[False][0] == runs[True][0]
    for plain_facts, facts in zip(runs[False][1].rounds, runs[True][1].rounds, strict=True):
        for one, other in zip(of_kind(plain_facts, LayerTrace), of_kind(facts, LayerTrace), strict=True):
            assert (one.width, one.fill_after, one.exit_layer) == (other.width, other.fill_after, other.exit_layer)
        tests = [gate for gate in of_kind(facts, Gate) if not gate.observed_only]
        alone = of_kind(plain_facts, Gate)
        assert [(g.row, g.layer, g.conf) for g in tests] == [(g.row, g.layer, g.conf) for g in alone]
        assert of_kind(facts, ExitRound)[0].head_tests == len(tests)
        cells = {(gate.row, gate.layer) for gate in of_kind(facts, Gate)}
        n_rows = of_kind(facts, ExitRound)[0].n_rows
        assert cells == {(row, layer) for row in range(n_rows) for layer in range(1, L)}
        assert not any(gate.took for gate in of_kind(facts, Gate) if gate.observed_only)


def test_observing_all_moves_no_work() -> None:
    """The same passes over the same layers, so the same stages pay for them: the last climb is the target's pass."""
    adapter, passes = adapter_of(), {}
    for watch in (False, True):
        run = early(
            adapter,
            LogitLens(adapter),
            PROMPT,
            sink=Sink(),
            max_new_tokens=N,
            observe_all=watch,
            alpha=0,
            d_max=3,
            tau=0.5,
        )
        rounds = list(run.rounds())
        passes[watch] = [[(call.lo, call.hi, call.n_rows) for call in done.ledger] for done in rounds]
        for done in rounds:
            ((began, took),) = [(t0, ns) for name, t0, ns in done.clock.spans if name == "target"]
            assert began <= done.ledger[-1].t0_ns <= began + took
            assert done.ledger[-1].hi == L
    assert passes[False] == passes[True]


def test_observed_values_come_from_the_states_themselves() -> None:
    """What observe-all says of a cell is what the lens says of an uncached forward."""
    adapter, sink = adapter_of(), Sink()
    run = early(adapter, LogitLens(adapter), PROMPT, sink=sink, max_new_tokens=N, observe_all=True, alpha=0)
    done = next(run.rounds())
    text = [*PROMPT, *done.draft.tokens[: done.draft.n_fed]]
    with torch.inference_mode():
        states = adapter.model(torch.tensor([text]), output_hidden_states=True).hidden_states
    seen = 0
    for gate in of_kind(sink.rounds[0], Gate):
        state = states[gate.layer][0, len(PROMPT) - 1 + gate.row]
        with torch.inference_mode():
            best = adapter.logits(state[None, None])[0].softmax(-1).max(-1)
        assert (int(best.indices), float(best.values)) == (gate.top1, pytest.approx(gate.raw_conf, abs=1e-9))
        seen += gate.observed_only
    assert seen > 0


@pytest.mark.parametrize("level", ["none", "full"])
def test_one_read_of_the_device_a_test(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """Counted where a tensor becomes a number; the same number stands in the record."""
    adapter = adapter_of()
    want = plain(adapter, PROMPT, max_new_tokens=N)
    heads = Hearsay(adapter.vocab, PROMPT + want)
    reads, tests = 0, 0

    def counted(name: str) -> Any:
        original = getattr(torch.Tensor, name)

        def read(self: torch.Tensor, *args: Any) -> Any:
            nonlocal reads
            reads += 1
            return original(self, *args)

        return read

    propose, logits = EarlyExit.propose, heads.logits

    def asked(layer: int, hidden: torch.Tensor) -> torch.Tensor:
        nonlocal tests
        tests += 1
        return logits(layer, hidden)

    def watched(self: EarlyExit, ctx: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("tolist", "item", "__bool__", "__int__", "__float__", "__index__", "numpy"):
                patch.setattr(torch.Tensor, name, counted(name))
            out = propose(self, ctx)
        assert ctx.counters.n_syncs == tests - before
        return out

    heads.logits = asked  # type: ignore[method-assign]
    run = early(adapter, heads, PROMPT, Placed, sink=Sink(level), max_new_tokens=N)
    run.prefill()
    monkeypatch.setattr(EarlyExit, "propose", watched)
    rounds = run.rounds()
    while run.finish is None:
        before = tests
        next(rounds)
    assert reads == tests > N // 2


def test_a_whole_run_through_the_local_source(tmp_path: Path) -> None:
    """Header to end, with predicted times and every record of the family, for each named method."""
    folder = save(planted(5, layers=L)[0], tmp_path)
    pair = load_pair(folder, needs_draft=False)
    texts = []
    for method in ("ar", "specbound", "adadecode", "layerskip"):
        out: list[Event] = []
        run = LocalRun(pair, Start(prompt="some text", method=method, knobs={"max_new_tokens": 20}), out.append)
        list(run.rounds())
        texts.append(run.text)
        costs = of_kind(out, ExitRound)
        assert len(costs) == (0 if method == "ar" else len(of_kind(out, RoundEnd)))
        assert all(cost.predicted_ns > 0 for cost in costs)
        if method != "ar":
            assert of_kind(out, LayerTrace)
            assert of_kind(out, Gate)
    assert len(set(texts)) == 1


def test_drafting_ends_are_named() -> None:
    adapter = adapter_of()

    def ends(right: float = 1.0, **knobs: Any) -> set[str]:
        return {done.draft.draft_end for done in recorded(adapter, right, **knobs)[1]}

    assert ends(w_max=0) == {"width"}
    assert ends(d_max=0) == {"no_exit_layer", "length"}
    assert "depth" in ends(tau=0.9)
    assert ends(tau=0, w_max=3) >= {"width"}


def test_a_method_of_other_models_is_refused_nothing() -> None:
    """The named methods run on a bare adapter too, through their own factories."""
    adapter = adapter_of()
    for method in ("specbound", "adadecode", "layerskip"):
        assert len(session(adapter, None, PROMPT, method=method, max_new_tokens=6).generate()) == 6
