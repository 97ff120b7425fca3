"""The joint rules with the real keys and draws, by chi-square.

Seeded, so nothing flickers; the false-alarm rate 1e-4 is that of choosing the seeds. `hsd_ref` must be rejected, and
how surely it is follows from its exact non-centrality.
"""

from typing import Any

import pytest
from scipy.stats import chi2, ncx2

from specviz.probability.table_models import CASE_A, CASE_B, CASES, law
from specviz.verifiers import get_verifier
from verifiers import controls, drafts
from verifiers.blocks import Blocks
from verifiers.rounds import play
from verifiers.test_sampler import ALARM, generate, rejected, sample

REF = get_verifier("hsd_ref").plan
A, B = CASE_A.in_floats(), CASE_B.in_floats()


@pytest.mark.parametrize("way", ["cdf", "race"])
@pytest.mark.parametrize(
    ("name", "grow"),
    [
        ("hsd", drafts.chain(3)),
        ("multi_hsd", drafts.caterpillar(2, 2)),
        ("multi_hsd", drafts.distinct_chains(2, 2)),
        ("multi_traversal", drafts.caterpillar(2, 2)),
        ("multi_traversal", drafts.drawn_tree(2, 2, replacement=False)),
    ],
    ids=["hsd", "multi caterpillar", "multi distinct", "traversal caterpillar", "traversal tree"],
)
def test_law_over_chained_rounds(name: str, grow: drafts.Grow, way: str) -> None:
    """Case B, three tokens, N = 1000; the draft's own law would be rejected."""
    one_round = play(B, grow, get_verifier(name).plan)
    texts = sample(lambda seed: generate(one_round, 3, seed, way=way), 1000)
    assert not rejected(texts, law(B.p, 3))
    assert rejected(texts, law(B.q, 3))


@pytest.mark.parametrize("way", ["cdf", "race"])
def test_law_over_chained_blocks(way: str) -> None:
    """Case B, gamma 3, four tokens, N = 1000, tails and all."""
    one_round = Blocks(B, 3).tokens
    texts = sample(lambda seed: generate(one_round, 4, seed, way=way), 1000)
    assert not rejected(texts, law(B.p, 4))


def test_blocks_without_their_tail_are_rejected() -> None:
    """Case A, gamma 2, where the naive rule without its tail is `hsd_ref`, draft by draft."""
    one_round = Blocks(A, 2, carries=False).tokens
    assert rejected(sample(lambda seed: generate(one_round, 2, seed), 1000), law(A.p, 2))


def non_centrality(case: str, gamma: int, length: int) -> float:
    """Of `hsd_ref`, per sample: sum of (law - target)^2 / target over the first tokens of a round."""
    target = law(CASES[case].p, length)
    wrong = controls.control_law(CASES[case], drafts.chain(gamma), REF, length, once=True)
    return float(sum((wrong.get(text, 0) - p) ** 2 / p for text, p in target.items()))


@pytest.mark.parametrize(
    ("case", "gamma", "length", "published"),
    [("A", 2, 2, 1 / 12), ("B", 2, 3, 0.0223), ("B", 3, 4, 0.0346), ("C", 2, 3, 0.0196)],
)
def test_non_centrality(case: str, gamma: int, length: int, published: float) -> None:
    assert non_centrality(case, gamma, length) == pytest.approx(published, abs=5e-5)


@pytest.mark.parametrize(("case", "gamma", "length", "samples"), [("A", 2, 2, 1000), ("B", 2, 3, 6000)])
def test_the_reference_rule_is_rejected(case: str, gamma: int, length: int, samples: int) -> None:
    """First tokens of a round and plain decoding after it, as the non-centrality has it."""
    problem = CASES[case].in_floats()
    cells = problem.vocab**length - 1
    assert ncx2.sf(chi2.isf(ALARM, cells), cells, samples * non_centrality(case, gamma, length)) > 0.9999
    first, after = (play(problem, drafts.chain(g), REF) for g in (gamma, 0))

    def one_round(keys: Any, text: tuple[int, ...], round_: int) -> tuple[int, ...]:
        return first(keys, text, round_) if round_ == 1 else after(keys, text, round_)

    texts = sample(lambda seed: generate(one_round, length, seed), samples)
    assert rejected(texts, law(problem.p, length))
    honest = play(problem, drafts.chain(gamma), get_verifier("hsd").plan)
    assert not rejected(sample(lambda seed: generate(honest, length, seed), samples), law(problem.p, length))
