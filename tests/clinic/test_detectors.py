"""Detectors that were written for planted faults, on the cases of one fault each."""

from pathlib import Path

import msgspec
import pytest

from specviz.events import Commit
from specviz.judge import Evidence, judge
from specviz.runlog.fold import Run
from specviz.trace import read_events
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


def test_a_template_left_out_is_told_by_turns_that_end_at_once() -> None:
    """A mark that ends any text says nothing of a template."""
    events = read_events(_folder(Case(6, 0, True)) / "run.sv.jsonl.gz")
    plain = [
        msgspec.structs.replace(event, texts=[text.replace("im_end", "endoftext") for text in event.texts])
        if isinstance(event, Commit)
        else event
        for event in events
    ]
    named = [[f.detector for f in judge(Evidence.of_run(Run().extend(all_of)))] for all_of in (events, plain)]
    assert ["template_left_out" in detectors for detectors in named] == [True, False]
