"""Detectors that were written for planted faults, on the cases of one fault each."""

from pathlib import Path

import pytest

from specviz.judge import judge
from specviz_lab.clinic.case import Case, usual_folders
from specviz_lab.clinic.levels import evidence_of
from specviz_lab.clinic.score import answer_of


def _folder(case: Case) -> Path:
    return next(folder / case.name for folder in usual_folders() if (folder / case.name).is_dir())


@pytest.mark.parametrize(
    ("fault", "detector"),
    [
        (7, "counted_otherwise"),
        (8, "exact_match"),
        (9, "greedy_texts_part"),
        (11, "ruled_out"),
    ],
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_planted_fault_is_named_and_its_twin_is_not(fault: int, detector: str, seed: int) -> None:
    for case in (Case(fault, seed, True), Case(fault, seed, False)):
        answer = answer_of(case, "rounds", judge(evidence_of(_folder(case), "rounds")))
        assert (answer.detector, answer.fault) == ((detector, fault) if case.ill else ("", 0)), case.name
