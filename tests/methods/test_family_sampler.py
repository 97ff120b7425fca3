"""The complete loop with real keys, by chi-square: several rounds, L = 2 gamma + 3
tokens, an end token among them. Finds what one-round tests cannot: stale caches, shifted rows, weights carried over.

Seeded, so nothing flickers; the false-alarm rate 1e-4 is that of choosing the seeds.
"""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from methods.test_family_law import LAYOUTS, LOSSLESS
from specviz.probability.table_models import CASE_A, Iid, Problem, exact_row, law
from support.table_session import HISTORY, session, table_models
from verifiers.test_sampler import rejected, sample

GAMMA, LENGTH = 2, 7
CHIEF = [(layout, verifier) for layout, verifier in LOSSLESS if layout == "chain"]
CHIEF += [("chains", "multi_hsd"), ("chains", "multi_traversal"), ("chains", "walk"), ("lean tree", "multi_traversal")]
CHIEF += [("distinct caterpillar", "multi_hsd"), ("caterpillar", "multi_traversal"), ("distinct tree", "tokenwise")]


@pytest.mark.parametrize(("layout", "verifier"), CHIEF)
def test_the_whole_engine(layout: str, verifier: str) -> None:
    """N = 300 (sees a cell moved by about .05); by inverse CDF and by race in turn."""
    models = table_models(HISTORY)
    options: dict[str, Any] = {"max_new_tokens": LENGTH, "eos": [0], **LAYOUTS[layout]}

    def run(seed: int) -> tuple[int, ...]:
        way = ("cdf", "race")[seed % 2]
        return tuple(session(models, None, "draft", verifier, seed=seed, draw=way, **options).generate())

    texts = sample(run, 300)
    assert not rejected(texts, law(HISTORY.p, LENGTH, [0]))
    assert rejected(texts, law(HISTORY.q, LENGTH, [0]))  # the draft's law is another one, and is seen to be


def test_a_control_is_rejected() -> None:
    """`hsd_ref` through the same loop, case A, gamma 2, first two tokens: non-centrality 1/12 a sample, N = 1000."""
    models = table_models(CASE_A)

    def run(seed: int) -> tuple[int, ...]:
        running = session(models, None, "draft", "hsd_ref", seed=seed, gamma=GAMMA, max_new_tokens=12)
        rounds = running.rounds()
        while len(running.new_tokens) < 2:
            next(rounds)
            running.request("gamma", 0)
        return tuple(running.new_tokens[:2])

    assert rejected(sample(run, 1000), law(CASE_A.p, 2))


@pytest.mark.parametrize("way", ["cdf", "race"])
def test_shared_noise_is_accepted_often_enough(way: str) -> None:
    """By race a drafted token is the target's with probability >= (1 - TV)/(1 + TV); by CDF it may be less.

    Exact for the race: two races with the same noise have the same winner y with 1 / sum_z max(p_z/p_y, q_z/q_y).
    Tokenwise keeps 1 - TV, more, but not the text of plain decoding.
    """
    p, q = (exact_row(row.split()) for row in (".05 .4 .25 .2 .1", ".2 .3 .05 .15 .3"))
    models = table_models(Problem(5, 1, Iid(p), Iid(q)))
    runs = 1500
    kept = 0
    for seed in range(runs):
        running = session(models, None, "draft", "walk", draft_mode="shared", gamma=1, seed=seed, draw=way)
        kept += next(running.rounds()).n_accepted
    a, b = p.astype(float), q.astype(float)
    tv = np.abs(a - b).sum() / 2
    race = sum(1 / np.maximum(a / a[y], b / b[y]).sum() for y in range(5))
    edges = [np.concatenate([[0.0], np.cumsum(row)]) for row in (a, b)]
    cdf = sum(max(0.0, min(e[y + 1] for e in edges) - max(e[y] for e in edges)) for y in range(5))
    expected = race if way == "race" else cdf
    assert (1 - tv) / (1 + tv) <= race <= 1 - tv
    assert abs(kept / runs - expected) < 4 * (expected * (1 - expected) / runs) ** 0.5
    assert abs(race - cdf) > 0.1  # the two ways are told apart
