"""`hsd_naive` over whole blocks: the target's law, and the golden counts of cases A, B and C."""

from fractions import Fraction
from typing import Any

import pytest

from specviz.probability.table_models import CASE_A, CASE_B, CASE_C, CASES, Problem, law
from specviz.verifiers import get_verifier
from specviz_lab.prove.enumerate import deviation
from verifiers.blocks import Block, Blocks, expected
from verifiers.rounds import chained


def fractions(text: str) -> list[Fraction]:
    return [Fraction(part) for part in text.replace(",", " ").split()]


def off(blocks: Blocks, length: int, **options: Any) -> Any:
    """Largest deviation of the law of the first tokens from the target's."""
    chain_law = chained(blocks.tokens, length, **options)
    return deviation(chain_law, law(blocks.problem.p, length, options.get("stop", ())))


def law_of_accepted(blocks: list[tuple[Block, Any]]) -> list[Any]:
    most = max(block.accepted for block, _ in blocks)
    return [sum(prob for block, prob in blocks if block.accepted == k) for k in range(most + 1)]


@pytest.mark.parametrize(
    ("case", "gamma", "accepted", "calls", "rate"),
    [
        ("A", 2, "1/3 0 2/3", "4/3", "2"),
        ("A", 3, "1/3 0 4/27 14/27", "5/3", "19/9"),  # 2.1111 in four digits
        ("B", 2, "0.2 0.1 0.7", "1.2", "2.25"),
        ("B", 3, "0.2 0.1 0.111 0.589", "1.5", "3.589/1.5"),
        ("C", 2, "0.3 0.28 0.42", "1.3", None),
        ("C", 3, "0.3 0.28 0.1745 0.2455", "1.88", None),
    ],
)
def test_golden_counts(case: str, gamma: int, accepted: str, calls: str, rate: str | None) -> None:
    blocks = Blocks(CASES[case], gamma).first()
    assert law_of_accepted(blocks) == fractions(accepted)
    assert expected(blocks, lambda b: b.calls) == Fraction(calls)
    # gamma + 1 tokens when all were accepted, else gamma: the tail writes the block to its end.
    assert all(len(b.tokens) == gamma + (b.accepted == gamma) for b, _ in blocks)
    if rate:
        top, _, bottom = rate.partition("/")
        tokens = expected(blocks, lambda b: len(b.tokens))
        assert tokens / expected(blocks, lambda b: b.calls) == Fraction(top) / Fraction(bottom or 1)


@pytest.mark.parametrize(("gamma", "mean"), enumerate(fractions("2/3 4/3 50/27 64/27 226/81 260/81"), 1))
def test_case_a_to_gamma_six(gamma: int, mean: Fraction) -> None:
    blocks = Blocks(CASE_A, gamma, carries=False).first()
    assert expected(blocks, lambda b: b.accepted) == mean


@pytest.mark.parametrize(
    ("problem", "gamma", "length"), [(CASE_A, 3, 5), (CASE_B, 2, 4), (CASE_C, 2, 3), (CASE_C, 3, 3)]
)
def test_law_of_chained_blocks(problem: Problem, gamma: int, length: int) -> None:
    assert off(Blocks(problem, gamma), length) == 0
    assert off(Blocks(problem.in_floats(), gamma), length) < 1e-12


def test_law_with_race_draws() -> None:
    assert off(Blocks(CASE_A, 2), 4, way="race") == 0


def test_a_ratio_can_be_infinite() -> None:
    """Case C writes tokens its draft law never gives; behind them the tail is the plain target's."""
    assert any(block.infinite for block, _ in Blocks(CASE_C, 3).first())


@pytest.mark.parametrize(
    ("problem", "gamma", "length"), [(CASE_A, 2, 4), (CASE_A, 3, 4), (CASE_B, 2, 4), (CASE_B, 3, 3)]
)
def test_a_drafted_stop_token_shortens_no_tail(problem: Problem, gamma: int, length: int) -> None:
    """The draft ends at token 0, the text as well. The tail is that of the planned length, not of the draft's."""
    stop = frozenset([0])
    assert off(Blocks(problem, gamma, (0,)), length, stop=stop) == 0
    assert off(Blocks(problem, gamma, (0,), planned=False), length, stop=stop) > 0


@pytest.mark.parametrize(("problem", "gamma", "length"), [(CASE_A, 4, 5), (CASE_B, 3, 4)])
def test_a_stop_token_of_the_drafter_alone_ends_the_tail(problem: Problem, gamma: int, length: int) -> None:
    """The text goes on behind token 0: there the drafter would have stopped, so nothing is left to refill."""
    assert off(Blocks(problem, gamma, (0,)), length) == 0
    assert off(Blocks(problem, gamma, (0,), dropped=False), length) > 0


@pytest.mark.parametrize("case", "ABC")
def test_plain_continuation_is_a_control(case: str) -> None:
    """Without the tail the prefixes with r > 1 are refilled in part only."""
    assert off(Blocks(CASES[case], 3, carries=False), 4) > Fraction(1, 1000)


@pytest.mark.parametrize("case", "ABC")
def test_tail_of_the_capped_rule_is_a_control(case: str) -> None:
    """Its closing row is already enough: `hsd` hands nothing on."""
    capped = Blocks(CASES[case], 3, plan=get_verifier("hsd").plan)
    assert {block.calls for block, _ in capped.first()} == {1}
    assert off(capped, 4) == 0


@pytest.mark.parametrize(("case", "gamma"), [("A", 3), ("B", 3), ("C", 3)])
def test_fewer_tokens_a_target_call_than_the_capped_rule(case: str, gamma: int) -> None:
    """More is accepted, less is emitted for each call."""
    naive = Blocks(CASES[case], gamma).first()
    hsd = Blocks(CASES[case], gamma, plan=get_verifier("hsd").plan).first()
    assert expected(naive, lambda b: b.accepted) > expected(hsd, lambda b: b.accepted)
    rate = expected(naive, lambda b: len(b.tokens)) / expected(naive, lambda b: b.calls)
    assert rate < expected(hsd, lambda b: len(b.tokens))
