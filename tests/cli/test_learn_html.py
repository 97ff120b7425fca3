"""`specviz learn --html`: lessons as files."""

from itertools import pairwise
from pathlib import Path

import pytest

from cli.conftest import Cli
from specviz.sources.lesson_file import lesson_file_name
from specviz.sources.lessons import bundled_lessons


def test_a_lesson_is_written_as_a_page_and_not_over_another(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "lesson.html"
    done = cli("learn", "3", "--html", "--out", place)
    assert (done.code, done.out.strip()) == (0, str(place))
    assert bundled_lessons()["3-still-the-same-text"].title in place.read_text("utf-8")
    assert "there already" in cli("learn", "3", "--html", "--out", place).err
    assert cli("learn", "3", "--html", "--out", place, "--force").code == 0


def test_all_of_them_lead_from_one_to_the_next(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz.sources.lesson_file.lesson_page", lambda builder, script, beside: f"{beside}")
    assert cli("learn", "--html", "--out", tmp_path).code == 0
    names = [lesson_file_name(id) for id in bundled_lessons()]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for name, following in pairwise(names):
        assert following in (tmp_path / name).read_text("utf-8")
    assert (tmp_path / names[-1]).read_text("utf-8") == "None"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("3", "--html", "--teach"), "?teach=1"),
        (("3", "--out", "x"), "--html"),
        (("--html", "--out", "nowhere"), "nowhere"),
        (("33", "--html"), "33"),
    ],
)
def test_what_does_not_go_together_is_refused(cli: Cli, words: tuple[str, ...], message: str) -> None:
    done = cli("learn", *words)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
