"""A draft model that takes its target's embedding, head and tokenizer is one for every command that asks for one."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from cli.conftest import Cli
from specviz import model_folder
from specviz.cli import group
from support.models import build, save

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("--prompt", "x"),
    "tui": ("--prompt", "x"),
    "web": ("--prompt", "x", "--port", "0"),
    "compare": ("--limit", "1"),
    "tune": ("--limit", "1"),
    "train hrad": ("--out", "OUT"),
    "lab bench": ("--limit", "1"),
    "lab ablate": ("--limit", "1"),
}


def _commands(command: click.Command, ctx: click.Context, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Names of those that take a draft model."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            if inner is not None:
                yield from _commands(inner, click.Context(inner, parent=ctx, info_name=name), (*path, name))
    elif any("--draft" in option.opts for option in command.params):
        yield " ".join(path)


def test_they_are_all_here() -> None:
    assert set(_commands(group, click.Context(group))) == set(COMMANDS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a draft model that was made for another one."""
    root = tmp_path_factory.mktemp("models")
    target, draft = root / "target", root / "draft"
    save(build("llama", seed=1), target)
    save(build("llama", seed=1), draft)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (draft / name).unlink()
    facts = {"ends": "target", "target": "0" * 16, "target_name": "another"}
    (draft / model_folder.BORROWS).write_text(json.dumps(facts), encoding="utf-8")
    return target, draft


@pytest.mark.parametrize("command", COMMANDS)
def test_it_needs_no_tokenizer_of_its_own(
    command: str, models: tuple[Path, Path], tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told is what the loader says of it: whose ends it takes, and that this target is another."""
    monkeypatch.setattr("specviz_app.launcher.serve", lambda *_: None)
    target, draft = models
    more = [str(tmp_path / "out") if word == "OUT" else word for word in COMMANDS[command]]
    done = cli(*command.split(), "--target", target, "--draft", draft, *more)
    assert "tokenizer" not in done.err
    if command == "web":
        assert done.code == 0
    elif command == "tui":
        assert "no terminal" in done.line
    else:
        assert "another" in done.err.splitlines()[-1], done


def test_models_says_what_it_is(models: tuple[Path, Path], cli: Cli) -> None:
    report = json.loads(cli("models", models[1], "--json").out)
    assert report["usable"]
    assert not report["missing"]
    assert "beside the target" in report["kind"]
