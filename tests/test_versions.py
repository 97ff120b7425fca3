"""The script that tries lowest versions reads every floor that pyproject.toml declares."""

import re
import tomllib

import pytest

from tools.check_versions import PYTHONS, ROOT, floors, pinned

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_requirement_has_a_floor() -> None:
    by_requirement = floors(PROJECT)
    extras = PROJECT["optional-dependencies"].values()
    named = {re.split(r"[><=\[]", line)[0].lower() for group in (PROJECT["dependencies"], *extras) for line in group}
    assert set(by_requirement) == named - {PROJECT["name"]}
    assert by_requirement["textual"] == "8.2.8"
    assert by_requirement["streamlit"] == "1.67"


@pytest.mark.parametrize("line", ["numpy", "numpy<3", "numpy~=2.0", "numpy>=1.26,<3"])
def test_one_without_a_plain_floor_is_told(line: str) -> None:
    with pytest.raises(ValueError, match="names no lowest version"):
        floors({"name": "x", "dependencies": [line]})


def test_the_tried_pythons_are_those_that_are_declared() -> None:
    declared = [
        classifier.rsplit(" ", 1)[1]
        for classifier in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d+$", classifier)
    ]
    assert list(PYTHONS) == declared
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_what_ci_installs_is_at_or_above_every_floor() -> None:
    constraints = (ROOT / "constraints.txt").read_text("utf-8")
    for name in [line.split("==")[0] for line in constraints.splitlines() if "==" in line]:
        pin, floor = (tuple(map(int, text.split("."))) for text in (pinned(constraints, name), floors(PROJECT)[name]))
        assert pin >= floor
