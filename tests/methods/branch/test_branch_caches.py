"""Rows and caches of branch drafters against full recomputation."""

from collections import Counter
from typing import Any

import pytest
import torch

from engine.test_session import cached_tokens
from methods.branch.sharp import PROMPT, sharp_pair
from methods.branch.watch import Watch, fact, facts
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import ForwardBatch
from specviz.events import Fork, Match, Rollback
from specviz.methods.branch.spec import branch_count
from support.driver import session
from support.models import VOCAB


@pytest.fixture(scope="module")
def pair() -> tuple[ModelAdapter, ModelAdapter]:
    return sharp_pair()


# ForwardBatch.


def test_every_row_equals_full_recomputation(pair: Any) -> None:
    """Target laws of all fed nodes and draft laws of all judged ones, whichever round drew them."""
    watch, seen = Watch(), Counter[str]()
    knobs = {
        "temperature": 0.8,
        "k_max": 12,
        "epsilon": 0.25,
        "gamma": 4,
        "max_new_tokens": 60,
        "branch_rule": "hybrid",
    }
    run = session(*pair, PROMPT, "specbranch", "tokenwise", sink=watch, **knobs)
    run.generate()
    for done in watch.rounds:
        text, draft = run.tokens[: done.n], done.draft
        for node in range(-1, draft.n_fed):
            want = recomputed(pair[0], [*text, *(draft.path(node) if node >= 0 else ())])
            assert torch.allclose(done.target_probs[node + 1], want, atol=1e-8)
        for node in draft.judged:
            if draft.row_of[node] < 0:
                continue
            want = recomputed(pair[1], [*text, *draft.path(node)[:-1]])
            elder = [n for n in draft.children[draft.parents[node]] if draft.ids[n] < draft.ids[node]]
            for token in (draft.tokens[n] for n in elder):
                want[token] = 0.0
            assert torch.allclose(draft.law_rows[draft.row_of[node]], want / want.sum(), atol=1e-8)
            seen["pending" if node < len(draft.pending) else "branch" if node >= draft.n_fed else "drafted"] += 1
            seen["several"] += len(elder) > 0
    assert min(seen[kind] for kind in ("pending", "drafted", "branch", "several")) > 3, seen


@pytest.mark.parametrize(
    "knobs", [{"temperature": 0.0}, {"temperature": 0.5, "top_k": 3}, {"temperature": 2.0}], ids=str
)
def test_confidence_is_that_of_the_raw_softmax(pair: Any, knobs: dict[str, Any]) -> None:
    """Never of the processed law, under which greedy drafts would all be sure and nothing would ever fork."""
    watch, most = Watch(), 0
    run = session(*pair, PROMPT, "specbranch", "walk", sink=watch, epsilon=0.25, k_max=8, max_new_tokens=30, **knobs)
    run.generate()
    for done in watch.rounds:
        fork, text = fact(done, Fork), run.tokens[: done.n]
        most = max(most, fork.k)
        if fork.k:
            path = [node.token for node in done.draft.pending] + [n.token for n in done.draft.nodes if n.branch is None]
            with torch.inference_mode():
                logits = pair[1].model(torch.tensor([[*text, *path]]), use_cache=False).logits[0, -1, :VOCAB]
            assert fork.conf == pytest.approx(float(logits.softmax(-1).max()), rel=1e-5)
            assert fork.k == branch_count(8, fork.conf, VOCAB) or (fork.k < 8 and knobs.get("top_k"))
    assert most > 2


def recomputed(model: ModelAdapter, text: list[int]) -> torch.Tensor:
    """The law after a text at temperature .8, without any cache."""
    with torch.inference_mode():
        logits = model.model(torch.tensor([text]), use_cache=False).logits[0, -1, :VOCAB]
    return (logits.double() / 0.8).softmax(-1)


# Caches.


@pytest.mark.parametrize(("method", "length"), [("specbranch", 0), ("specbranch", 1), ("pearl", 0)])
def test_lengths_of_both_caches_after_every_outcome(pair: Any, method: str, length: int) -> None:
    """Reject at i: n + i. Miss: n + m. Hit: all of the surviving branch but its last token. The target: n - 1."""
    outcomes = Counter[str]()
    for seed in range(3):
        watch = Watch()
        knobs = {"branch_len": length, "k_max": 8, "epsilon": 0.25} if method == "specbranch" else {}
        run = session(
            *pair, PROMPT, method, "tokenwise", sink=watch, temperature=0.7, seed=seed, max_new_tokens=50, **knobs
        )
        for _ in run.rounds():
            done = watch.rounds[-1]
            cached_tokens(run)
            fork, match, n, cache = fact(done, Fork), fact(done, Match), done.n, run.drafter.rows.cache
            m = fork.pos - n
            rest = run.drafter._open or []
            with torch.inference_mode():
                cache.follow([*run.tokens, *(held.node.token for held in rest)])
            assert cache.length == run.drafter.cached() == done.kv_after["draft"]
            same_as_fresh(pair[1], cache)
            if run.finish:
                outcomes["end"] += 1
            elif match is not None and match.branch is not None:
                outcomes["hit"] += 1
                assert cache.length == len(run.tokens) + max(len(rest) - 1, -1 if not rest else 0)
            elif match is not None:
                outcomes["miss"] += 1
                assert cache.length == n + m
            elif facts(done, Rollback):
                outcomes["reject"] += 1
                assert cache.length == n + done.n_accepted
    assert set(outcomes) == {"hit", "miss", "reject", "end"}


def same_as_fresh(model: ModelAdapter, cache: Any) -> bool:
    """The draft model's cache equals a prefill of the tokens it says it holds."""
    fresh = model.new_cache(256)
    rows = ForwardBatch(model, fresh)
    rows.add_line(list(cache.tokens[: cache.length]))
    with torch.inference_mode():
        rows.climb(model.n_layers)
    n = cache.length
    assert torch.allclose(cache._buffer[..., :n, :], fresh._buffer[..., :n, :], atol=1e-10)
    return True


def test_a_cache_that_keeps_the_first_branch_is_caught(pair: Any) -> None:
    """Control: lengths move and slots do not. No law would show it, since a draft may come from anything."""
    run = session(*pair, PROMPT, "specbranch", temperature=0.7, k_max=8, epsilon=0.25, max_new_tokens=50)
    cache = run.drafter.rows.cache
    cache._longest_path = lambda tokens: list(range(min(len(cache.tokens), len(tokens))))
    with pytest.raises(AssertionError):
        all(same_as_fresh(pair[1], cache) for _ in run.rounds())


def test_branches_share_their_prefix(pair: Any) -> None:
    """However many branches: rows for their own tokens and those pending, none for a second prefix."""
    watch, most = Watch(), 0
    run = session(*pair, PROMPT, "specbranch", sink=watch, temperature=1.0, k_max=16, epsilon=0.25, max_new_tokens=50)
    for _ in run.rounds():
        fork = fact(watch.rounds[-1], Fork)
        m = fork.pos - watch.rounds[-1].n
        assert fork.n_rows <= 1 + m + fork.k * max(0, fork.branch_len - 1)
        assert fork.kv_bytes == fork.n_rows * run.drafter.rows.slot_bytes
        assert fork.kv_saved == max(0, fork.k - 1) * (fork.pos - 1) * run.drafter.rows.slot_bytes
        most = max(most, fork.k)
    assert most > 3
