"""A draft that is lost from some round of an answer on: what counts as lost, and what an interval forbids."""

import pytest

from specviz.metrics.collapse import LEAST_AFTER, LEAST_BEFORE, Collapse, CollapseTally
from specviz.metrics.draft_confidence import TokenPosition

BEFORE = 120  # rounds, of which four of five keep something


def tally_of(*answers: list[bool], step: int = 2) -> CollapseTally:
    """Answers by what their rounds keep; every round writes `step` tokens."""
    tally = CollapseTally()
    for q, kept in enumerate(answers):
        for r, kept_any in enumerate(kept, 1):
            tally.take(TokenPosition(q, r), step * r, int(kept_any))
    return tally


def rounds(n: int, of_twenty: int) -> list[bool]:
    """So many of twenty keep something, spread evenly."""
    return [(r * of_twenty) % 20 < of_twenty for r in range(n)]


def collapse_to(of_twenty: int, n: int = 400) -> Collapse | None:
    return tally_of(rounds(BEFORE, 16) + rounds(n, of_twenty)).collapse()


@pytest.mark.parametrize(("of_twenty", "is_one"), [(2, True), (6, True), (8, True), (9, False), (12, False)])
def test_half_or_less_of_what_was_kept_is_a_collapse_and_more_is_none(of_twenty: int, is_one: bool) -> None:
    """Nine of twenty are surely fewer than sixteen, and still more than half of them."""
    collapse = collapse_to(of_twenty)
    assert (collapse is not None) is is_one
    if collapse is not None:
        (kept, n), (later, n_later) = collapse.before, collapse.after
        assert n + n_later == BEFORE + 400
        assert later / n_later <= kept / n / 2
        assert abs(collapse.at.r - BEFORE) <= 8, "where it begins"


def test_a_loss_that_so_few_rounds_make_by_chance_is_none() -> None:
    """As many rounds as are asked for, and at every one of them it may have begun."""
    few = rounds(LEAST_BEFORE, 12) + rounds(LEAST_AFTER, 6)
    assert tally_of(few).collapse() is None
    assert tally_of(few + rounds(200, 0)).collapse() is not None
    assert tally_of(rounds(LEAST_BEFORE - 1, 20) + rounds(LEAST_AFTER - 1, 0)).collapse() is None, "too short"


def test_rounds_that_draft_nothing_are_not_counted() -> None:
    tally = CollapseTally()
    for r in range(1, 201):
        tally.take(TokenPosition(0, r), 2 * r, int(r <= BEFORE), int(r <= BEFORE))
    assert tally.collapse() is None


def test_the_answer_in_hand_counts_and_the_tally_goes_on() -> None:
    tally = tally_of(rounds(BEFORE, 16) + rounds(40, 0))
    first = tally.collapse()
    assert first is not None
    for r in range(BEFORE + 41, BEFORE + 61):
        tally.take(TokenPosition(0, r), 2 * r, 0)
    later = tally.collapse()
    assert later is not None
    assert (later.at, later.after[1] - first.after[1]) == (first.at, 20)


def test_no_more_than_a_part_of_an_endless_answer_is_held() -> None:
    tally = tally_of(rounds(BEFORE, 16) + rounds(20_000, 2))
    collapse = tally.collapse()
    assert collapse is not None
    assert sum(n for _, n in (collapse.before, collapse.after)) < 2_000
