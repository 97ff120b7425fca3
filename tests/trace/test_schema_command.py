"""`specviz doctor --schema`: a valid JSON Schema that takes what we write and refuses what we refuse."""

import json
from typing import Any

import jsonschema
import pytest

from specviz.cli import main
from specviz.cli.look.schema import schema
from specviz.events import NAMES, VERSION, encode
from support.traces import make_events

EVENTS = [
    event for shape in ("chain", "tree", "none") for event in make_events(shape=shape, temperature=1.0, knob_at=2)
]
Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize("record", [None, *NAMES])
def test_it_is_valid_draft_2020_12(record: str | None) -> None:
    document = schema(record)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["$id"] == f"urn:specviz:{record or 'trace'}:{VERSION[0]}.{VERSION[1]}"
    jsonschema.Draft202012Validator.check_schema(document)


def test_it_takes_every_line_we_write() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    one = {name: jsonschema.Draft202012Validator(schema(name)) for name in NAMES}
    for event in EVENTS:
        line: dict[str, Any] = json.loads(encode(event))
        one[line["ev"]].validate(line)
    for event in EVENTS[:12]:
        validator.validate(json.loads(encode(event)))


def test_it_refuses_what_the_reader_refuses() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    commit = {"ev": "commit", "tokens": [1], "texts": ["a"], "kinds": ["accepted"], "n": 3}
    assert validator.is_valid(commit)
    assert not validator.is_valid({**commit, "kinds": ["maybe"]})
    assert not validator.is_valid({**commit, "n": "three"})
    assert not validator.is_valid({key: value for key, value in commit.items() if key != "tokens"})
    assert not validator.is_valid({**commit, "ev": "premonition"})


def test_the_command_prints_it(capsys: Captured) -> None:
    assert main(["doctor", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema()))
    assert main(["doctor", "--schema", "round_end"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(schema("round_end")))


def test_the_list_names_every_record_with_its_first_line(capsys: Captured) -> None:
    assert main(["doctor", "--schema", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(NAMES)
    assert "round_end    file  Counts and times of a round." in lines
    assert all(len(line.split(maxsplit=2)) == 3 for line in lines), "every record has a docstring"


def test_an_unknown_record_is_answered_by_the_nearest(capsys: Captured) -> None:
    assert main(["doctor", "--schema", "comit"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "specviz: no record 'comit'; did you mean 'commit'?\n"
