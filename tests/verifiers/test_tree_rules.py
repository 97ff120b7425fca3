"""Deterministic trees: the joint rule by its own formulas is `walk`; none does better.

Also what a draft's candidates are, and which drafts are refused.
"""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from specviz.probability.draft import Carry, Draft
from specviz.probability.plan import Draw
from specviz.probability.rows import CertainRows
from specviz.probability.table_models import CASE_B, CASES, PrefixTable, Problem, exact_row
from specviz.verifiers import all_verifiers, get_verifier
from specviz.verifiers._candidates import candidates
from verifiers import drafts
from verifiers.rounds import accepted_law, draw_draft, mean, target_rows
from verifiers.table_rows import random_table

WALK = get_verifier("walk").plan
TREES = ["walk", "tokenwise", "multi_tokenwise", "tree_tokenwise", "tree_hsd", "multi_hsd", "multi_traversal"]
Paths = tuple[tuple[int, ...], ...]
Law = dict[tuple[tuple[int, ...], int], Any]


def tree_hsd_written_out(paths: Paths, row_of: Callable[[tuple[int, ...]], Any]) -> Law:
    """EAGLE's tree written out: path by path, each from weight 1, shared nodes tested again.

    R is the target's row after the kept text without the tokens that failed there.
    """
    out: Law = {}

    def required(text: tuple[int, ...], failed: frozenset[int]) -> Any:
        row = row_of(text).copy()
        row[list(failed)] = Fraction(0)
        return row / row.sum() if row.sum() else row_of(text)

    def close(text: tuple[int, ...], failed: frozenset[int], prob: Any) -> None:
        for token, share in enumerate(required(text, failed)):
            if share:
                out[text, token] = out.get((text, token), 0) + prob * share

    def go(b: int, text: tuple[int, ...], failed: frozenset[int], prob: Any) -> None:
        n = len(text)
        while b < len(paths) and not (len(paths[b]) > n and paths[b][:n] == text):
            b += 1
        if not prob or b == len(paths):
            if prob:
                close(text, failed, prob)
            return
        path = paths[b]
        pis = [required(path[:t], failed if t == n else frozenset())[path[t]] for t in range(n, len(path))]
        c = [Fraction(1)]
        for pi in pis:
            c.append(c[-1] * pi)
        left = prob
        for k in range(len(pis), 0, -1):
            h = c[k] if k == len(pis) else c[k] * (1 - pis[k]) / (1 - c[k] * pis[k]) if c[k] < 1 else Fraction(1)
            if k == len(pis):
                close(path, frozenset(), left * h)
            else:
                go(b + 1, path[: n + k], frozenset([path[n + k]]), left * h)
            left *= 1 - h
        go(b + 1, text, failed | {path[n]}, left)

    go(0, (), frozenset(), Fraction(1))
    return {end: prob for end, prob in out.items() if prob}


def random_paths(rng: random.Random, vocab: int) -> Paths:
    """Root-to-leaf paths of a random tree, depth first."""

    def grow(path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(path) == 3 or (path and rng.random() < 0.3):
            yield path
            return
        for token in rng.sample(range(vocab), rng.randint(1, vocab)):
            yield from grow((*path, token))

    return tuple(grow(()))


def draft_and_rows(paths: Paths, problem: Problem) -> tuple[Draft, Any]:
    draft = draw_draft(None, (), problem, drafts.paths_tree(paths))
    return draft, target_rows(problem.p, (), draft)


@pytest.mark.parametrize("seed", range(25))
def test_tree_hsd_by_its_own_formulas(seed: int) -> None:
    """The whole law of (accepted text, closing token), not only of the length; and `multi_hsd` writes the same rule."""
    rng = random.Random(seed)
    table = random_table(rng, 3)
    problem = Problem(3, 3, table, table)
    paths = random_paths(rng, 3)
    draft, rows = draft_and_rows(paths, problem)
    expected = tree_hsd_written_out(paths, table.row)
    for name in ("tree_hsd", "tree_tokenwise", "multi_hsd"):
        assert get_verifier(name).plan(draft, rows).law() == expected
    assert sum(expected.values()) == 1


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("case", "ABC")
def test_every_rule_keeps_the_sum_of_path_probabilities(case: str, name: str) -> None:
    """No lossless rule can exceed it, and all of them reach it."""
    problem = CASES[case]
    leaves = [(0, 0), (0, 1), (1, 0)]
    expected = Fraction(0)
    for node in {leaf[:k] for leaf in leaves for k in (1, 2)}:
        share = Fraction(1)
        for i, token in enumerate(node):
            share *= problem.p.row(node[:i])[token]
        expected += share
    laws = [accepted_law(problem, drafts.paths_tree(leaves), plan) for plan in (get_verifier(name).plan, WALK)]
    assert laws[0] == laws[1]
    assert mean(laws[0]) == expected


@pytest.mark.parametrize("name", TREES)
def test_golden_trees(name: str) -> None:
    """Case B's tree, and the worked one that EAGLE-3H gets wrong."""
    plan = get_verifier(name).plan
    law = accepted_law(CASE_B, drafts.paths_tree([(0, 0), (0, 1), (1, 1), (2,)]), plan)
    assert (law, mean(law)) == ([0, Fraction(2, 5), Fraction(3, 5)], Fraction(8, 5))
    after = {(): ".3 .35 .35", (0,): ".05 .05 .9", (0, 1): ".3 .3 .4", (0, 2): ".3 .3 .4"}
    table = PrefixTable({k: exact_row(v.split()) for k, v in after.items()}, exact_row(["1/3"] * 3))
    law = accepted_law(Problem(3, 3, table, table), drafts.paths_tree([(0, 1), (0, 2, 1)]), plan)
    assert law == [Fraction(x) for x in ("0.700", "0.015", "0.204", "0.081")]


@pytest.mark.parametrize("verifier", ["blockwise", "hsd", "hsd_naive"])
@pytest.mark.parametrize("case", "ABC")
def test_an_argmax_chain_gains_nothing(case: str, verifier: str) -> None:
    """With a deterministic draft every rule has the law of tokenwise."""
    grow = drafts.argmax_chain(3)
    plan = get_verifier(verifier).plan
    assert accepted_law(CASES[case], grow, plan) == accepted_law(CASES[case], grow, WALK)


@pytest.mark.parametrize("name", ["blockwise", "hsd", "hsd_naive", "hsd_ref"])
@pytest.mark.parametrize("case", "ABC")
def test_the_closing_token_is_never_the_drafted_one(case: str, name: str) -> None:
    """On one chain it cannot be: where test t + 1 failed,
    w_{t+1} < 1, so w_t p(X_{t+1}) < q(X_{t+1}) and the residual gives X_{t+1} nothing. The row at t = 1 of case D,
    which has it, stands below a test that always passes.
    """
    problem = CASES[case]
    stops = 0
    for text in product(range(problem.vocab), repeat=3):
        laws = np.stack([problem.q.row(text[:i]) for i in range(3)])
        if not all(laws[i][x] for i, x in enumerate(text)):
            continue
        draft = Draft(text, (-1, 0, 1), (0, 1, 2), 3, 3, laws, (0, 1, 2))
        plan = get_verifier(name).plan(draft, np.stack([problem.p.row(text[:i]) for i in range(4)]))
        for accepted, closing in plan.law():
            stops += len(accepted) < 3
            assert len(accepted) == 3 or closing != text[len(accepted)]
    assert stops > 3


def test_the_closing_token_may_be_drafted_by_another_candidate() -> None:
    """Of several chains it may be: case B, two of them. A token of the second may close the round at its own place."""
    builder = drafts.DraftBuilder(None, (), CASE_B.q)
    for tokens in ((1, 0), (0, 2)):
        node = -1
        for token in tokens:
            node = builder.point(node, token, law=builder.row(node))
    draft = builder.build()
    law = get_verifier("multi_hsd").plan(draft, target_rows(CASE_B.p, (), draft)).law()
    assert any(len(text) == 1 and closing == 0 for text, closing in law)


# Candidates


def test_candidates_of_a_caterpillar() -> None:
    """Main chain, then per depth the fresh chains: K - 1 of them, shared that deep."""
    draft = draw_draft(_Zero(), (), CASE_B, drafts.caterpillar(3, 2))
    assert [(c.nodes, c.shared) for c in candidates(draft)] == [
        ((0, 1, 2), 0),
        ((3, 4, 5), 0),
        ((0, 6, 7), 1),
        ((0, 1, 8), 2),
    ]
    assert len(candidates(draw_draft(_Zero(), (), CASE_B, drafts.caterpillar(10, 2)))) == 11


def test_candidates_follow_ids_not_feed_order() -> None:
    """Eldest children continue a path; the sibling born first begins the earlier one."""
    draft = Draft((5, 6, 7, 8), (-1, 0, -1, 0), (0, 3, 1, 2), 4, 4, row_of=(-1,) * 4)
    assert [(c.nodes, c.shared) for c in candidates(draft)] == [((0, 3), 0), ((2,), 0), ((0, 1), 1)]
    assert candidates(Draft()) == ()


class _Zero:
    """Draws the first token that has weight."""

    def draw(self, stream: str, pos: int, row: Any, index: int = 0) -> Any:
        from specviz.probability.draws import Drawn

        return Drawn(int(np.flatnonzero(row)[0]), 0.0)


# Refusals

CHAIN = Draft((1, 2), (-1, 0), (0, 1), 2, 2, np.full((2, 3), 1 / 3), (0, 1))
FORK = Draft((1, 2), (-1, -1), (0, 1), 2, 2, np.full((2, 3), 1 / 3), (0, 1))
POINTS = Draft((1, 2), (-1, -1), (0, 1), 2, 2, row_of=(-1, -1))
SHARED = Draft((1, 2), (-1, 0), (0, 1), 2, 2, np.full((2, 3), 1 / 3), (0, 1), shared=True)
CARRIED = Draft(law_rows=np.full((1, 3), 1 / 3), carry=Carry(0.5, 2))
ONE_CHAIN = ("blockwise", "hsd", "hsd_naive", "hsd_ref", "slack")


@pytest.mark.parametrize("name", sorted(all_verifiers()))
def test_what_is_refused(name: str) -> None:
    """A refusal names a verifier that takes the draft."""
    verifier = get_verifier(name)
    drawn = name not in ("tree_tokenwise", "tree_hsd")
    fits = {"chain": drawn, "fork": drawn and name not in ONE_CHAIN, "points": name not in ONE_CHAIN}
    fits |= {"shared": name == "walk", "carried": name in ("hsd_naive", "walk"), "empty": True}
    cases = {"chain": CHAIN, "fork": FORK, "points": POINTS, "shared": SHARED, "carried": CARRIED, "empty": Draft()}
    for what, draft in cases.items():
        refusal = verifier.refuses(draft)
        assert (refusal is None) == fits[what], what
        if refusal:
            named = [other for other in all_verifiers().values() if other.name in refusal.replace(",", " ").split()]
            assert named, refusal
            assert all(other.refuses(draft) is None for other in named), refusal


# The tail of the naive rule


def test_steps_of_a_carried_round() -> None:
    """R = 2: the row is (2 p - q)+ in units of R, and the ratio moves on by p/q; impossible tokens end it."""
    p, q = exact_row([".5", ".3", ".2"]), exact_row([".6", ".4", "0"])
    plan = get_verifier("hsd_naive").plan
    empty = Draft(law_rows=np.stack([q]), carry=Carry(float(np.log(2)), 3, Fraction(2)))
    step = plan(empty, np.stack([p])).step(-1)
    assert isinstance(step, Draw)
    assert (step.stream, step.kind, step.fallback) == ("residual", "recovered", False)
    assert list(step.row() / step.row().sum()) == [Fraction(2, 5), Fraction(1, 5), Fraction(2, 5)]
    assert step.carry is not None
    assert step.carry(0) == Carry(pytest.approx(np.log(5 / 3)), 2, Fraction(5, 3))
    assert step.carry(2) == Carry(np.inf, 2)
    last = plan(Draft(law_rows=np.stack([q]), carry=Carry(0.1, 1)), np.stack([p]).astype(float)).step(-1)
    assert isinstance(last, Draw)
    assert last.carry is not None
    assert last.carry(0) is None


@pytest.mark.parametrize("laws", [None, np.full((1, 3), 1 / 3)])
def test_an_infinite_ratio_follows_the_target(laws: Any) -> None:
    rows = np.array([[0.5, 0.3, 0.2]])
    step = get_verifier("hsd_naive").plan(Draft(law_rows=laws, carry=Carry(np.inf, 2)), rows).step(-1)
    assert isinstance(step, Draw)
    assert list(step.row()) == [0.5, 0.3, 0.2]
    assert step.carry is not None
    assert step.carry(1) == Carry(np.inf, 1)


def test_a_carried_round_at_temperature_zero() -> None:
    """One-hot target rows, and a draft law that is a point mass: the target's token, whatever R is."""
    for laws in (CertainRows((1,), 3), np.full((1, 3), 1 / 3)):
        empty = Draft(law_rows=laws, carry=Carry(0.7, 2))
        law = get_verifier("hsd_naive").plan(empty, CertainRows((2,), 3)).law()
        assert law == {((), 2): 1}
