"""A case of the clinic, played: evidence on demand, an answer, marks."""

import io

import pytest

from specviz.cli import main
from specviz.errors import SpecvizError
from specviz.view.clinic import HEALTHY, PlayedCase, read_case
from specviz.view.clinic.played import LEAVE_IT, N_STEPS, case_names


@pytest.fixture(scope="module")
def cases() -> dict[str, PlayedCase]:
    return {name: read_case(number) for number, name in enumerate(case_names(), 1)}


def test_every_case_that_comes_along_can_be_decided(cases: dict[str, PlayedCase]) -> None:
    assert {case.fault for case in cases.values()} == {HEALTHY, *range(1, 17)}
    for name, case in cases.items():
        assert case.symptom, name
        assert {exhibit.key for exhibit in case.exhibits} & set(case.decides), name
        assert len(set(case.steps)) == N_STEPS, name
        assert (case.steps[case.right_step] == LEAVE_IT) is (case.fault == HEALTHY), name
        assert LEAVE_IT in case.steps, f"{name}: where it is not offered the case is known to be ill"
        assert name.startswith(f"{case.fault:02d}-ill") is (case.fault != HEALTHY), name


def test_marks_tell_what_was_opened_and_a_false_alarm(cases: dict[str, PlayedCase]) -> None:
    case = cases["08-well-0"]
    with pytest.raises(SpecvizError, match="card"):
        case.open("cards")
    case.open("card")
    case.open("text")
    alarm, right = case.marks(8, case.right_step), case.marks(HEALTHY, (case.right_step + 1) % N_STEPS)
    assert (alarm.fault, alarm.step, alarm.false_alarm, alarm.opened) == (False, True, True, 2)
    assert alarm.words.endswith("opened: 2 · what decides it: how it ran (opened)")
    unopened = cases["06-ill-0"].marks(6, 0)
    assert "prompt and answer (not opened)" in unopened.words, "one learns where it stood"
    assert (right.fault, right.step, right.false_alarm) == (True, False, False)
    assert not cases["08-ill-0"].marks(3, 0).false_alarm, "another fault is no false alarm"
    assert "a false alarm" in alarm.words


def test_a_case_is_played_in_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    number = case_names().index("05-ill-0") + 1
    monkeypatch.setenv("COLUMNS", "80")
    typed = "files\nnonsense\n?\n99\n5\nx\n1\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert main(["learn", "clinic", str(number)]) == 0
    words = capsys.readouterr().out
    assert words.startswith(f"Case {number} of {len(case_names())}. Somebody posts: The draft model writes gibberish")
    assert max(map(len, words.replace("? ", "?\n").splitlines())) <= 80, "behind a question an answer is typed"
    words = " ".join(words.split())
    assert "id 300 is" in words
    assert "no exhibit 'nonsense'" in words
    assert "It was fault 5" in words
    assert "fault: right" in words


def test_no_such_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["learn", "clinic", "99"]) == 2
    assert "there are 1 to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["learn", "3", "4"], "specviz learn clinic 4"),
        (["learn", "clinic", "2", "--teach"], "takes none"),
    ],
)
def test_what_is_no_case_is_told(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert why in capsys.readouterr().err
