"""Every command that takes a target or a draft model takes the same names, and refuses the same ones in the same words.

The commands come from the command tree: one that is added is held to it as well.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.conftest import Cli
from specviz.cli import group
from specviz.errors import ModelError
from specviz.local_models import found
from specviz.local_models.catalogue import KNOWN
from specviz.local_models.named import path_of
from specviz.local_models.store import stored
from support.models import build, save

ROLES = ("target", "draft")


def _commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that decodes, measures or trains, with the words that call it."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _commands(below, (*words, name))
    else:
        yield words, command


OPTIONS = {
    f"{' '.join(words)} {option.opts[0]}": (command, option)
    for words, command in _commands(group)
    for option in command.params
    if isinstance(option, click.Option) and option.name in ROLES
}
EVERY = pytest.mark.parametrize(("command", "option"), OPTIONS.values(), ids=OPTIONS.keys())
ABSENT = "./not-here"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Models by the names that commands take: a folder, one under the home, one of the store, one that a package brings
    and that has its target's tokenizer."""
    model = Path(save(build("llama", seed=1), tmp_path / "model"))
    lent = tmp_path / "lent"
    lent.mkdir()
    for file in ("config.json", "model.safetensors"):
        (lent / file).write_bytes((model / file).read_bytes())
    (lent / "drafts_for.json").write_text("{}")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "mine").symlink_to(model)
    monkeypatch.setenv("SPECVIZ_MODELS", str(tmp_path / "store"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(found, "brought", lambda: {"mine-draft": lent})
    monkeypatch.chdir(tmp_path)
    assert "mine" in stored()
    return {
        str(model): model,
        "model": Path("model"),
        os.path.join("~", "model"): model,
        "mine": stored()["mine"],
        "mine-draft": lent,
    }


def _taken(command: click.Command, option: click.Option, name: str) -> object:
    """What the command is given where that name is typed. Raises ModelError."""
    return option.process_value(click.Context(command), name)


def test_the_tree_holds_the_commands_that_are_known_to_take_both() -> None:
    """So that an empty tree, or options of another name, cannot pass for agreement."""
    both = {name.rpartition(" ")[0] for name in OPTIONS if name.endswith("--draft")}
    assert {"run", "tui", "web", "compare", "tune", "lab bench", "lab ablate", "train hrad"} <= both


@EVERY
def test_every_command_takes_every_name(command: click.Command, option: click.Option, names: dict[str, Path]) -> None:
    also = ["owner/name", *(["self:int4"] if option.name == "draft" else [])]
    assert all(_taken(command, option, name) == name for name in [*names, *also])


@EVERY
def test_every_command_refuses_the_same_in_the_same_words(
    command: click.Command, option: click.Option, names: dict[str, Path]
) -> None:
    known = next(iter(KNOWN))
    Path("empty").mkdir()
    Path("words.txt").write_text("no model")
    reasons = {
        ABSENT: "no such folder",
        "empty": "no config.json in it (it holds nothing)",
        "words.txt": "this file is not GGUF",
        known: f"it is not here yet; specviz models get {known} fetches it",
        "ollama:nobody/nothing": "no such model here",
    }
    for name, words in reasons.items():
        with pytest.raises(ModelError) as refused:
            _taken(command, option, name)
        assert str(refused.value).startswith(f"{option.opts[0]} {name}: {words}")
    if option.name == "draft":
        with pytest.raises(ModelError, match="did you mean 'self:int4'"):
            _taken(command, option, "self:in4")


@pytest.mark.parametrize("words", ["check", "models", "diagnose"])
def test_commands_that_look_at_models_find_them_by_the_same_names(cli: Cli, words: str, names: dict[str, Path]) -> None:
    for name in names:
        looked_at = [name] if words == "models" else ["mine", name]
        done = cli(words, *looked_at)
        assert done.code in (0, 1), done.err
        assert not done.err


def test_a_path_comes_before_a_model_of_that_name(names: dict[str, Path]) -> None:
    assert [path_of(name) for name in names] == list(names.values())
    Path("mine").mkdir()
    assert path_of("mine") == Path("mine")
    assert path_of("owner/name") is None


def test_the_target_itself_is_a_draft_model_everywhere(cli: Cli, names: dict[str, Path]) -> None:
    assert cli("check", "mine", "self:int4").code == 0
    assert "in four bits" in cli("models", "self:int4").out
