"""`specviz lab clinic make`: what is planted shows in the run, and only there."""

from pathlib import Path

import pytest

from specviz.check.findings import FAULTS
from specviz.cli import main
from specviz.metrics import measure
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.view.clinic.played import pair_in
from specviz_lab.clinic.case import SEEDS, Case, fault_modules, wanted_cases

RUN = "run.sv.jsonl.gz"


def _made(folder: Path, fault: int, seed: int = 0) -> tuple[Path, Path]:
    """The planted case and its twin."""
    assert main(["lab", "clinic", "make", "--fault", str(fault), "--seed", str(seed), "--out", str(folder)]) == 0
    return folder / Case(fault, seed, True).name, folder / Case(fault, seed, False).name


def test_every_fault_of_the_list_has_a_plant_and_a_twin() -> None:
    assert sorted(fault_modules()) == list(range(1, len(FAULTS) + 1))
    assert len(wanted_cases(None, None)) == len(FAULTS) * len(SEEDS) * 2
    for fault, module in fault_modules().items():
        assert module.PLANT, fault


def test_half_of_the_seeds_set_thresholds_and_the_others_score() -> None:
    sets = [case for case in wanted_cases(None, None) if case.sets]
    assert 2 * len(sets) == len(wanted_cases(None, None))
    assert {case.fault for case in sets} == set(range(1, len(FAULTS) + 1))


@pytest.mark.parametrize("fault", [3, 4, 5, 8, 10])
def test_a_plant_lowers_what_is_kept(tmp_path: Path, fault: int) -> None:
    ill, well = (measure(read_events(folder / RUN)).test_acceptance_rate for folder in _made(tmp_path, fault, 2))
    assert ill is not None
    assert well is not None
    assert ill.interval[1] < well.interval[0]


def test_a_threshold_above_all_drafts_nothing(tmp_path: Path) -> None:
    ill, well = (measure(read_events(folder / RUN)).n_drafted for folder in _made(tmp_path, 15))
    assert ill == 0 < well


def test_a_report_of_other_counts_is_no_count_of_the_rounds(tmp_path: Path) -> None:
    for folder, same in zip(_made(tmp_path, 7), (False, True), strict=True):
        run = Run().extend(read_events(folder / RUN))
        assert (run.reported[0].n_accepted == measure(read_events(folder / RUN)).n_accepted) is same


def test_two_tokenizers_stand_beside_the_run_where_they_are_the_fault(tmp_path: Path) -> None:
    for folder, same in zip(_made(tmp_path, 5), (False, True), strict=True):
        codes = {finding.code for finding in pair_in(folder / "files.tar.gz").pairs[0].findings}
        assert ("tokenizer-differs" not in codes) is same


def test_no_such_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "clinic", "make", "--fault", "17", "--out", str(tmp_path)]) == 2
    assert "17" in capsys.readouterr().err
