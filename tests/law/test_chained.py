"""The production verifiers keep the target's law over chained rounds: exactly in Fractions, within 1e-12 in floats."""

import random
from fractions import Fraction

import numpy as np
import pytest

from law import drafts
from law.rounds import off_target
from specviz.tables import CASE_A, CASE_B, CASE_C, CASES, Markov, Problem
from specviz.verifiers import get_verifier

# layout, shared noise, verifiers, tokens looked at on cases A, B, C (None: left to another case, for time)
LAYOUTS = {
    "empty": (drafts.chain(0), False, "walk tokenwise", (4, 4, 3)),
    "chain 1": (drafts.chain(1), False, "walk tokenwise", (5, 4, 3)),
    "chain 2": (drafts.chain(2), False, "walk tokenwise", (7, 3, 3)),
    "chain 3": (drafts.chain(3), False, "walk tokenwise", (5, 3, None)),
    "argmax chain": (drafts.argmax_chain(2), False, "walk tokenwise", (7, 5, 4)),
    "chains": (drafts.chains(2, 2), False, "walk tokenwise", (5, 2, None)),
    "three chains": (drafts.chains(1, 3), False, "walk tokenwise", (4, 3, None)),
    "uneven chains": (drafts.uneven_chains(1, 3, 2), False, "walk tokenwise", (3, None, None)),
    "caterpillar": (drafts.caterpillar(2, 2), False, "walk tokenwise", (4, 2, None)),
    "tree of paths": (drafts.paths_tree([(0, 0), (0, 1), (1, 1)]), False, "walk tokenwise", (7, 5, 4)),
    "best tree": (drafts.best_tree(2, 2), False, "walk tokenwise", (7, 5, 4)),
    "drawn tree": (drafts.drawn_tree(2, 2, replacement=True), False, "walk tokenwise", (3, None, None)),
    "drawn tree, distinct": (drafts.drawn_tree(2, 2, replacement=False), False, "walk tokenwise", (5, None, None)),
    "siblings": (drafts.drawn_tree(1, 3, replacement=True), False, "walk tokenwise", (4, 2, None)),
    "siblings, distinct": (drafts.drawn_tree(1, 3, replacement=False), False, "walk tokenwise", (5, 3, 2)),
    "distinct chains": (drafts.distinct_chains(2, 2), False, "walk tokenwise", (5, 2, None)),
    "hybrid": (drafts.hybrid(2, 1), False, "walk tokenwise", (5, None, None)),
    "hybrid, flat": (drafts.hybrid(1, 2), False, "walk tokenwise", (5, 4, 3)),
    "hybrid, points first": (drafts.hybrid(1, 1, drawn_first=False), False, "walk tokenwise", (5, 4, 3)),
    "shared": (drafts.shared_chain(3), True, "walk", (7, 4, 3)),
    "window and branch": (drafts.windowed(2), False, "walk tokenwise", (6, 3, None)),
    "branch tokens": (drafts.branching(1, drawn=False), False, "walk tokenwise", (5, 4, 3)),
    "branch tokens, drawn": (drafts.branching(1, drawn=True), False, "walk tokenwise", (5, 3, None)),
    "chains with stops": (drafts.chains(2, 2, stop=[0]), False, "walk tokenwise", (5, 2, None)),
    "only a branch": (drafts.windowed(0), False, "walk tokenwise", (5, 4, 3)),
}
RUNS = [
    pytest.param(CASES[case], grow, name, shared, length, id=f"{name} {layout} {case}")
    for layout, (grow, shared, names, lengths) in LAYOUTS.items()
    for name in names.split()
    for case, length in zip("ABC", lengths, strict=True)
    if length
]


@pytest.mark.parametrize(("problem", "grow", "name", "shared", "length"), RUNS)
def test_law_is_the_targets(problem: Problem, grow: drafts.Grow, name: str, shared: bool, length: int) -> None:
    assert off_target(problem, grow, get_verifier(name), length, shared=shared) == 0


@pytest.mark.parametrize("name", ["walk", "tokenwise"])
@pytest.mark.parametrize("case", "ABC")
def test_law_in_floats(case: str, name: str) -> None:
    problem = CASES[case].in_floats()
    for grow in (drafts.chain(2), drafts.chains(1, 2), drafts.distinct_chains(2, 2)):
        assert off_target(problem, grow, get_verifier(name), 3) < 1e-12


@pytest.mark.parametrize("name", ["walk", "tokenwise"])
@pytest.mark.parametrize(("problem", "gamma", "length"), [(CASE_A, 3, 6), (CASE_B, 2, 4), (CASE_C, 2, 3)])
def test_a_drafted_stop_token_closes_with_none(problem: Problem, gamma: int, length: int, name: str) -> None:
    """The text goes on behind the stop token here: the round that kept it has no closing token, and none is missed."""
    assert off_target(problem, drafts.chain(gamma, stop=[0]), get_verifier(name), length) == 0


@pytest.mark.parametrize("name", ["walk", "tokenwise"])
def test_law_of_a_text_that_ends(name: str) -> None:
    for grow in (drafts.chain(3, stop=[0]), drafts.chain(3)):
        assert off_target(CASE_A, grow, get_verifier(name), 6, stop=frozenset([0])) == 0


@pytest.mark.parametrize("name", ["walk", "tokenwise"])
def test_law_with_race_draws(name: str) -> None:
    assert off_target(CASE_B, drafts.chain(2), get_verifier(name), 4, way="race") == 0


@pytest.mark.parametrize("name", ["walk", "tokenwise"])
@pytest.mark.parametrize("seed", range(12))
def test_random_tables(seed: int, name: str) -> None:
    """Tables with and without zeros, equal rows, disjoint supports, one-hot rows."""
    rng = random.Random(seed)
    problem = Problem(3, 2, _random_table(rng), _random_table(rng))
    if seed % 4 == 0:
        problem = Problem(3, 2, problem.p, problem.p)
    for grow in (drafts.chain(2), drafts.drawn_tree(1, 2, replacement=bool(seed % 2)), drafts.hybrid(1, 1)):
        assert off_target(problem, grow, get_verifier(name), 3) == 0


def _random_table(rng: random.Random) -> Markov:
    return Markov(_random_row(rng), np.stack([_random_row(rng) for _ in range(3)]))


def _random_row(rng: random.Random) -> "np.ndarray[tuple[int], np.dtype[np.object_]]":
    weights = [Fraction(rng.choice([0, 0, 1, 2, 5])) for _ in range(3)]
    weights[rng.randrange(3)] += 1
    row = np.empty(3, dtype=object)
    row[:] = [w / sum(weights) for w in weights]
    return row
