"""Early exit is exact: same text, same logits in every row, whatever the heads say and whatever happens in between.

Text alone is a weak witness (rows without their keys kept 195 of 200 texts). So the logits of every
row, rejected ones included, are held against an uncached forward of the prefix the row was run on.
"""

import re
from typing import Any

import numpy as np
import pytest
import torch

from methods.early_exit.stage import Hearsay, Placed, Sink, early, plain
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.errors import KnobError
from specviz.events import ExitRound, Warn
from specviz.knobs import KnobTable
from specviz.methods import get_method
from specviz.methods.early_exit.heads import LogitLens
from specviz.methods.early_exit.spec import Limits, fitted, layers, read
from support.driver import greedy, session
from support.models import CONFIGS, build, planted

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
N = 24
STYLES = {"specbound": 0.5, "adadecode": 1.0, "layerskip": 1.0}


def adapter_of(name: str, n_layers: int = 5, dtype: torch.dtype = torch.float64, seed: int = 3) -> ModelAdapter:
    changes: dict[str, Any] = {"n_layer" if name == "gpt2" else "num_hidden_layers": n_layers}
    kinds = getattr(CONFIGS[name](), "layer_types", None)
    if kinds:
        changes["layer_types"] = (sorted(set(kinds)) * n_layers)[:n_layers]
    return ModelAdapter(build(name, seed=seed, dtype=dtype, **changes))


def steer(run: Session, rng: np.random.Generator) -> None:
    """Another setting, degenerate ones among them."""
    n = run.target.n_layers
    run.request("alpha", float(rng.choice([0, 0.5, 1, 4])))
    run.request("tau", float(rng.choice([0, 0.3, 0.75, 0.99, 1.01])))
    run.request("d_max", int(rng.integers(-1, n + 1)))
    run.request("w_max", int(rng.integers(0, 9)))
    run.request("exit_layers", [str(layer) for layer in range(1, n) if rng.random() < 0.7])


def check_rows(adapter: ModelAdapter, done: Any, before: list[int], within: float) -> None:
    for row, node in enumerate(range(-1, done.draft.n_fed)):
        ids = torch.tensor([[*before, *done.draft.path(node)]])
        with torch.inference_mode():
            want = adapter.model(ids).logits[0, -1, : adapter.vocab]
        assert torch.allclose(done.logits[row], want.to(done.logits.dtype), atol=within, rtol=0), f"row {row}"


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in ("gemma2", "gemma3")])
def test_text_and_all_rows_of_every_architecture(name: str) -> None:
    """Settings change before every round; half the drafts are right."""
    adapter, rng, kept = adapter_of(name), np.random.default_rng(7), 0
    want = plain(adapter, PROMPT, max_new_tokens=N)
    assert want == greedy(adapter.model, PROMPT, N)
    heads = Hearsay(adapter.vocab, PROMPT + want)
    run = early(adapter, heads, PROMPT, Placed, max_new_tokens=N, sink=Sink())
    rounds = run.rounds()
    while run.finish is None:
        steer(run, rng)
        before = list(run.tokens)
        done = next(rounds)
        kept += done.n_accepted
        check_rows(adapter, done, before, 1e-10)
        assert run.cache.filled == [len(run.tokens) - 1] * adapter.n_layers
    assert run.new_tokens == want
    assert kept > 3


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_models_with_scores_in_float32(name: str) -> None:
    """The library's Gemma rounds inside; what is equal there is the text."""
    adapter = adapter_of(name)
    want = plain(adapter, PROMPT, max_new_tokens=N)
    run = early(adapter, Hearsay(adapter.vocab, PROMPT + want), PROMPT, Placed, max_new_tokens=N, alpha=0)
    assert run.generate() == want == greedy(adapter.model, PROMPT, N)


@pytest.mark.parametrize("seed", range(10))
def test_random_models_heads_and_stops(seed: int) -> None:
    """Two to eight layers; heads that are junk, the lens, or mostly right; a stop token now and then."""
    rng = np.random.default_rng(seed)
    adapter = adapter_of("llama", int(rng.integers(2, 9)), seed=seed)
    prompt = rng.integers(0, 250, int(rng.integers(1, 9))).tolist()
    whole = plain(adapter, prompt, max_new_tokens=N)
    eos = (whole[int(rng.integers(N))],) if rng.random() < 0.5 else ()
    want = plain(adapter, prompt, max_new_tokens=N, eos=eos)
    heads: Any = LogitLens(adapter)
    if seed % 3:
        heads = Hearsay(adapter.vocab, prompt + whole, right=(0.0, 0.0, 0.8)[seed % 3], salt=seed)
    run = early(adapter, heads, prompt, Placed, max_new_tokens=N, eos=eos)
    rounds = run.rounds()
    while run.finish is None:
        steer(run, rng)
        next(rounds)
    assert run.new_tokens == want


def test_single_precision() -> None:
    adapter = adapter_of("llama", dtype=torch.float32)
    want = plain(adapter, PROMPT, max_new_tokens=N)
    run = early(adapter, Hearsay(adapter.vocab, PROMPT + want), PROMPT, Placed, max_new_tokens=N, alpha=0)
    for before in [list(run.tokens)]:
        check_rows(adapter, next(run.rounds()), before, 1e-3)
    assert run.generate() == want


@pytest.mark.parametrize("method", ["specbound", "adadecode", "layerskip"])
@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_named_methods_keep_the_text_of_plain_decoding(method: str, temperature: float, seed: int) -> None:
    """Through their own factories, with the logit lens; the model says its next token in every layer."""
    model, _ = planted(seed, layers=4)
    adapter = ModelAdapter(model.double())
    knobs: dict[str, Any] = {"temperature": temperature, "max_new_tokens": 30, "seed": seed}
    want = session(adapter, None, PROMPT, method="ar", **knobs).generate()
    run = session(adapter, None, PROMPT, method=method, **knobs)
    kept = sum(done.n_accepted for done in run.rounds())
    assert run.new_tokens == want
    assert kept > 10


@pytest.mark.parametrize("mode", ["argmax", "shared", "sampled"])
@pytest.mark.parametrize("draw", ["cdf", "race"])
def test_settings_changed_every_round_leave_a_sampled_text_alone(mode: str, draw: str) -> None:
    """M, C, and sampled drafts under `walk`: the committed tokens are plain decoding's own draws."""
    adapter, kept = adapter_of("llama", 4), 0
    for seed in range(6):
        knobs: dict[str, Any] = {"temperature": 0.6, "max_new_tokens": N, "seed": seed, "draw": draw}
        want = plain(adapter, PROMPT, **knobs)
        rng = np.random.default_rng(seed)
        run = early(adapter, Hearsay(adapter.vocab, PROMPT + want), PROMPT, Placed, mode, **knobs)
        rounds = run.rounds()
        while run.finish is None:
            steer(run, rng)
            kept += next(rounds).n_accepted
        assert run.new_tokens == want
    assert kept > 0


def test_an_abort_after_every_layer_call_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run for each layer call of the text: that call is the last thing that happens before the round is lost."""
    adapter, write = adapter_of("llama", 4), KVCache.update
    want = plain(adapter, PROMPT, max_new_tokens=10)
    calls, fatal = 0, -1

    def counting(self: KVCache, *args: Any, **kw: Any) -> Any:
        nonlocal calls
        out = write(self, *args, **kw)
        calls += 1
        if calls == fatal:
            raise RuntimeError("lost")
        return out

    monkeypatch.setattr(KVCache, "update", counting)
    begun = early(adapter, Hearsay(adapter.vocab, PROMPT + want, right=0.4), PROMPT, Placed, max_new_tokens=10)
    begun.prefill()
    first = calls
    begun.generate()
    assert calls - first > 30
    for last in range(first + 1, calls + 1):
        calls, fatal, sink = 0, last, Sink()
        run = early(
            adapter, Hearsay(adapter.vocab, PROMPT + want, right=0.4), PROMPT, Placed, max_new_tokens=10, sink=sink
        )
        with pytest.raises(RuntimeError, match="lost"):
            run.generate()
        assert run.cache.filled == [run.cache.length] * adapter.n_layers
        assert run.generate() == want
        assert sink.aborts == 1


@pytest.mark.parametrize("temperature", [0, 0.8])
@pytest.mark.parametrize("at", [0, 1, 2, 3, 7])
def test_a_stop_token_anywhere(at: int, temperature: float) -> None:
    """As the root's draft, in the middle, as the last row's; drafted rightly and wrongly. Kept, never fed."""
    adapter = adapter_of("llama", 4)
    knobs: dict[str, Any] = {"temperature": temperature, "max_new_tokens": N}
    whole = plain(adapter, PROMPT, **knobs)
    stop = next(token for token in whole[at:] if token not in PROMPT and whole.index(token) >= at)
    want = plain(adapter, PROMPT, eos=(stop,), **knobs)
    assert want[-1] == stop
    for salt in range(8):
        heads = Hearsay(adapter.vocab, PROMPT + whole, right=0.75, salt=salt, stop=stop)
        run = early(adapter, heads, PROMPT, Placed, eos=(stop,), alpha=0, tau=0.5, w_max=1 + salt % 4, **knobs)
        for done in run.rounds():
            fed = done.draft.tokens[: done.draft.n_fed]
            assert stop not in fed
        assert run.new_tokens == want


@pytest.mark.parametrize(
    "knobs",
    [
        {"w_max": 0},
        {"d_max": 0},
        {"exit_layers": []},
        {"exit_layers": ["64"]},
        {"tau": 1.01},
        {"max_new_tokens": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("prompt", [PROMPT, [5]], ids=["prompt", "one token"])
def test_degenerate_settings_are_plain_decoding(knobs: dict[str, Any], prompt: list[int]) -> None:
    """Through the same code: one token a round, L layer calls, no draft."""
    adapter = adapter_of("llama", 4)
    limit = {"max_new_tokens": 8, **knobs}["max_new_tokens"]
    want = plain(adapter, prompt, max_new_tokens=limit)
    heads = Hearsay(adapter.vocab, prompt + want)
    run = early(adapter, heads, prompt, Placed, **{"max_new_tokens": 8, **knobs})
    rounds = list(run.rounds())
    assert run.new_tokens == want
    assert len(rounds) == len(want)
    assert {len(done.draft) for done in rounds} == {0}


def test_the_room_bounds_what_is_fed() -> None:
    adapter = adapter_of("llama", 4)
    want = plain(adapter, PROMPT, max_new_tokens=3)
    run = early(adapter, Hearsay(adapter.vocab, PROMPT + want, right=1), PROMPT, Placed, max_new_tokens=3, tau=0)
    done = next(run.rounds())
    assert (len(done.draft), done.draft.draft_end) == (2, "length")
    assert run.new_tokens == want


def test_half_precision_differs_only_where_the_target_itself_wavers() -> None:
    """At a first difference the two best logits of plain decoding are closer than bfloat16 can tell apart."""
    adapter = adapter_of("llama", 4, dtype=torch.bfloat16)
    for seed in range(4):
        prompt = [*PROMPT, 40 + seed]
        want = plain(adapter, prompt, max_new_tokens=N)
        run = early(adapter, Hearsay(adapter.vocab, prompt + want), prompt, Placed, max_new_tokens=N, alpha=0)
        tokens = run.generate()
        at = next((k for k in range(N) if tokens[k] != want[k]), None)
        if at is not None:
            with torch.inference_mode():
                logits = adapter.model(torch.tensor([prompt + want[:at]])).logits[0, -1].float()
            best = logits.topk(2).values
            assert float(best[0] - best[1]) < 0.05 * float(logits.abs().max())


def test_a_wrong_cache_is_seen_in_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: rows left behind are not taken along, their slots filled with what the newest row wrote."""
    adapter = adapter_of("llama", 4)
    want = plain(adapter, PROMPT, max_new_tokens=N)
    write = KVCache.update

    def copied(self: KVCache, key: Any, value: Any, layer: int, *rest: Any, **kw: Any) -> Any:
        if 1 < key.shape[2] < 9:
            key, value = key[:, :, -1:].expand_as(key), value[:, :, -1:].expand_as(value)
        return write(self, key, value, layer, *rest, **kw)

    run = early(adapter, Hearsay(adapter.vocab, PROMPT + want), PROMPT, Placed, max_new_tokens=N, alpha=0, tau=0.3)
    run.prefill()
    monkeypatch.setattr(KVCache, "update", copied)
    before, done = list(run.tokens), next(run.rounds())
    monkeypatch.undo()
    assert done.draft.n_fed > 0
    with pytest.raises(AssertionError, match="row"):
        check_rows(adapter, done, before, 1e-10)


@pytest.mark.parametrize(
    ("words", "depths"),
    [
        (["3 5"], [3, 5]),
        (["5,3", "3"], [3, 5]),
        (["L/4 L/2"], [3, 6]),
        (["3L/4"], [9]),
        (["L"], []),
        ([], []),
        (["12", "99"], []),
        (["L/8, L/4, 3L/8, L/2"], [2, 3, 5, 6]),
    ],
    ids=str,
)
def test_layers_are_named_by_number_or_share(words: list[str], depths: list[int]) -> None:
    assert layers(words, 12) == depths


@pytest.mark.parametrize("word", ["x", "0", "-1", "L/0", "L/00", "1.5", "M/2", "9" * 5000, "L/" + "9" * 5000, "\u0663"])
def test_what_is_no_layer_is_refused(word: str) -> None:
    """Already by the example that a method shows its verifiers, so before a model is loaded or a round begins."""
    table = get_method("specbound").table
    with pytest.raises(KnobError, match="is no layer"):
        get_method("specbound").example(table.knobs({"exit_layers": [word]}).values)


@pytest.mark.parametrize("method", ["specbound", "adadecode", "layerskip"])
def test_knobs_fitted_to_a_model_say_what_the_loose_ones_mean(method: str) -> None:
    depth = 0.5 if method == "specbound" else 1.0
    loose = get_method(method).table
    close = KnobTable(method, tuple(fitted(spec, 12, depth) for spec in loose.specs))
    assert read(close.knobs().values, 12, depth) == read(loose.knobs().values, 12, depth)
    assert close.spec("d_max").range == "0..11"
    with pytest.raises(KnobError):
        close.check({"d_max": -1})


def test_the_setting_of_the_spec() -> None:
    """Defaults of SpecBound on twelve layers, and of its relatives."""
    knobs = {name: read(get_method(name).table.knobs().values, 12, depth) for name, depth in STYLES.items()}
    assert knobs["specbound"] == Limits(0.5, 0.75, 6, 6, (2, 3, 5, 6))
    assert knobs["adadecode"] == Limits(0.0, 0.75, 11, 5, (3, 6, 9))
    assert knobs["layerskip"] == Limits(0.0, 0.0, 11, 6, (6,))


def test_advised_layers_are_what_auto_means() -> None:
    """Heads may advise; a layer that was asked for by number, or a bound, is taken at its word."""
    knobs = get_method("specbound").table.knobs()
    assert read(knobs.values, 12, 0.5, (7, 9)) == Limits(0.5, 0.75, 9, 6, (7, 9))
    assert read(knobs.with_(d_max=8).values, 12, 0.5, (7, 9)).layers == (7,)
    assert read(knobs.with_(exit_layers=["4, 8"]).values, 12, 0.5, (7, 9)).layers == (4,)
    close = KnobTable("specbound", tuple(fitted(spec, 12, 0.5, (7, 9)) for spec in get_method("specbound").table.specs))
    assert read(close.knobs().values, 12, 0.5) == read(knobs.values, 12, 0.5, (7, 9))


def test_layerskip_costs_what_its_source_says() -> None:
    """`L + k E` calls for k drafts at layer E."""
    adapter = adapter_of("llama", 4)
    sink = Sink()
    run = session(adapter, None, PROMPT, method="layerskip", sink=sink, w_max=3, exit_layers=["2"], max_new_tokens=9)
    next(run.rounds())
    cost = next(fact for fact in sink.rounds[0] if isinstance(fact, ExitRound))
    assert (cost.layer_calls, cost.n_rows) == (4 + 3 * 2, 4)


@pytest.mark.parametrize(("method", "knob"), [("specbound", "heads"), ("layerskip", "heads"), ("kangaroo", "adapter")])
def test_of_several_folders_none_is_left_out_unsaid(method: str, knob: str) -> None:
    knobs = get_method(method).table.knobs({knob: ["lens", "somewhere"]})
    with pytest.raises(KnobError, match=f"knob {knob}: 2 were given"):
        get_method(method).example(knobs.values)


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"exit_layers": ["99"]}, ["leaves no layer to stop at, .* layers 1 to 4 below its last, d_max is 3"]),
        ({"exit_layers": ["4"]}, ["leaves no layer to stop at"]),
        ({"exit_layers": ["1, 99"]}, ["names 99, which is left out"]),
        ({"exit_layers": ["1, 4"]}, []),
        ({"exit_layers": ["99"], "w_max": 0}, ["names 99"]),
        ({"exit_layers": ["4"], "d_max": 0}, []),
    ],
    ids=str,
)
def test_layers_that_are_left_out_are_said_once(knobs: dict[str, Any], says: list[str]) -> None:
    """A hurried user must not take plain decoding for a method that never drafts."""
    adapter, sink = adapter_of("llama"), Sink()
    run = early(adapter, LogitLens(adapter), PROMPT, sink=sink, max_new_tokens=6, **knobs)
    run.generate()
    warnings = [fact.message for facts in sink.rounds for fact in facts if isinstance(fact, Warn)]
    assert len(warnings) == len(says)
    for message, expected in zip(warnings, says, strict=True):
        assert re.search(expected, message)
