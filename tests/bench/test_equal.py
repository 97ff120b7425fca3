"""Equality of texts: counted per run, and the parting that is hardest to excuse is shown."""

import pytest

from specviz_lab.bench.measure import Sample
from specviz_lab.bench.statistics import check_equal, first_difference


@pytest.mark.parametrize(
    ("mine", "other", "at"),
    [([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([], [], None), ([1], [1, 2], 1), ([1, 2], [1], 1), ([0], [1], 0)],
)
def test_first_difference(mine: list[int], other: list[int], at: int | None) -> None:
    assert first_difference(mine, other) == at


def test_divergences_are_counted_and_the_one_with_the_largest_margin_is_kept() -> None:
    texts = {
        ("ref", 0): [1, 2, 3],
        ("ref", 1): [4, 5, 6],
        ("a", 0): [1, 2, 9],
        ("a", 1): [4, 8, 6],
        ("b", 0): [1, 2, 3],
        ("b", 1): [4, 5, 6],
        ("c", 0): [7],
        ("c", 1): [7],
    }
    names = ["ref", "a", "b", "c"]
    samples = [Sample(names.index(name), prompt, 0, 1.0, text) for (name, prompt), text in texts.items()]
    asked = []

    def margin(text: list[int]) -> float:
        asked.append(text)
        return float(text[-1])

    divergence = check_equal(names, ["ref", "ref", "ref", None], samples, [[50], [60]], margin)
    assert [(e.arm, e.n_equal, e.n) for e in divergence] == [("a", 0, 2), ("b", 2, 2)]
    worst = divergence[0].worst
    assert worst is not None
    assert (worst.prompt, worst.position, worst.token, worst.reference_token) == (1, 1, 8, 5)
    assert worst.margin == 4
    assert asked == [[50, 1, 2], [60, 4]]
    assert divergence[1].worst is None


def test_a_reference_that_was_not_measured_promises_nothing() -> None:
    assert check_equal(["a"], ["ar"], [Sample(0, 0, 0, 1.0, [1])], [[1]], lambda _: 0.0) == []
