"""The branch rules at one position: the law of what comes out is the target's, exactly."""

import random
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specviz.methods.branch.fork import BranchChoice, auto_branch_len, choose
from specviz.methods.branch.spec import branch_count
from specviz.probability.draft import Draft
from specviz.probability.draws import Keys
from specviz.probability.table_models import exact_row
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import EnumeratedPath, law_of

TOKENWISE = get_verifier("tokenwise").plan
EXACT = 1e-12


def random_pair(rng: random.Random, vocab: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A target and a draft row; now and then with zeros."""
    rows = []
    for _ in range(2):
        weights = [rng.random() if rng.random() < 0.8 else 0.0 for _ in range(vocab)]
        weights[rng.randrange(vocab)] += 0.1
        rows.append(torch.tensor(weights, dtype=torch.float64) / sum(weights))
    return rows[0], rows[1]


def drafted(choices: list[BranchChoice]) -> Draft:
    """Branch tokens at the root, none of them fed."""
    laws = [choice.law for choice in choices if choice.law is not None]
    numbers = iter(range(len(laws)))
    n = len(choices)
    return Draft(
        tokens=tuple(choice.token for choice in choices),
        parents=(-1,) * n,
        ids=tuple(range(n)),
        law_rows=torch.stack(laws) if laws else None,
        row_of=tuple(-1 if choice.law is None else next(numbers) for choice in choices),
    )


def one_position(rule: Any, p: torch.Tensor, q: torch.Tensor, k: int, verifier: Any = TOKENWISE) -> tuple[Any, float]:
    """The law `[V]` of the token that is committed, and the chance of a hit."""

    def run(branch: EnumeratedPath) -> tuple[int, bool]:
        keys = branch.keys(1)
        ordinals = iter(range(99))
        choices = rule(q.log(), q, k, lambda law: keys.draw("draft", 1, law, next(ordinals)).token)
        draft = drafted(choices)
        outcome = verifier(draft, p[None]).walk(keys, 1)
        return (draft.tokens[outcome.accepted[0]], True) if outcome.accepted else (outcome.closing, False)

    law, hit = np.zeros(len(p)), 0.0
    for (token, was_hit), prob in law_of(run).items():
        law[token] += prob
        hit += prob * was_hit
    return law, hit


def of(rule: Any) -> Any:
    return partial(choose, rule)


@pytest.mark.parametrize("rule", ["topk", "hybrid", "swor"])
@pytest.mark.parametrize("vocab", [3, 4, 8])
def test_law_of_one_position(rule: str, vocab: int) -> None:
    rng = random.Random(vocab)
    for _ in range(8 if vocab < 8 else 2):
        p, q = random_pair(rng, vocab)
        for k in range(1, 5 if vocab < 8 else 3):
            law, _ = one_position(of(rule), p, q, min(k, vocab))
            assert np.abs(law - p.numpy()).max() < EXACT, (rule, k)


def test_topk_hits_with_the_targets_mass_and_no_rule_better_for_that_set() -> None:
    p, q = random_pair(random.Random(5), 5)
    for k in (1, 2, 3):
        best = q.topk(k).indices
        assert one_position(of("topk"), p, q, k)[1] == pytest.approx(float(p[best].sum()))


def test_drawn_branches_hit_more_often_than_fixed_ones() -> None:
    """Random rows of eight tokens, k = 1, 2, 3: topk .42 .64 .77, hybrid .72 .83 .89, swor .72 .85 .91."""
    generator = np.random.default_rng(1)
    pairs = [[torch.tensor(generator.dirichlet(np.ones(8))) for _ in range(2)] for _ in range(25)]
    hits = {
        (rule, k): float(np.mean([one_position(of(rule), p, q, k)[1] for p, q in pairs]))
        for rule, k in [("topk", 1), ("hybrid", 1), ("topk", 2), ("hybrid", 2), ("swor", 1), ("swor", 2)]
    }
    assert hits["hybrid", 1] == pytest.approx(hits["swor", 1])  # both are ordinary speculative sampling
    assert hits["topk", 1] < hits["topk", 2] < hits["hybrid", 1] + 0.1
    assert hits["hybrid", 1] > hits["topk", 1] + 0.15
    assert hits["swor", 2] > hits["hybrid", 2] > hits["topk", 2] + 0.1


def test_walk_takes_every_set() -> None:
    """A draw from the target, looked up among the branches."""
    p, q = random_pair(random.Random(2), 4)
    for rule in ("topk", "hybrid", "swor"):
        law, _ = one_position(of(rule), p, q, 3, get_verifier("walk").plan)
        assert np.abs(law - p.numpy()).max() < EXACT


def test_a_set_may_be_larger_than_what_the_draft_can_say() -> None:
    """Two tokens have mass: the sampled branch is left out; fixed ones without mass match if the target says so."""
    p, q = (torch.tensor(row, dtype=torch.float64) for row in ([0.2, 0.3, 0.5], [0.5, 0.5, 0.0]))
    for rule in ("topk", "hybrid", "swor"):
        law, _ = one_position(of(rule), p, q, 3)
        assert np.abs(law - p.numpy()).max() < EXACT
    assert len(choose("hybrid", q.log(), q, 3, lambda law: 0)) == 2


# Controls: rules that are wrong, with the size of their error.


def softmax_topk(scores: Any, law: Any, k: int, draw: Any) -> list[BranchChoice]:
    """The k best tokens, said to be drawn: the ratio test in turn."""
    return [BranchChoice(int(token), law) for token in scores.topk(k).indices]


def test_ratio_test_on_deterministic_tokens_in_turn() -> None:
    rng, worst = random.Random(7), 0.0
    for _ in range(25):
        p, q = random_pair(rng, 4)
        law, _ = one_position(softmax_topk, p, q, 2)
        worst = max(worst, float(np.abs(law - p.numpy()).sum() / 2))
    assert worst > 0.4


def repository_law(p: Any, q: Any, k: int) -> Any:
    """The best-of-k rule of the authors' code: the branch token of largest p by its ratio, else the best of p - q."""
    b = max(sorted(range(len(p)), key=lambda y: -q[y])[:k], key=lambda y: p[y])
    law = [Fraction(0)] * len(p)
    law[b] += min(Fraction(1), p[b] / q[b])
    law[max(range(len(p)), key=lambda y: p[y] - q[y])] += 1 - min(Fraction(1), p[b] / q[b])
    return law


def test_the_repositorys_rule() -> None:
    """p = (.5, .3, .2), q = (.6, .3, .1): (5/6, 0, 1/6) comes out."""
    p, q = list(exact_row([".5", ".3", ".2"])), list(exact_row([".6", ".3", ".1"]))
    assert repository_law(p, q, 2) == [Fraction(5, 6), 0, Fraction(1, 6)]


# The count of branches.

TABLE = {
    3: [2, 2, 2, 2, 1, 1, 1, 1, 1, 1],
    4: [3, 3, 3, 2, 2, 2, 1, 1, 1, 1],
    6: [5, 5, 4, 4, 3, 3, 2, 1, 1, 1],
    10: [9, 9, 8, 7, 6, 5, 4, 3, 2, 1],
}


@pytest.mark.parametrize("k_max", TABLE)
def test_table_of_counts(k_max: int) -> None:
    confs = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert [branch_count(k_max, conf, 100) for conf in confs] == TABLE[k_max]


def test_a_bare_floor_misrounds_twice() -> None:
    """Both quotients are a whole number on paper and just below it in binary."""
    assert int(5 * (1 - 0.8)) == 0
    assert int(10 * (1 - 0.8)) == 1
    assert branch_count(10, 0.8, 100) == 2
    assert branch_count(15, 0.8, 100) == 3


@pytest.mark.parametrize("k_max", range(1, 17))
def test_limits_of_the_count(k_max: int) -> None:
    """It never reaches k_max for a positive confidence; k_max 1 and 2 never fork; the vocabulary bounds it."""
    for conf in np.linspace(0.001, 1.0, 400):
        k = branch_count(k_max, float(conf), 100)
        assert 1 <= k <= max(1, k_max - 1)
        if k > 1:
            assert conf <= 1 - k / k_max + 1e-9
    assert branch_count(16, 0.01, 3) == 3


def test_draws_are_keyed_by_position_and_ordinal() -> None:
    """Two draws without replacement at one position are not one draw twice."""
    q = torch.tensor([0.4, 0.3, 0.2, 0.1]).double()

    def drawn(keys: Keys) -> tuple[int, ...]:
        ordinals = iter(range(9))
        hits = choose("swor", q.log(), q, 2, lambda law: keys.draw("draft", 1, law, next(ordinals)).token)
        return tuple(choice.token for choice in hits)

    seen = {drawn(Keys(seed, 1)) for seed in range(40)}
    assert all(a != b for a, b in seen)
    assert len(seen) > 6


@given(st.floats(0.1, 50), st.floats(0.1, 5), st.floats(0.1, 5), st.booleans())
def test_the_automatic_branch_fits_and_one_more_would_not(target: float, one: float, step: float, known: bool) -> None:
    length = auto_branch_len(target, one, step, known)
    spent = (0.0 if known else one) + (length - 1) * step
    assert length == 1 or spent <= target * (1 + 1e-6)
    assert spent + step > target * (1 - 1e-6)
