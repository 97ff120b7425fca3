"""Which methods can run with a loaded pair: what the others lack is said, with a command that the program knows."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from specviz.cli import group
from specviz.commands import Start
from specviz.engine.model.files.loading import fingerprint
from specviz.engine.run.local import LocalRun, Pair, load_pair
from specviz.engine.run.worker import WorkerLoop
from specviz.errors import ModelError
from specviz.events import Catalogue, Event, Missing, decode, encode
from specviz.methods import all_methods
from specviz.methods.common.missing import missing, missing_part
from support.models import build, save

PARTED = [method.name for method in all_methods().values() if method.part is not None]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A target of one's own with nothing beside it, and no draft model."""
    folder = save(build("llama", seed=1), tmp_path_factory.mktemp("my models") / "target")
    return load_pair(folder, needs_draft=False, dtype="float32", threads=1)


@pytest.fixture(scope="module")
def embedded() -> Pair:
    return load_pair(threads=1)


def _folder(pair: Pair) -> Path:
    return Path(str(pair.target.adapter.model.name_or_path))


def _lacking(pair: Pair) -> dict[str, Missing]:
    catalogue: Catalogue = WorkerLoop(pair, lambda event: None).catalogue()
    assert [info.name for info in catalogue.methods] == list(all_methods())  # none is left out without a word
    return {info.name: info.missing for info in catalogue.methods if info.missing is not None}


def test_a_method_is_said_to_lack_something_exactly_where_it_cannot_start(own: Pair, embedded: Pair) -> None:
    for pair in (own, embedded):
        lacking = _lacking(pair)
        for name in all_methods():
            start = Start(prompt="ab ab", method=name, knobs={"max_new_tokens": 2}, level="none")
            if name in lacking:
                with pytest.raises(ModelError):
                    LocalRun(pair, start, lambda event: None)
            else:
                LocalRun(pair, start, lambda event: None)
        assert lacking  # no pair here has everything: this test does see a refusal


def test_the_embedded_pair_lacks_medusa_heads_alone(embedded: Pair) -> None:
    (lacking,) = _lacking(embedded).items()
    assert lacking[0] == "medusa"
    assert lacking[1].text == (
        "no set of Medusa heads for the target pair/target: specviz train medusa, then give --drafter medusa"
    )


@pytest.mark.parametrize("name", PARTED)
def test_the_command_is_one_that_the_program_has(own: Pair, embedded: Pair, name: str) -> None:
    """Every option of it is known: `--help` behind it is answered."""
    part = all_methods()[name].part
    assert part is not None
    lines = [
        part.command(target, folder, there)
        for target, folder in ((None, False), ("a b/t", True), ("o/t", False))
        for there in (False, True)
    ]
    lacking = missing(all_methods()[name], own)
    assert lacking is not None
    for line in [*lines, lacking.command]:
        for one in line.split(" && "):
            words = shlex.split(one)
            assert words[0] == "specviz"
            done = CliRunner().invoke(group, [*words[1:], "--help"])
            assert done.exit_code == 0, done.output
            assert all(word in done.output for word in words if word.startswith("--"))


def test_a_part_trained_as_told_is_found_where_it_was_put(own: Pair) -> None:
    """The folder that the command names is the one looked at."""
    part = all_methods()["medusa"].part
    assert part is not None
    adapter = own.target.adapter
    lacking = missing_part(part, adapter)
    assert lacking is not None
    assert lacking.then == ""
    assert f"--out '{_folder(own)}/medusa'" in lacking.command  # quoted: there is a space in it
    folder = _folder(own) / "medusa"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"target": "0" * 32}))
    assert missing_part(part, adapter) is not None  # another target's
    (folder / "config.json").write_text("{")
    assert missing_part(part, adapter) is not None
    (folder / "config.json").write_text(json.dumps({"target": fingerprint(adapter)}))
    assert missing_part(part, adapter) is None


def test_a_drafter_without_its_tree_asks_for_the_tree_alone(embedded: Pair, tmp_path: Path) -> None:
    part = all_methods()["static_tree"].part
    assert part is not None
    assert part.command(None, False, there=True) == "specviz train static-tree"
    assert (
        part.command("t", True)
        == "specviz train eagle3 --target t --out t/eagle3 && specviz train static-tree --target t"
    )
    assert missing_part(part, embedded.target.adapter) is None


def test_a_part_named_by_hand_makes_the_method_one_that_runs(own: Pair) -> None:
    catalogue = WorkerLoop(own, lambda event: None).catalogue()
    why = catalogue.lacks("eagle3", {})
    assert why is not None
    assert why.startswith("eagle3 cannot run here: no EAGLE-3 drafter for the target")
    assert catalogue.lacks("eagle3", {"drafter": ["some/folder"]}) is None
    assert catalogue.lacks("draft", {"drafter": ["some/folder"]}) is not None  # a second model is no such part
    assert catalogue.lacks("ngram", {}) is None
    assert catalogue.lacks("no such method", {}) is None  # the core says that


def test_the_reason_goes_over_the_wire(own: Pair) -> None:
    sent: Event = WorkerLoop(own, lambda event: None).catalogue()
    got = decode(encode(sent))
    assert isinstance(got, Catalogue)
    assert got == sent
    assert any(info.missing for info in got.methods)
