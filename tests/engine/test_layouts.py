"""Every layout under every verifier on small real models: the tokens of plain decoding where they are promised, cache
invariants, batched draft calls, and statistics on the text where only its law is.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2_contingency

from engine.test_session import cached_tokens
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files.loading import load
from specviz.methods import get_method
from specviz.methods.draft_model.drafter import WIDEST
from specviz.probability.draft import ROOT
from specviz.verifiers import get_verifier
from support.cards import PLACES
from support.driver import greedy, session
from support.models import VOCAB, blurred, build, planted, save

PROMPT = [5, 77, 12, 5, 77, 12, 200, 31, 5]
METHOD = get_method("draft")
LAYOUTS: dict[str, dict[str, Any]] = {
    "chain": {"gamma": 4},
    "chains": {"shape": "chains", "gamma": 4, "candidates": 3},
    "distinct chains": {"shape": "chains", "gamma": 3, "candidates": 4, "replacement": False},
    "best chains": {"shape": "chains", "gamma": 3, "draft_mode": "argmax"},
    "caterpillar": {"shape": "caterpillar", "gamma": 4, "candidates": 2},
    "distinct caterpillar": {"shape": "caterpillar", "gamma": 3, "candidates": 3, "replacement": False},
    "drawn tree": {"shape": "drawn_tree", "d_max": 3, "node_budget": 11},
    "distinct tree": {"shape": "drawn_tree", "d_max": 4, "candidates": 3, "replacement": False, "k_max": 3},
    "tree": {"shape": "tree", "d_max": 3, "w_max": 2, "k_max": 3},
}
NEW = [name for name in LAYOUTS if name not in ("chain", "tree")]


def fitting(layout: str, temperature: float) -> list[str]:
    """The lossless verifiers that take a layout."""
    knobs = METHOD.table.knobs({"temperature": temperature, **LAYOUTS[layout]})
    return [name for name in METHOD.fitting(knobs.values) if get_verifier(name).lossless]


@pytest.fixture(scope="module", params=PLACES)
def pair(request: pytest.FixtureRequest) -> tuple[ModelAdapter, ModelAdapter]:
    """A target and a noisy copy of it, in float64 so that no rounding decides; on every device there is."""
    target = build("llama", seed=1, dtype=torch.float64).to(request.param)
    draft = blurred(build("llama", seed=1, dtype=torch.float64), 0.3).to(request.param)
    return ModelAdapter(target), ModelAdapter(draft)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_greedy_text_under_every_verifier(pair: Any, layout: str) -> None:
    """Temperature 0: plain decoding's tokens, whatever drafts and judges."""
    want = session(*pair, PROMPT, method="ar").generate()
    verifiers = fitting(layout, 0.0)
    assert len(verifiers) >= 5
    for verifier in verifiers:
        assert session(*pair, PROMPT, verifier=verifier, **LAYOUTS[layout]).generate() == want, verifier


@pytest.mark.parametrize("draw", ["cdf", "race"])
@pytest.mark.parametrize("layout", NEW)
def test_walk_gives_the_tokens_of_plain_decoding(pair: Any, layout: str, draw: str) -> None:
    """With warpers and bans on, which touch both sides."""
    common = {"temperature": 1.1, "draw": draw, "top_p": 0.9, "repetition_penalty": 1.1, "seed": 3, "ban": ["id:65"]}
    want = session(*pair, PROMPT, method="ar", **common).generate()
    assert session(*pair, PROMPT, **common, **LAYOUTS[layout]).generate() == want


@pytest.mark.parametrize("arch", ["llama", "gpt2"])
def test_equal_to_the_librarys_greedy_text(arch: str, tmp_path: Path) -> None:
    """New layouts against `transformers.generate`, models from disk."""
    folder = save(build(arch, seed=3), tmp_path / "target")
    target = load(folder, "target", "cpu", "float32").adapter
    draft = load(save(blurred(build(arch, seed=3)), tmp_path / "draft"), "draft", "cpu", "float32").adapter
    want = greedy(load(folder, "target", "cpu", "float32").adapter.model, PROMPT, 40)
    for layout in NEW:
        for verifier in fitting(layout, 0.0):
            assert session(target, draft, PROMPT, verifier=verifier, **LAYOUTS[layout]).generate() == want


@pytest.mark.parametrize(
    ("layout", "verifier"),
    [(layout, fitting(layout, 1.0)[-1]) for layout in NEW] + [("chain", "hsd_naive"), ("chain", "blockwise")],
)
def test_caches_equal_a_fresh_prefill_after_every_round(pair: Any, layout: str, verifier: str) -> None:
    """Whatever branch was kept, carried rounds among them; the draft model's cache spells the text as well."""
    run = session(*pair, PROMPT, verifier=verifier, temperature=1.0, max_new_tokens=25, **LAYOUTS[layout])
    for _ in run.rounds():
        cached_tokens(run)
        cache = run.drafter.drafts.cache
        known = min(cache.length, len(run.tokens))
        assert cache.tokens[:known] == run.tokens[:known]


@pytest.mark.parametrize("layout", NEW)
def test_a_level_is_one_draft_call(pair: Any, layout: str) -> None:
    """However many chains or nodes it has."""
    run = session(*pair, PROMPT, temperature=1.0, max_new_tokens=30, **LAYOUTS[layout])
    for done in run.rounds():
        assert done.n_draft_calls == max(done.draft.depths, default=0)


@pytest.mark.parametrize("layout", NEW)
def test_recorded_laws_are_those_the_tokens_came_from(pair: Any, layout: str) -> None:
    """Each drawn node's row is the draft model's own, its elder siblings struck out when draws are distinct."""
    knobs = LAYOUTS[layout]
    run = session(*pair, PROMPT, temperature=0.8, max_new_tokens=20, **knobs)
    seen = 0
    for done in run.rounds():
        draft, text = done.draft, run.tokens[: done.n]
        for parent, children in draft.children.items():
            path = list(draft.path(parent)) if parent != ROOT else []
            ids = torch.tensor([text + path], device=pair[1].device)
            law = (pair[1].model(ids, use_cache=False).logits[0, -1, :VOCAB].double() / 0.8).softmax(-1)
            for child in children:
                if draft.row_of[child] < 0:
                    continue
                assert torch.allclose(draft.law(child, VOCAB).double(), law, atol=1e-9)
                seen += 1
                if knobs.get("replacement") is False:
                    law = law.clone()
                    law[draft.tokens[child]] = 0
                    law = law / law.sum()
    assert (seen > 20) == (knobs.get("draft_mode") != "argmax")


def test_candidates_are_numbered_by_path(pair: Any) -> None:
    """Main chain 0, then the chains in the order they began; shared nodes belong to the first path through them."""
    run = session(*pair, PROMPT, shape="caterpillar", gamma=3, candidates=2, temperature=1.0)
    draft = next(run.rounds()).draft
    assert len(draft) == 3 + 3 + 2 + 1
    by_cand: dict[int, list[int]] = {}
    for node in draft.nodes:
        by_cand.setdefault(node.cand, []).append(node.depth)
    assert by_cand == {0: [1, 2, 3], 1: [1, 2, 3], 2: [2, 3], 3: [3]}
    flat = session(*pair, PROMPT, shape="chains", gamma=2, candidates=3, temperature=1.0)
    assert [node.cand for node in next(flat.rounds()).draft.nodes] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("shape", ["chains", "caterpillar"])
def test_no_draft_is_wider_than_the_caches(pair: Any, shape: str) -> None:
    """The most a user can ask for is cut before it is drawn; the main chain keeps its length."""
    run = session(*pair, PROMPT, shape=shape, gamma=64, candidates=16, temperature=1.0, max_new_tokens=100)
    draft = next(run.rounds()).draft
    assert len(draft) == WIDEST
    assert draft.draft_end == "budget"
    assert max(draft.depths) == 64


@pytest.mark.parametrize("shape", ["chain", "chains", "caterpillar", "drawn_tree", "tree"])
def test_banned_tokens_are_neither_said_nor_drafted(pair: Any, shape: str) -> None:
    """At temperature 0 and above it."""
    for temperature in (0.0, 1.0):
        plain = session(*pair, PROMPT, method="ar", temperature=temperature).generate()
        ban = [f"id:{token}" for token in plain[3:9]]
        run = session(*pair, PROMPT, shape=shape, temperature=temperature, ban=ban)
        for done in run.rounds():
            assert not {node.token for node in done.draft.nodes} & set(plain[3:9])
        assert not set(run.new_tokens) & set(plain[3:9])


# Group 9: real models, statistical. The law of the first tokens against plain decoding's, two samples.

COUNT, PREFIX = 400, 2
FAR = [
    ("chain", "tokenwise"),
    ("chain", "hsd"),
    ("chain", "hsd_naive"),
    ("chains", "multi_hsd"),
    ("caterpillar", "multi_traversal"),
    ("distinct tree", "tokenwise"),
    ("distinct chains", "multi_hsd"),
]


def p_value(first: list[tuple[int, ...]], second: list[tuple[int, ...]]) -> float:
    """Two-sample chi-square over the frequent texts, the rest pooled."""
    texts = sorted(set(first) | set(second))
    counts = np.array([[sample.count(text) for text in texts] for sample in (first, second)])
    frequent = counts.sum(0) >= 10
    table = np.concatenate([counts[:, frequent], counts[:, ~frequent].sum(1, keepdims=True)], 1)
    return float(chi2_contingency(table[:, table.sum(0) > 0], correction=False).pvalue)


@pytest.fixture(scope="module")
def biased() -> tuple[ModelAdapter, ModelAdapter]:
    """A pair whose laws are visibly different, and still overlap."""
    target, _ = planted(1, layers=1, width=32)
    draft, _ = planted(2, wrong=0.3, layers=1, width=32)
    return ModelAdapter(target), ModelAdapter(blurred(draft, 0.4))


def texts_of(models: Any, start: int, **knobs: Any) -> list[tuple[int, ...]]:
    """First tokens under many seeds; the draft is longer than what is looked at."""
    out = []
    for seed in range(start, start + COUNT):
        run = session(*models, [3], seed=seed, temperature=3.0, top_k=6, max_new_tokens=PREFIX + 3, **knobs)
        rounds = run.rounds()
        while len(run.new_tokens) < PREFIX:
            next(rounds)
        out.append(tuple(run.new_tokens[:PREFIX]))
    return out


@pytest.fixture(scope="module")
def plain(biased: Any) -> list[tuple[int, ...]]:
    """First tokens of plain decoding, the one sample that all others are held against."""
    return texts_of(biased, 0, method="ar")


@pytest.mark.parametrize(("layout", "verifier"), FAR)
def test_first_tokens_as_plain_decoding_has_them(
    biased: Any, plain: list[tuple[int, ...]], layout: str, verifier: str, record_property: Any
) -> None:
    """The p-value is reported; refused is one below 1e-4, the false-alarm rate of choosing the seeds."""
    ours = texts_of(biased, 10_000, verifier=verifier, **LAYOUTS[layout])
    p = p_value(plain, ours)
    record_property("p_value", p)
    print(f"{layout} {verifier}: p = {p:.3f}")
    assert p > 1e-4


def test_the_draft_models_own_text_is_told_apart(biased: Any, plain: list[tuple[int, ...]]) -> None:
    """Control: the same test sees the draft's law."""
    assert p_value(plain, texts_of((biased[1], None), 10_000, method="ar")) < 1e-6


def test_the_two_sample_test_raises_false_alarms_as_often_as_it_says() -> None:
    """Calibration: equal laws, 5 % level, 1000 pairs of samples; 99.6 % of such shares lie within 3 and 7 %."""
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.full(30, 0.4))
    texts = [(k,) for k in range(30)]
    draws = rng.choice(30, size=(1000, 2, COUNT), p=law)
    alarms = sum(p_value([texts[k] for k in a], [texts[k] for k in b]) < 0.05 for a, b in draws)
    assert 0.03 < alarms / 1000 < 0.07
