"""Features a drafter asks for are the library's hidden states of the committed text, one row for every new token."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from methods.early_exit.stage import Hearsay, Placed
from specviz.engine.decode.context import Observation
from specviz.engine.decode.drafter import Drafter
from specviz.engine.model import rows as rows_module
from specviz.engine.model.adapter import FactoryModels, ModelAdapter
from specviz.engine.run.local import make_drafter
from specviz.methods import get_method
from support.driver import session
from support.models import blurred, build

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
EXACT = 1e-10
N_LAYERS = 4
ALL = tuple(range(N_LAYERS + 1))


class Watching(Drafter):
    """Any drafter, with taps; keeps what it is shown."""

    def __init__(self, inner: Any, taps: Sequence[int], newest_only: bool = False) -> None:
        self.inner, self.taps, self.newest_only = inner, tuple(taps), newest_only
        self.seen: list[Observation] = []
        self.overlaps = inner.overlaps

    def draft_ahead(self, ctx: Any, draft: Any) -> Any:
        return self.inner.draft_ahead(ctx, draft)

    def propose(self, ctx: Any) -> Any:
        return self.inner.propose(ctx)

    def observe(self, observation: Observation) -> None:
        self.seen.append(observation)
        if observation.outcome is not None:
            self.inner.observe(observation)

    def cached(self) -> int | None:
        return self.inner.cached()


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def pair(request: pytest.FixtureRequest) -> tuple[ModelAdapter, ModelAdapter]:
    layers = {"n_layer" if request.param == "gpt2" else "num_hidden_layers": N_LAYERS}
    target = build(request.param, seed=3, dtype=torch.float64, **layers)
    return ModelAdapter(target), ModelAdapter(
        blurred(build(request.param, seed=3, dtype=torch.float64, **layers), 0.05)
    )


def watched(pair: Any, taps: Sequence[int] = ALL, newest_only: bool = False, **knobs: Any) -> tuple[Any, Watching]:
    """A session with a watching drafter; early exit hears half of the right tokens."""
    target, draft = pair
    method, prompt, eos = knobs.pop("method", "draft"), knobs.pop("prompt", PROMPT), knobs.pop("eos", ())
    if method == "specbound":
        warm = {name: knobs[name] for name in ("temperature", "seed") if name in knobs}
        truth = PROMPT + session(target, None, PROMPT, "ar", **warm).generate()
        inner: Any = Placed(target, Hearsay(target.vocab, truth), "argmax", 0.5)
        knobs |= {"exit_layers": ["1,2,3"], "d_max": 3}
    else:
        chosen = get_method(method)
        inner = make_drafter(chosen, FactoryModels(target, draft, 640), chosen.table.knobs(knobs))
    drafter = Watching(inner, taps, newest_only)
    return session(target, draft, prompt, method, drafter=drafter, eos=eos, **knobs), drafter


def wanted(adapter: ModelAdapter, tokens: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """The library's own states of a text, `[layers + 1]` of `[n, width]`."""
    with torch.inference_mode():
        out = adapter.model(torch.tensor([list(tokens)]), output_hidden_states=True)
    return tuple(state[0] for state in out.hidden_states)


def check(run: Any, drafter: Watching, states: Sequence[torch.Tensor]) -> None:
    """Every new token, the prompt's but the first included, came with the state of the row before it."""
    at = 1
    for observation in drafter.seen:
        assert tuple(run.tokens[at : at + len(observation.tokens)]) == observation.tokens
        for layer in drafter.taps:
            want = states[layer][at - 1 : at - 1 + len(observation.tokens)]
            assert observation.features[layer].shape == want.shape
            assert torch.allclose(observation.features[layer], want, atol=EXACT, rtol=0), (at, layer)
        at += len(observation.tokens)
    assert at == len(run.tokens)


@pytest.mark.parametrize(
    "knobs",
    [
        {"gamma": 0},
        {"gamma": 4},
        {"gamma": 4, "draft_mode": "shared"},
        {"shape": "tree", "d_max": 4, "w_max": 2, "k_max": 3, "node_budget": 9},
        {"shape": "chains", "gamma": 3, "candidates": 3},
        {"shape": "drawn_tree", "d_max": 3, "candidates": 3, "node_budget": 14},
        {"method": "ngram"},
        {"method": "specbound"},
        {"method": "specbound", "observe_all": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("temperature", [0, 0.6])
def test_features_are_the_hidden_states_of_the_text(pair: Any, knobs: dict[str, Any], temperature: float) -> None:
    """For every layer, accepted drafts and closing tokens alike; early exit's rows climb in pieces."""
    run, drafter = watched(pair, temperature=temperature, max_new_tokens=30, seed=2, **knobs)
    run.generate()
    check(run, drafter, wanted(pair[0], run.tokens))
    drafting = knobs not in ({"gamma": 0}, {"method": "ngram"})
    assert not drafting or max(len(observation.tokens) for observation in drafter.seen[1:]) > 1, (
        "no draft was ever kept"
    )


def test_wrong_rows_would_be_seen(pair: Any) -> None:
    """Negative control: the states of the tokens themselves, one place later, are others."""
    run, drafter = watched(pair)
    run.generate()
    states = wanted(pair[0], run.tokens)
    with pytest.raises(AssertionError):
        check(run, drafter, [torch.roll(state, 1, 0) for state in states])


def test_some_layers_after_a_cut_and_an_end_token(pair: Any) -> None:
    """Only what is committed is shown, and only the layers asked for."""
    plain = session(*pair, PROMPT, method="ar", temperature=1.0).generate()
    eos = plain[9]
    run, drafter = watched(pair, (2, 4), temperature=1.0, eos=(eos,), gamma=6)
    run.generate()
    assert run.tokens[-1] == eos
    assert all(set(observation.features) == {2, 4} for observation in drafter.seen)
    check(run, drafter, wanted(pair[0], run.tokens))


def test_the_newest_row_alone(pair: Any) -> None:
    """`newest_only`: one row, that of the last new token."""
    run, drafter = watched(pair, (0, 3), newest_only=True, gamma=4)
    run.generate()
    states, at = wanted(pair[0], run.tokens), 1
    for observation in drafter.seen:
        at += len(observation.tokens)
        for layer in (0, 3):
            assert observation.features[layer].shape[0] == 1
            assert torch.allclose(observation.features[layer][0], states[layer][at - 2], atol=EXACT, rtol=0)


@pytest.mark.parametrize("newest_only", [False, True])
def test_a_long_prompt_is_shown_block_by_block(pair: Any, monkeypatch: pytest.MonkeyPatch, newest_only: bool) -> None:
    """In text order; of the newest row alone there is one, after the last block."""
    monkeypatch.setattr(rows_module, "BLOCK", 7)
    prompt = [(k * 37) % 250 for k in range(24)]
    run, drafter = watched(pair, (1, 4), newest_only, prompt=prompt, max_new_tokens=3)
    run.prefill()
    assert [len(observation.tokens) for observation in drafter.seen] == ([2] if newest_only else [7, 7, 7, 2])
    run.generate()
    if not newest_only:
        check(run, drafter, wanted(pair[0], run.tokens))


def test_a_prompt_of_one_token_shows_nothing(pair: Any) -> None:
    """There is no row whose logits produced it."""
    run, drafter = watched(pair, prompt=[65])
    run.prefill()
    assert drafter.seen == []
    run.generate()
    check(run, drafter, wanted(pair[0], run.tokens))


def test_without_taps_nothing_is_kept_or_shown_of_the_prefill(pair: Any) -> None:
    """No cost when nobody asks: one pass of the layers in one piece, no observation of the prompt."""
    run, drafter = watched(pair, ())
    run.prefill()
    assert drafter.seen == []
    calls: list[tuple[int, list[int]]] = []
    inner = pair[0].forward
    try:
        pair[0].forward = lambda h, i, c, lo, stops: calls.append((lo, stops)) or inner(h, i, c, lo, stops)
        next(run.rounds())
    finally:
        del pair[0].forward
    assert calls == [(0, [N_LAYERS])]
    assert drafter.seen[0].features == {}
