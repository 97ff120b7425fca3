"""Controls: careless readings of what is not on record must be caught, or the tests of the careful one prove nothing.

A table model is recorded with everything and with little of it. What the full record tells is the truth; of the other
a decision may tell less, and never something else. With one completion in place of all, or with the rest of a row left
out, something else is told.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from specviz.runlog.fold import Run
from specviz.whatif import Change, Decision, checked, decide
from specviz.whatif import again as again_module
from specviz.whatif.complete import SmallRound, completions
from specviz.whatif.recorded import PartialRow
from support.traces import make_events

RULES = ("blockwise", "walk", "tokenwise", "hsd_naive")


def decisions(level: str, seed: int, verifier: str) -> Iterator[Decision]:
    run = Run().extend(make_events(temperature=1.3, seed=seed, new_tokens=60, level=level, noise=1.2))
    assert run.header is not None
    for record in run.rounds:
        yield decide(run, record, checked(run.header, Change(verifier=verifier)))


def wrong() -> tuple[int, int]:
    """Rounds that the poor record tells, and those of them that the rich one tells otherwise."""
    n_told = n_wrong = 0
    for seed in range(3):
        for verifier in RULES:
            for little, whole in zip(
                decisions("summary", seed, verifier), decisions("full", seed, verifier), strict=True
            ):
                if whole.now is not None and little.now is not None:
                    n_told += 1
                    n_wrong += little.now.marks != whole.now.marks
    return n_told, n_wrong


def test_what_a_poor_record_tells_a_rich_one_tells_too() -> None:
    n_told, n_wrong = wrong()
    assert n_told > 50
    assert n_wrong == 0


@pytest.mark.parametrize("which", [0, -1])
def test_one_completion_in_place_of_all_is_caught(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    def one(*args: object) -> SmallRound:
        small = completions(*args)  # type: ignore[arg-type]
        return replace(small, drafts=(small.drafts[which],), rows=(small.rows[which],))

    monkeypatch.setattr(again_module, "completions", one)
    assert wrong()[1] > 0


def test_a_row_without_its_rest_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(self: PartialRow) -> float:
        return 0.0

    monkeypatch.setattr(PartialRow, "rest", property(careless))
    assert wrong()[1] > 0
