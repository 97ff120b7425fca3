"""`specviz lab clinic score`: what is counted right, and the page of the recordings that come with specviz."""

from pathlib import Path

import pytest

from specviz.cli import main
from specviz.errors import SpecvizError
from specviz.events import RoundEnd
from specviz.judge import Finding
from specviz.metrics import measure
from specviz.trace import read_events
from specviz_lab.clinic.case import SEEDS, Case, cases_in, usual_folders
from specviz_lab.clinic.levels import evidence_of, looks_of, read_run
from specviz_lab.clinic.other_seeds import keep, kept_file, read_kept
from specviz_lab.clinic.page import page
from specviz_lab.clinic.public import GOOD, PublicAnswer, PublicCase, public_answers
from specviz_lab.clinic.score import Answer, Score, answer_of, answers

ILL, TWIN = Case(2, 0, True), Case(2, 0, False)


def _finding(fault: int, certainty: str = "sure") -> Finding:
    return Finding("rule", fault, "", "", certainty)  # type: ignore[arg-type]


def test_the_first_fault_that_is_named_is_the_answer() -> None:
    findings = [_finding(0), _finding(5, "cannot tell"), _finding(2, "likely"), _finding(14)]
    answer = answer_of(ILL, "rounds", findings)
    assert (answer.fault, answer.certainty, answer.further) == (2, "likely", (14,))
    assert answer.right


def test_a_fault_on_a_healthy_twin_is_wrong() -> None:
    named = answer_of(TWIN, "rounds", [_finding(2)])
    score = Score.of([answer_of(ILL, "rounds", [_finding(2)]), named])
    assert not named.right
    assert (score.precision, score.recall, score.n_sure_twins) == (0.5, 1.0, 1)


def test_a_silent_judge_has_no_precision() -> None:
    score = Score.of([answer_of(ILL, "rounds", []), answer_of(TWIN, "rounds", [])])
    assert (score.precision, score.recall, score.n_named) == (None, 0.0, 0)


def test_every_case_comes_with_specviz_in_little_room() -> None:
    there = [case for folder in usual_folders() for case, _ in cases_in(folder)]
    size = sum(path.stat().st_size for folder in usual_folders() for path in folder.rglob("*") if path.is_file())
    assert len(there) == len(set(there)) == 16 * len(SEEDS) * 2
    assert size <= 6_000_000


def test_a_history_and_totals_are_the_rounds_added_up() -> None:
    _, folder = next(cases_in(usual_folders()[0]))
    events = read_events(folder / "run.sv.jsonl.gz")
    measured, looks = measure(events), looks_of(read_run(folder / "run.sv.jsonl.gz"))
    drafting = sum(isinstance(event, RoundEnd) and event.n_drafted > 0 for event in events)
    assert (looks[0].n_rounds, looks[0].n_drafted, looks[0].n_accepted) == (0, 0, 0)
    assert (looks[-1].n_rounds, looks[-1].n_drafted, looks[-1].n_accepted) == (
        drafting,
        measured.n_drafted,
        measured.n_accepted,
    )
    assert len(looks) > 2
    assert evidence_of(folder, "totals").counts[0].picture.n_rounds == drafting < measured.n_rounds


def test_the_page_is_that_of_the_recordings() -> None:
    """Whoever changes a detector writes it anew: specviz lab clinic score --page docs/clinic.md."""
    written = (Path(__file__).parents[2] / "docs" / "clinic.md").read_text(encoding="utf-8")
    kept = read_kept(kept_file())
    assert page(answers(usual_folders()), public_answers(usual_folders()), kept) == written


def test_scores_of_other_seeds_are_kept_and_seen_only_once(tmp_path: Path) -> None:
    def of_seed(seed: int, named: int) -> list[Answer]:
        return [answer_of(Case(2, seed, ill), "history", [_finding(named)] if ill else []) for ill in (True, False)]

    path = tmp_path / "seeds.json"
    keep(path, of_seed(7, 0), unseen=True)
    with pytest.raises(SpecvizError, match="seed 7 already"):
        keep(path, of_seed(7, 2) + of_seed(8, 2), unseen=True)
    for named in (5, 2):
        keep(path, of_seed(7, named), unseen=False)
    first, again = read_kept(path)
    assert (first.unseen, first.levels["history"].score.n_right, first.levels["history"].silent) == (
        True,
        0,
        ["02-ill-7"],
    )
    assert (again.unseen, again.levels["history"].score.n_right, again.levels["history"].wrong) == (False, 1, [])
    assert "| 7 | unseen" in page([], [], [first])
    path.write_text("[{}]")
    with pytest.raises(SpecvizError, match="no file of scores"):
        read_kept(path)


@pytest.mark.parametrize("words", [["--keep"], ["FOLDER", "--unseen"], ["FOLDER", "--page", "x"]])
def test_other_seeds_are_a_folder_and_the_page_is_none(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "clinic", "score", *(str(tmp_path) if word == "FOLDER" else word for word in words)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_no_cases_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "clinic", "score", str(tmp_path)]) == 2
    assert "specviz lab clinic make" in capsys.readouterr().err


def test_public_cases_are_told_as_they_were_in_the_end() -> None:
    answers = public_answers(usual_folders())
    assert [a.case.thread for a in answers if a.verdict not in GOOD] == []
    assert [
        a.case.thread for a in answers if not a.case.faults and a.first and a.first.certainty != "cannot tell"
    ] == []


def test_a_doubt_about_the_wrong_fault_is_wrong() -> None:
    case = PublicCase("thread", "", (9,), (), None)
    assert PublicAnswer(case, _finding(9, "cannot tell")).verdict == "cannot tell"
    assert PublicAnswer(case, _finding(14, "cannot tell")).verdict == "wrong"
    assert PublicAnswer(case, _finding(14)).verdict == "wrong"
    assert PublicAnswer(case, None).verdict == "silent"
