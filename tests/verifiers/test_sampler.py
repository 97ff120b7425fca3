"""The real keys and draws, by chi-square: what the enumeration takes for granted.

Seeded, so nothing flickers; the false-alarm rate 1e-4 is that of choosing the seed. Each test has a control of known
non-centrality that must be rejected.
"""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import chi2, ncx2

from specviz.probability.draws import Keys
from specviz.probability.table_models import CASE_A, CASE_B, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import Law
from verifiers import controls, drafts
from verifiers.rounds import play

ALARM = 1e-4
A, B = CASE_A.in_floats(), CASE_B.in_floats()


def statistic(texts: list[tuple[int, ...]], target: Law) -> tuple[float, int]:
    """Pearson's chi-square of the texts, cells expected fewer than five times pooled, and its degrees of freedom."""
    counts = Counter(texts)
    assert set(counts) <= set(target), "a text the target never gives"
    expected = {text: float(prob) * len(texts) for text, prob in target.items()}
    large = [text for text, e in expected.items() if e >= 5]
    cells = [(counts[text], expected[text]) for text in large]
    rest = sum(e for text, e in expected.items() if text not in large)
    if rest > 0:
        cells.append((len(texts) - sum(counts[text] for text in large), rest))
    return sum((c - e) ** 2 / e for c, e in cells), len(cells) - 1


def generate(one_round: Any, length: int, seed: int, keyed: bool = True, way: Any = "cdf") -> tuple[int, ...]:
    text: tuple[int, ...] = ()
    round_ = 0
    while len(text) < length:
        round_ += 1
        text += one_round(Keys(seed, round_ if keyed else 0, way), text, round_)
    return text[:length]


def rejected(texts: list[tuple[int, ...]], target: Law) -> bool:
    distance, freedom = statistic(texts, target)
    return bool(distance > chi2.isf(ALARM, freedom))


def sample(run: Callable[[int], tuple[int, ...]], samples: int) -> list[tuple[int, ...]]:
    return [run(seed) for seed in range(samples)]


@pytest.mark.parametrize("way", ["cdf", "race"])
@pytest.mark.parametrize(
    ("name", "grow"),
    [
        ("walk", drafts.chain(2)),
        ("tokenwise", drafts.chain(2)),
        ("tokenwise", drafts.drawn_tree(1, 2, replacement=False)),
    ],
    ids=["walk", "tokenwise", "siblings"],
)
def test_law_over_chained_rounds(name: str, grow: drafts.Grow, way: str) -> None:
    """Case B, three tokens, N = 1000; the draft's own law would be rejected."""
    one_round = play(B, grow, get_verifier(name).plan)
    texts = sample(lambda seed: generate(one_round, 3, seed, way=way), 1000)
    assert not rejected(texts, law(B.p, 3))
    assert rejected(texts, law(B.q, 3))


def test_the_uncapped_rule_is_rejected() -> None:
    """`hsd_ref`, case A, gamma 2, two tokens: non-centrality 1/12 a sample, N = 1000, power above 0.9999."""
    one_round = play(A, drafts.chain(2), controls.uncapped_last)
    target = law(A.p, 2)
    assert ncx2.sf(chi2.isf(ALARM, 3), 3, 1000 / 12) > 0.9999
    assert rejected(sample(lambda seed: generate(one_round, 2, seed), 1000), target)


def test_missing_round_is_rejected() -> None:
    """Blockwise keyed without the round, case A, three tokens."""
    one_round = play(A, drafts.chain(2), controls.backward_scan)
    target = law(A.p, 3)
    wrong = controls.control_law(CASE_A, drafts.chain(2), controls.backward_scan, 3, keyed=False)
    per_sample = float(sum((wrong.get(t, 0) - p) ** 2 / p for t, p in target.items()))
    assert ncx2.sf(chi2.isf(ALARM, 7), 7, 2500 * per_sample) > 0.999
    assert rejected(sample(lambda seed: generate(one_round, 3, seed, keyed=False), 2500), target)
    assert not rejected(sample(lambda seed: generate(one_round, 3, seed), 2500), target)


@pytest.mark.parametrize(("method", "verifier"), [("draft", "tokenwise"), ("draft", "walk"), ("ar", "walk")])
def test_the_whole_engine(method: str, verifier: str) -> None:
    """Session, drafter, sampling and keys together: five tokens, N = 300 (sees a cell moved by about .05)."""
    pytest.importorskip("torch")
    from support.table_session import HISTORY, session, table_models

    models, knobs = table_models(HISTORY), {"gamma": 2} if method == "draft" else {}

    def run(seed: int) -> tuple[int, ...]:
        return tuple(session(models, None, method, verifier, seed=seed, max_new_tokens=5, **knobs).generate())

    texts = sample(run, 300)
    assert not rejected(texts, law(HISTORY.p, 5))
    assert rejected(texts, law(HISTORY.q, 5))  # the draft's law is another one, and is seen to be


def test_statistic_by_hand() -> None:
    """Three cells, expected 6, 3, 3: the small ones are pooled."""
    target = {(0,): Fraction(1, 2), (1,): Fraction(1, 4), (2,): Fraction(1, 4)}
    assert statistic([(0,)] * 9 + [(1,)] * 3, target) == (9 / 6 + 9 / 6, 1)
