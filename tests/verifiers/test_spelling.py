"""Nodes that spell the same text are one place for a verifier."""

import pytest

from specviz.probability.draft import ROOT, Draft, Spelling


def draft(tokens: str, parents: tuple[int, ...], ids: tuple[int, ...] = (), unfed: int = 0, window: int = 0) -> Draft:
    """Point masses; the last `unfed` are not fed, the `window` before them are fed only."""
    n = len(tokens)
    order = ids or tuple(range(n))
    return Draft(tuple(map(int, tokens)), parents, order, n - unfed - window, n - unfed, row_of=(-1,) * n)


def test_two_chains_that_begin_alike() -> None:
    """Chains 5 6 and 5 7, fed level by level or chain by chain."""
    for d in (draft("5657", (-1, 0, -1, 2)), draft("5567", (-1, -1, 0, 1), ids=(0, 2, 1, 3))):
        spelling = Spelling(d)
        first, second = [i for i in range(4) if d.tokens[i] == 5]
        assert spelling.first(second) == first
        assert [d.tokens[i] for i in spelling.candidates(second)] == [6, 7]
        assert spelling.candidates(first) == spelling.candidates(second)


def test_same_token_after_other_texts_is_another_place() -> None:
    d = draft("5677", (-1, -1, 0, 1))
    spelling = Spelling(d)
    assert [spelling.first(i) for i in range(4)] == [0, 1, 2, 3]
    assert spelling.candidates(0) == (2,)


def test_alike_two_levels_deep() -> None:
    """5 6 1 and 5 6 2: the second 6 stands below the second 5."""
    d = draft("561562", (-1, 0, 1, -1, 3, 4))
    spelling = Spelling(d)
    assert spelling.first(4) == 1
    assert spelling.candidates(1) == (2, 5)


def test_candidates_come_in_id_order() -> None:
    d = draft("5678", (-1, -1, -1, -1), ids=(9, 4, 7, 1))
    assert Spelling(d).candidates(ROOT) == (3, 1, 2, 0)


def test_candidates_of_several_nodes_are_merged_by_id() -> None:
    """5 6 and 5 7, the second chain's leaf born first."""
    d = draft("5567", (-1, -1, 0, 1), ids=(0, 1, 3, 2))
    assert Spelling(d).candidates(0) == Spelling(d).candidates(1) == (3, 2)


def test_duplicated_siblings_are_each_a_candidate() -> None:
    d = draft("557", (-1, -1, 1))
    spelling = Spelling(d)
    assert spelling.candidates(ROOT) == (0, 1)
    assert spelling.candidates(0) == (2,)


@pytest.mark.parametrize(("window", "unfed"), [(1, 1), (0, 1)])
def test_a_fed_node_stands_for_an_unfed_one(window: int, unfed: int) -> None:
    """A branch token that spells what a fed node spells: the row is there, so the text goes on from it."""
    d = draft("55", (-1, -1), unfed=unfed, window=window)
    assert Spelling(d).first(1) == 0
    assert Spelling(d).candidates(ROOT) == ((1,) if window else (0, 1))


def test_fed_only_nodes_are_never_candidates() -> None:
    d = draft("56", (-1, 0), window=1)
    assert Spelling(d).candidates(0) == ()
