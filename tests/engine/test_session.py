"""The round: same tokens as plain decoding, cuts, knobs, aborts, and the cache after every round."""

from typing import Any

import pytest
import torch

from specviz.engine.decode.session import Session
from specviz.engine.decode.text_output import Texts
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import KnobError, SpecvizError
from support.cards import PLACES
from support.driver import greedy, session
from support.models import VOCAB, blurred, build, planted, tokenizer

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
DRAFTERS: list[dict[str, Any]] = [
    {"gamma": 0},
    {"gamma": 1},
    {"gamma": 4},
    {"gamma": 9, "draft_mode": "argmax"},
    {"draft_mode": "shared"},
    {"shape": "tree", "node_budget": 0},
    {"shape": "tree", "d_max": 4, "w_max": 2, "k_max": 3, "node_budget": 9},
    {"shape": "chains", "gamma": 3},
    {"shape": "caterpillar", "gamma": 3, "candidates": 3, "replacement": False},
    {"shape": "drawn_tree", "d_max": 3, "candidates": 3, "node_budget": 14},
    {"method": "ngram"},
    {"method": "ngram", "ngram_min": 2, "gamma": 7},
]


@pytest.fixture(scope="module", params=PLACES)
def pair(request: pytest.FixtureRequest) -> tuple[ModelAdapter, ModelAdapter]:
    """A target and a noisy copy of it, in float64 so that no rounding decides; on every device there is."""
    target = build("llama", seed=1, dtype=torch.float64).to(request.param)
    draft = blurred(build("llama", seed=1, dtype=torch.float64), 0.3).to(request.param)
    return ModelAdapter(target), ModelAdapter(draft)


@pytest.mark.parametrize("draw", ["cdf", "race"])
@pytest.mark.parametrize("temperature", [0, 0.7, 1.3])
def test_walk_gives_the_tokens_of_plain_decoding(pair: Any, temperature: float, draw: str) -> None:
    """Whatever drafts, under every draw, with warpers on."""
    common = {"temperature": temperature, "draw": draw, "top_p": 0.95, "repetition_penalty": 1.1, "seed": 11}
    want = session(*pair, PROMPT, method="ar", **common).generate()
    assert len(set(want)) > 4, "a text that says nothing proves nothing"
    for knobs in DRAFTERS:
        assert session(*pair, PROMPT, **{**common, **knobs}).generate() == want, knobs


def test_plain_text_depends_on_the_seed(pair: Any) -> None:
    """Negative control of the identity above: other draws give another text."""
    texts = {tuple(session(*pair, PROMPT, method="ar", temperature=1.0, seed=s).generate()) for s in range(4)}
    assert len(texts) == 4


@pytest.mark.parametrize("temperature", [0, 1.0])
def test_knobs_redrawn_before_every_round_change_nothing(pair: Any, temperature: float) -> None:
    """Depths, widths and budgets move every round; the text does not. Every change takes effect in the next round."""
    want = session(*pair, PROMPT, method="ar", temperature=temperature).generate()
    for shape, moves in (("chain", "gamma"), ("tree", "node_budget"), ("tree", "d_max")):
        run = session(*pair, PROMPT, shape=shape, temperature=temperature)
        for number, done in enumerate(run.rounds(), 1):
            assert done.knob_version == run.knobs.version == number - 1
            run.request(moves, 1 + (number * 7) % 5)
        assert run.new_tokens == want


def cached_tokens(run: Session) -> list[int]:
    """What the target's cache holds must be the text without its last token, fresh-prefill equal."""
    assert run.cache.tokens == run.tokens[:-1]
    fresh = run.target.new_cache(256)
    from specviz.engine.model.rows import ForwardBatch

    rows = ForwardBatch(run.target, fresh)
    rows.add_line(run.tokens[:-1])
    with torch.inference_mode():
        rows.climb(run.target.n_layers)
    n = run.cache.length
    assert run.cache._buffer is not None
    assert fresh._buffer is not None
    assert torch.allclose(run.cache._buffer[..., :n, :], fresh._buffer[..., :n, :], atol=1e-10)
    return run.cache.tokens


@pytest.mark.parametrize("knobs", DRAFTERS[3:])
def test_cache_equals_a_fresh_prefill_after_every_round(pair: Any, knobs: dict[str, Any]) -> None:
    """Commit, rollback and branch choice leave exactly the rows of the text."""
    run = session(*pair, PROMPT, temperature=0.9, max_new_tokens=25, **knobs)
    for _ in run.rounds():
        cached_tokens(run)


def test_planted_bigrams_decode_as_planted() -> None:
    """Greedy text follows the planted successor; a half-wrong draft is accepted exactly where both agree."""
    target, perm = planted(1)
    draft, draft_perm = planted(2, wrong=0.4)
    run = session(target, draft, [3], gamma=4, max_new_tokens=60)
    accepted = drafted = 0
    token, text = 3, []
    for _ in range(60):
        token = perm[token]
        text.append(token)
    for done in run.rounds():
        root, want = done.root, 0
        while want < len(done.draft.tokens) and draft_perm[root] == perm[root]:
            root, want = perm[root], want + 1
        assert len(done.outcome.accepted) == want
        drafted, accepted = drafted + len(done.draft), accepted + want
    assert run.new_tokens == text
    assert 0 < accepted < drafted


def test_verifier_tokenwise_keeps_greedy_tokens(pair: Any) -> None:
    """At temperature 0 every lossless verifier gives the arg-max text."""
    want = greedy(build("llama", seed=1, dtype=torch.float64), PROMPT, 40)
    for knobs in ({"gamma": 5}, {"shape": "tree", "d_max": 3}):
        assert session(*pair, PROMPT, verifier="tokenwise", **knobs).generate() == want


def test_end_token_cuts_and_is_kept(pair: Any) -> None:
    """The end token is committed, nothing after it, in every method; it is no drafted row."""
    plain = session(*pair, PROMPT, method="ar", temperature=1.0).generate()
    eos = plain[17]
    want = plain[: plain.index(eos) + 1]
    for knobs in DRAFTERS:
        run = session(*pair, PROMPT, eos=(eos,), temperature=1.0, **knobs)
        assert run.generate() == want
        assert run.finish == "eos"


def test_length_and_context_limits(pair: Any) -> None:
    """Exactly as many tokens as asked for; a full context ends the run by name."""
    for knobs in DRAFTERS:
        for limit in (1, 2, 5, 13):
            run = session(*pair, PROMPT, **{**knobs, "max_new_tokens": limit})
            assert (len(run.generate()), run.finish) == (limit, "length")
    long = [k % 250 for k in range(186)]
    for knobs in DRAFTERS:
        run = session(*pair, long, **{**knobs, "max_new_tokens": 99})
        assert (len(run.generate()), run.finish) == (6, "context")


def test_stop_text_is_cut_out(pair: Any) -> None:
    """A stop text may begin inside one token and end in another; text and pieces end before it, in every method."""
    texts = Texts(tokenizer())
    plain = session(*pair, PROMPT, method="ar", texts=texts, max_new_tokens=40, temperature=1.0)
    plain.generate()
    stop = plain.text[8:11]
    seen = set()
    for knobs in DRAFTERS:
        run = session(*pair, PROMPT, texts=texts, **{**knobs, "stop": [stop], "max_new_tokens": 40, "temperature": 1.0})
        pieces = [piece for done in run.rounds() for piece in done.texts]
        assert run.finish == "stop"
        assert stop not in run.text
        assert "".join(pieces) == run.text
        seen.add((tuple(run.new_tokens), run.text))
    assert len(seen) == 1


def test_bad_prompts_are_refused(pair: Any) -> None:
    """Empty, or longer than the context."""
    with pytest.raises(SpecvizError, match="empty"):
        session(*pair, [])
    with pytest.raises(SpecvizError, match="at most 191"):
        session(*pair, [1] * 192)


def test_one_token_prompt(pair: Any) -> None:
    """Prefill feeds nothing, the first round has the prompt's only token as its root."""
    want = session(*pair, [65], method="ar").generate()
    for knobs in DRAFTERS:
        assert session(*pair, [65], **knobs).generate() == want


def test_knob_requests_are_checked(pair: Any) -> None:
    """Unknown names, ranges, and knobs that only apply later."""
    run = session(*pair, PROMPT)
    with pytest.raises(KnobError, match="did you mean 'gamma'"):
        run.request("gama", 3)
    with pytest.raises(KnobError, match=r"0\.\.64"):
        run.request("gamma", 65)
    with pytest.raises(KnobError, match="next prompt"):
        run.request("seed", 1)


class Broken(Exception):
    """Raised inside the model."""


def test_an_abort_inside_the_model_loses_nothing(pair: Any) -> None:
    """An exception in any round leaves cache and text consistent; the session goes on to the same text."""
    want = session(*pair, PROMPT, method="ar", temperature=0.8, max_new_tokens=20).generate()
    for fail_at in range(1, 30, 3):
        run = session(*pair, PROMPT, gamma=3, temperature=0.8, max_new_tokens=20)
        run.prefill()
        calls, layer = [0], run.target.layers[1]

        def bomb(*args: Any, calls: list[int] = calls, at: int = fail_at) -> None:
            calls[0] += 1
            if calls[0] == at:
                raise Broken

        hook = layer.register_forward_pre_hook(bomb)
        try:
            with pytest.raises(Broken):
                run.generate()
            assert run.cache.tokens == run.tokens[:-1][: run.cache.length]
            assert run.generate() == want
        except pytest.fail.Exception:
            assert run.new_tokens == want  # the run ended before the bomb
        finally:
            hook.remove()


def test_vocabulary_is_cut_to_the_tokenizers() -> None:
    """A padded head never emits an id the tokenizer does not know."""
    adapter = ModelAdapter(build("llama", seed=2), vocab=VOCAB - 60)
    run = session(adapter, None, PROMPT[:3], method="ar", temperature=2.0, max_new_tokens=80)
    assert max(run.generate()) < VOCAB - 60
