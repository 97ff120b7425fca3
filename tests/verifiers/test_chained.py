"""The production verifiers keep the target's law over chained rounds: exactly in Fractions, within 1e-12 in floats."""

import random

import pytest

from specviz.probability.table_models import CASE_A, CASE_B, CASE_C, CASES, Problem, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import deviation
from verifiers import drafts
from verifiers.blocks import Blocks
from verifiers.rounds import chained, off_target
from verifiers.table_rows import random_table

BASE = "walk tokenwise"
CHAINS = f"{BASE} blockwise hsd multi_hsd multi_traversal"
TREES = f"{BASE} multi_hsd multi_traversal"
POINTS = f"{TREES} tree_tokenwise tree_hsd"
# layout, shared noise, verifiers, tokens looked at on cases A, B, C (None: left to another case, for time)
LAYOUTS = {
    "empty": (drafts.chain(0), False, CHAINS, (4, 4, 3)),
    "chain 1": (drafts.chain(1), False, CHAINS, (5, 4, 3)),
    "chain 2": (drafts.chain(2), False, CHAINS, (7, 3, 3)),
    "chain 3": (drafts.chain(3), False, CHAINS, (5, 3, None)),
    "argmax chain": (drafts.argmax_chain(2), False, f"{POINTS} blockwise hsd", (7, 5, 4)),
    "chains": (drafts.chains(2, 2), False, TREES, (5, 2, None)),
    "three chains": (drafts.chains(1, 3), False, TREES, (4, 3, None)),
    "uneven chains": (drafts.uneven_chains(1, 3, 2), False, TREES, (3, None, None)),
    "caterpillar": (drafts.caterpillar(2, 2), False, TREES, (4, 2, None)),
    "tree of paths": (drafts.paths_tree([(0, 0), (0, 1), (1, 1)]), False, POINTS, (7, 5, 4)),
    "best tree": (drafts.best_tree(2, 2), False, POINTS, (7, 5, 4)),
    "drawn tree": (drafts.drawn_tree(2, 2, replacement=True), False, TREES, (3, None, None)),
    "drawn tree, distinct": (drafts.drawn_tree(2, 2, replacement=False), False, TREES, (5, None, None)),
    "siblings": (drafts.drawn_tree(1, 3, replacement=True), False, TREES, (4, 2, None)),
    "siblings, distinct": (drafts.drawn_tree(1, 3, replacement=False), False, TREES, (5, 3, 2)),
    "distinct chains": (drafts.distinct_chains(2, 2), False, TREES, (5, 2, None)),
    "hybrid": (drafts.hybrid(2, 1), False, TREES, (5, None, None)),
    "hybrid, flat": (drafts.hybrid(1, 2), False, TREES, (5, 4, 3)),
    "hybrid, points first": (drafts.hybrid(1, 1, drawn_first=False), False, TREES, (5, 4, 3)),
    "shared": (drafts.shared_chain(3), True, "walk", (7, 4, 3)),
    "window and branch": (drafts.windowed(2), False, CHAINS, (6, 3, None)),
    "branch tokens": (drafts.branching(1, drawn=False), False, TREES, (5, 4, 3)),
    "branch tokens, drawn": (drafts.branching(1, drawn=True), False, TREES, (5, 3, None)),
    "chains with stops": (drafts.chains(2, 2, stop=[0]), False, TREES, (5, 2, None)),
    "only a branch": (drafts.windowed(0), False, CHAINS, (5, 4, 3)),
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


@pytest.mark.parametrize("name", TREES.split())
@pytest.mark.parametrize("case", "ABC")
def test_law_in_floats(case: str, name: str) -> None:
    problem = CASES[case].in_floats()
    for grow in (drafts.chain(2), drafts.chains(1, 2), drafts.distinct_chains(2, 2)):
        assert off_target(problem, grow, get_verifier(name), 3) < 1e-12


@pytest.mark.parametrize("name", CHAINS.split())
@pytest.mark.parametrize(("problem", "gamma", "length"), [(CASE_A, 3, 6), (CASE_B, 2, 4), (CASE_C, 2, 3)])
def test_a_drafted_stop_token_closes_with_none(problem: Problem, gamma: int, length: int, name: str) -> None:
    """The text goes on behind the stop token here: the round that kept it has no closing token, and none is missed."""
    assert off_target(problem, drafts.chain(gamma, stop=[0]), get_verifier(name), length) == 0


@pytest.mark.parametrize("name", CHAINS.split())
def test_law_of_a_text_that_ends(name: str) -> None:
    for grow in (drafts.chain(3, stop=[0]), drafts.chain(3)):
        assert off_target(CASE_A, grow, get_verifier(name), 6, stop=frozenset([0])) == 0


@pytest.mark.parametrize("name", CHAINS.split())
def test_law_with_race_draws(name: str) -> None:
    assert off_target(CASE_B, drafts.chain(2), get_verifier(name), 4, way="race") == 0


@pytest.mark.parametrize("name", TREES.split())
@pytest.mark.parametrize("seed", range(12))
def test_random_tables(seed: int, name: str) -> None:
    """Tables with and without zeros, equal rows, disjoint supports, one-hot rows."""
    problem = random_problem(seed)
    for grow in (drafts.chain(2), drafts.drawn_tree(1, 2, replacement=bool(seed % 2)), drafts.hybrid(1, 1)):
        assert off_target(problem, grow, get_verifier(name), 3) == 0


@pytest.mark.parametrize("name", ["blockwise", "hsd"])
@pytest.mark.parametrize("seed", range(12))
def test_random_tables_under_a_chain(seed: int, name: str) -> None:
    assert off_target(random_problem(seed), drafts.chain(3), get_verifier(name), 3) == 0


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_over_whole_blocks(seed: int) -> None:
    problem = random_problem(seed)
    assert deviation(chained(Blocks(problem, 3).tokens, 3), law(problem.p, 3)) == 0


def random_problem(seed: int) -> Problem:
    """Every fourth has p = q."""
    rng = random.Random(seed)
    p, q = random_table(rng, 3), random_table(rng, 3)
    return Problem(3, 2, p, p if seed % 4 == 0 else q)
