"""What the recorder relies on: facts of engines, rules of specviz, its own file; and what it does without."""

import ast
import json
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

import specviz_recorder
from specviz.trace import RULES
from specviz_recorder import rules
from specviz_recorder.records import DraftToken, RunCard, ServedRequest, ServedRound
from specviz_recorder.signatures import differing, known_signatures
from specviz_recorder.sink import Sink
from specviz_recorder.switch import Switch
from specviz_recorder.vllm import v1, v2
from specviz_recorder.vllm.philox import uniforms
from support.recorder.reading import read
from support.wheels import engine_wheel
from tools.engine_signatures import FACTS, differences

HOME = Path(specviz_recorder.__file__).parent
CARD = RunCard("engine", "1", "one-hot", "", "ngram", "owner/target", "/home/somebody/models/draft")


def test_nothing_of_specviz_or_torch_is_imported() -> None:
    """But by `transformers.py`, which `specviz.trace.transformers` opens where both are there."""
    for path in {*HOME.rglob("*.py")} - {HOME / "transformers.py"}:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [name.name for name in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"specviz", "torch", "vllm", "sglang"}, path


@pytest.mark.parametrize("name", rules.RULES)
def test_rules_are_those_of_specviz(name: str) -> None:
    ours, theirs = rules.RULES[name], RULES[name]
    assert (ours.verifier, ours.promise, ours.how, ours.mode, ours.point_mass) == (
        theirs.verifier,
        theirs.promise,
        theirs.how,
        theirs.mode,
        theirs.point_mass,
    )
    assert msgspec.convert(ours.traits, type(theirs.traits)) == theirs.traits
    assert ours.ratio == theirs.tests_by_ratio


def test_hooks_rely_on_facts_alone() -> None:
    known = known_signatures("vllm").functions
    assert {*v1.SIGNATURES, *v2.SIGNATURES} <= known.keys()


def test_signatures_of_a_later_version_are_known_too(monkeypatch: pytest.MonkeyPatch) -> None:
    known = known_signatures("vllm")
    for functions in known.later.values():
        for place, names in functions.items():
            for wanted, fits in ((known.functions[place], True), (names, True), (names[:-1], False)):
                taking = eval(f"lambda {', '.join(wanted)}: None")
                monkeypatch.setattr("specviz_recorder.signatures.found_at", lambda _, taking=taking: taking)
                assert (differing("vllm", [place]) is None) == fits


def test_the_tool_sees_a_signature_that_changed(tmp_path: Path) -> None:
    """Followed to where it is defined, within a class and under a condition."""
    wheel = tmp_path / "some_engine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("some/__init__.py", "from some.inner import judge\n")
        packed.writestr(
            "some/inner.py", "if True:\n    def judge(a, /, b, *, c): ...\n\nclass Box:\n    def open(self): ...\n"
        )
    functions = {"some:judge": ["a", "b", "c"], "some.inner:Box.open": ["self"]}
    facts: dict[str, dict[str, object]] = {"some": {"package": "some-engine", "functions": functions}}
    assert not [*differences(wheel, facts)]
    functions["some:judge"].append("d")
    assert [*differences(wheel, facts)] == [f"{wheel.name}: some:judge takes (a, b, c), the facts say (a, b, c, d)"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_facts_are_those_of_the_wheel(engine: str) -> None:
    wheel = engine_wheel(known_signatures(engine))
    assert not [*differences(wheel, json.loads(FACTS.read_text()))]


def test_keyed_numbers_are_philox() -> None:
    """The known answer of Random123 for a counter and a key of zeros; all bits of seed and position count."""
    first = np.float32(0x6627E8D5) * np.float32(4.6566127342e-10)
    assert uniforms(np.array([0]), np.array([0]))[0] == first
    near = uniforms(np.array([0, 1, 1 << 33, 0, 0]), np.array([0, 0, 0, 1, 1 << 33]))
    assert len(set(near.tolist())) == 5
    many = uniforms(np.full(4000, 11), np.arange(4000))
    assert many.min() > 0
    assert many.max() < 1
    assert abs(many.mean() - 0.5) < 0.03  # 6.5 standard errors


class OneStep:
    """A step that gives one round."""

    def __init__(self, done: ServedRound) -> None:
        self._done = done

    def rounds(self) -> list[ServedRound]:
        return [self._done]


def a_round(request: str, t: int) -> ServedRound:
    """One drafted token that is kept, and a bonus."""
    return ServedRound(request, t, [DraftToken(5, -1, p=0.5, u=0.25)], [0], [5, 6])


def test_a_file_that_is_there_is_not_touched_and_folders_are_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.sv.jsonl").write_text("mine")
    sink = Sink(tmp_path / "run", lambda: CARD, Switch())
    sink.begin(ServedRequest("a", [1, 2]))
    sink.step(OneStep(a_round("a", 1)))
    sink.close()
    assert (tmp_path / "run.sv.jsonl").read_text() == "mine"
    assert sink.path == tmp_path / "run-2.sv.jsonl"
    assert sink.path.stat().st_mode & 0o777 == 0o600
    run = read(sink.path)
    assert run.end is not None
    assert run.header is not None
    assert [model.name for model in (run.header.models.target, run.header.models.draft) if model] == [
        "owner/target",
        "draft",
    ]


def test_requests_that_never_end_are_written_at_the_end(tmp_path: Path) -> None:
    sink = Sink(tmp_path / "run", lambda: CARD, Switch())
    for t in range(1, 9):
        for name in ("a", "b", "c"):
            sink.step(OneStep(a_round(name, t)))
    sink.close()
    assert sink.path is not None
    assert [query.n_rounds for query in read(sink.path).queries] == [8, 8, 8]


def test_a_disk_that_fails_turns_the_recorder_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    switch = Switch()
    sink = Sink(tmp_path / "file" / "run", lambda: CARD, switch)
    sink.step(OneStep(a_round("a", 1)))
    sink.close()
    assert not switch.on
    assert capsys.readouterr().err.count("turned off") == 1
