"""Kangaroo is exact whatever its adapter says, stops after a weak draft, and its adapter reads what the text says."""

from typing import Any

import numpy as np
import pytest
import torch

from methods.early_exit.stage import Sink, plain
from methods.kangaroo.kangaroo_stage import adapter_for, kangaroo_run, uncached
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.errors import KnobError
from specviz.events import DraftStep, ExitRound, Gate, LayerTrace
from specviz.methods import get_method
from specviz.methods.kangaroo.adapter import Adapter, AdapterShape, Reader
from specviz.methods.kangaroo.spec import example
from support.models import CONFIGS, build, planted

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
N, LAYERS = 24, 4


def planted_target(seed: int = 0, layers: int = LAYERS) -> ModelAdapter:
    """A model that says its next token in every layer, so that drafts are kept."""
    return ModelAdapter(planted(seed, layers=layers)[0].double())


def steer(run: Session, rng: np.random.Generator, layer: int) -> None:
    """Another setting, degenerate ones among them; now and then another layer than the adapter's."""
    run.request("tau", float(rng.choice([0, 0.3, 0.6, 0.99, 1.01])))
    run.request("w_max", int(rng.integers(0, 9)))
    words: list[list[str]] = [["auto"], ["auto"], [str(layer)], [str(1 + layer % (run.target.n_layers - 1))], []]
    run.request("exit_layers", words[int(rng.integers(len(words)))])


def check_rows(target: ModelAdapter, adapter: Any, done: Any, before: list[int]) -> int:
    """Every row of the target, and every look of the adapter, against uncached forwards; how many looks there were."""
    for row, node in enumerate(range(-1, done.draft.n_fed)):
        with torch.inference_mode():
            want = target.model(torch.tensor([[*before, *done.draft.path(node)]])).logits[0, -1, : target.vocab]
        assert torch.allclose(done.logits[row], want, atol=1e-9, rtol=0), f"row {row}"
    looks = [step for step in done.facts if isinstance(step, DraftStep)]
    climbs = [climb for climb in done.facts if isinstance(climb, LayerTrace)]
    for k, climb in enumerate(climbs[: len(looks)] if climbs[0].exit_layer == adapter.layer else []):
        assert climb.row == k
        want = uncached(target, adapter, [*before, *done.draft.tokens[:k]])
        assert torch.allclose(done.draft.nodes[k].raw, want, atol=1e-9, rtol=0), f"look {k}"
    return len(looks)


@pytest.mark.parametrize("seed", range(6))
def test_text_and_every_row_with_settings_changed_every_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = planted_target(seed, int(rng.integers(2, 6)))
    layer = int(rng.integers(1, target.n_layers))
    adapter = adapter_for(target, layer, noise=(0.0, 0.05, 0.3)[seed % 3], seed=seed)
    prompt = rng.integers(0, 250, int(rng.integers(1, 9))).tolist()
    whole = plain(target, prompt, max_new_tokens=N)
    eos = (whole[int(rng.integers(4, N))],) if seed % 2 else ()
    want = plain(target, prompt, max_new_tokens=N, eos=eos)
    run = kangaroo_run(target, adapter, prompt, max_new_tokens=N, eos=eos, sink=Sink())
    rounds, looks, kept = run.rounds(), 0, 0
    while run.finish is None:
        steer(run, rng, layer)
        before = list(run.tokens)
        done = next(rounds)
        looks += check_rows(target, adapter, done, before)
        kept += done.n_accepted
        assert run.cache.filled == [len(run.tokens) - 1] * target.n_layers
    assert run.new_tokens == want
    assert looks > 0
    assert kept > 0 or seed % 3 == 2


@pytest.mark.parametrize("name", list(CONFIGS))
def test_every_architecture_takes_an_adapter(name: str) -> None:
    target = ModelAdapter(build(name, seed=3, dtype=torch.float64))
    want = plain(target, PROMPT, max_new_tokens=12)
    run = kangaroo_run(target, adapter_for(target, 1), PROMPT, max_new_tokens=12)
    assert sum(len(done.draft) for done in run.rounds()) > 0
    assert run.new_tokens == want


@pytest.mark.parametrize("name", ["llama", "qwen3", "mistral"])
def test_an_adapter_begins_as_the_lens(name: str) -> None:
    """So that the first step of a training is the fallback. Models with another kind of norm begin elsewhere."""
    target = ModelAdapter(build(name, seed=3, dtype=torch.float64))
    adapter = adapter_for(target, 1, noise=0.0)
    states = torch.randn(1, 5, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rope, _ = adapter.inputs(states, list(range(5)), None, None)
    assert torch.allclose(adapter.logits(adapter.adapter(states, rope)), target.logits(states), atol=1e-9)
    shape = AdapterShape.of(target)
    assert Adapter(shape).n_params == 4 * shape.width**2 + 2 * shape.width


@pytest.mark.parametrize("mode", ["argmax", "shared", "sampled"])
def test_a_sampled_text_is_plain_decodings(mode: str) -> None:
    """Under `walk` the committed tokens are plain decoding's own draws."""
    target, kept = planted_target(1), 0
    adapter = adapter_for(target, 2)
    for seed in range(4):
        knobs: dict[str, Any] = {"temperature": 0.7, "max_new_tokens": N, "seed": seed}
        want = plain(target, PROMPT, **knobs)
        rng, run = np.random.default_rng(seed), kangaroo_run(target, adapter, PROMPT, mode, **knobs)
        rounds = run.rounds()
        while run.finish is None:
            steer(run, rng, 2)
            kept += next(rounds).n_accepted
        assert run.new_tokens == want
    assert kept > 10


def test_an_abort_after_every_write_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for each write to a cache, the target's or the adapter's: the last thing before the round is lost."""
    target, write = planted_target(2, 3), KVCache.update
    adapter = adapter_for(target, 1, noise=0.2)
    want = plain(target, PROMPT, max_new_tokens=7)
    kangaroo_run(target, adapter, PROMPT)  # its costs are measured once
    calls, fatal = 0, -1

    def counting(self: KVCache, *args: Any, **kw: Any) -> Any:
        nonlocal calls
        out = write(self, *args, **kw)
        calls += 1
        if calls == fatal:
            raise RuntimeError("lost")
        return out

    monkeypatch.setattr(KVCache, "update", counting)
    begun = kangaroo_run(target, adapter, PROMPT, max_new_tokens=7, tau=0.2)
    begun.prefill()
    first = calls
    begun.generate()
    assert calls - first > 12
    for last in range(first + 1, calls + 1):
        calls, fatal = 0, last
        run = kangaroo_run(target, adapter, PROMPT, max_new_tokens=7, tau=0.2)
        with pytest.raises(RuntimeError, match="lost"):
            run.generate()
        assert run.generate() == want


@pytest.mark.parametrize(
    "knobs",
    [{"w_max": 0}, {"exit_layers": []}, {"exit_layers": ["64"]}, {"max_new_tokens": 1}],
    ids=str,
)
@pytest.mark.parametrize("prompt", [PROMPT, [5]], ids=["prompt", "one token"])
def test_degenerate_settings_are_plain_decoding(knobs: dict[str, Any], prompt: list[int]) -> None:
    target = planted_target()
    limit = {"max_new_tokens": 6, **knobs}["max_new_tokens"]
    want = plain(target, prompt, max_new_tokens=limit)
    run = kangaroo_run(target, adapter_for(target, 1), prompt, **{"max_new_tokens": 6, **knobs})
    rounds = list(run.rounds())
    assert run.new_tokens == want
    assert len(rounds) == len(want)
    assert {len(done.draft) for done in rounds} == {0}


class Scripted(Reader):
    """Says token k of `tokens` with the probability `confs[k]`, whatever it reads."""

    def __init__(self, vocab: int, tokens: list[int], confs: list[float]) -> None:
        self.vocab, self.tokens, self.confs, self.at = vocab, tokens, confs, -1
        self.cache = KVCache(1, 4)

    spelled = 0

    def learn(self, states: torch.Tensor, tokens: Any = ()) -> None:
        self.at = -1

    def begin(self, tokens: Any, root: torch.Tensor) -> torch.Tensor:
        return self.feed(0, root)

    def feed(self, token: int, state: torch.Tensor) -> torch.Tensor:
        self.at += 1
        out = torch.full((1, self.vocab), (1 - self.confs[self.at]) / (self.vocab - 1), dtype=torch.float64)
        out[0, self.tokens[self.at]] = self.confs[self.at]
        return out.log()


def scripted(confs: list[float], **knobs: Any) -> tuple[Any, list[Any]]:
    """The first round of a run whose adapter is right and as sure as told; its facts."""
    target = planted_target()
    truth = plain(target, PROMPT, max_new_tokens=8)
    run = kangaroo_run(target, adapter_for(target, 2), PROMPT, sink=Sink(), max_new_tokens=30, **knobs)
    run.drafter.reader = Scripted(target.vocab, truth, confs)  # type: ignore[union-attr]
    done = next(run.rounds())
    return done, done.facts


@pytest.mark.parametrize(
    ("confs", "drafts", "end"),
    [
        ([0.9, 0.8, 0.5, 0.9], 3, "low_conf"),
        ([0.5, 0.9, 0.9, 0.9], 1, "low_conf"),
        ([0.9] * 8, 6, "width"),
        ([0.9, 0.9, 0.9, 0.9, 0.9, 0.1], 6, "low_conf"),
        ([0.61, 0.59], 2, "low_conf"),
    ],
    ids=str,
)
def test_drafting_ends_after_a_weak_draft_which_is_verified(confs: list[float], drafts: int, end: str) -> None:
    """Defaults: tau 0.6, w_max 6. The weak draft is fed and, being right, kept; the last row climbs to the top."""
    done, facts = scripted(confs)
    assert (len(done.draft), done.draft.n_fed, done.draft.draft_end) == (drafts, drafts, end)
    assert done.n_accepted == drafts
    steps = [fact for fact in facts if isinstance(fact, DraftStep)]
    assert [step.conf for step in steps] == pytest.approx(confs[:drafts])
    assert [step.stopped for step in steps] == [conf < 0.6 for conf in confs[:drafts]]
    assert [step.pos for step in steps] == list(range(len(PROMPT), len(PROMPT) + drafts))
    assert [step.node for step in steps] == list(done.draft.ids)
    assert {step.bound for step in steps} == {0.6}
    climbs = [fact for fact in facts if isinstance(fact, LayerTrace)]
    assert [climb.exit_layer for climb in climbs] == [2] * drafts + [None]
    assert not any(isinstance(fact, Gate) for fact in facts)


def test_a_round_costs_what_the_source_says() -> None:
    """`k l + L` layer calls and k adapter calls for k drafts behind layer l."""
    done, facts = scripted([0.9, 0.9, 0.4])
    (cost,) = (fact for fact in facts if isinstance(fact, ExitRound))
    assert (cost.layer_calls, cost.n_rows, cost.head_tests) == (3 * 2 + LAYERS, 4, 3)
    assert cost.saved_calls == 3 * LAYERS - 3 * 2
    assert done.n_draft_calls == 3


def test_the_adapter_feeds_two_rows_after_a_round_that_kept_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trap: the last draft went through the target's layers but not through the adapter."""
    target = planted_target()
    run = kangaroo_run(target, adapter_for(target, 2, noise=0.0), PROMPT, max_new_tokens=40, tau=0, w_max=3)
    reader: Reader = run.drafter.reader  # type: ignore[union-attr]
    widths: list[int] = []
    write = KVCache.update

    def watched(self: KVCache, key: Any, *rest: Any, **kw: Any) -> Any:
        if self is reader.cache:
            widths.append(key.shape[2])
        return write(self, key, *rest, **kw)

    monkeypatch.setattr(KVCache, "update", watched)
    rounds = run.rounds()
    first = next(rounds)
    assert widths == [len(PROMPT), 1, 1]
    assert first.n_accepted == 3
    widths.clear()
    second = next(rounds)
    assert widths == [2, 1, 1]
    assert second.kv_before["draft"] == len(PROMPT) + 2  # the prompt and two of the three drafts


def test_the_adapters_cache_is_that_of_a_fresh_reading() -> None:
    """After every round, what its cache keeps of the text are the keys and values of reading the text afresh."""
    target = planted_target(4)
    adapter = adapter_for(target, 2, noise=1.0)
    run = kangaroo_run(target, adapter, PROMPT, max_new_tokens=30, tau=0.3)
    reader: Reader = run.drafter.reader  # type: ignore[union-attr]
    rejected = 0
    for done in run.rounds():
        rejected += len(done.draft) - done.n_accepted
        missing = reader.cache.follow(run.tokens[:-1])
        kept = len(run.tokens) - 1 - len(missing)
        assert kept >= done.n  # root and all drafts but the last are read in the round itself
        with torch.inference_mode():
            states = target.model(torch.tensor([run.tokens[:kept]]), output_hidden_states=True).hidden_states[2]
            rope, _ = adapter.inputs(states, list(range(kept)), None, None)
            cache = adapter.new_cache(kept)
            adapter.adapter(states, rope, None, cache)
        for mine, fresh in zip(reader.cache._layers[0], cache._layers[0], strict=True):
            assert torch.allclose(mine[:, :, :kept], fresh, atol=1e-9)
    assert rejected > 0


def test_a_long_prompt_is_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefilled and shown to the adapter a few rows at a time: the same text, the same looks."""
    target = planted_target(3)
    adapter = adapter_for(target, 2, noise=0.2)
    prompt = np.random.default_rng(0).integers(0, 250, 23).tolist()
    want = plain(target, prompt, max_new_tokens=9)
    for module in ("specviz.engine.model.rows", "specviz.methods.kangaroo.adapter"):
        monkeypatch.setattr(f"{module}.BLOCK", 5)
    run = kangaroo_run(target, adapter, prompt, max_new_tokens=9, sink=Sink())
    looks = 0
    rounds = run.rounds()
    while run.finish is None:
        before = list(run.tokens)
        looks += check_rows(target, adapter, next(rounds), before)
    assert run.new_tokens == want
    assert looks > 2


def test_one_layer_only() -> None:
    knobs = get_method("kangaroo").table.knobs({"exit_layers": ["1, 2"]})
    with pytest.raises(KnobError, match="one layer, not 1, 2"):
        example(knobs.values)
