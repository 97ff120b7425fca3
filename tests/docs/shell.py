"""Lines of a shell block as words, and what a command line of `specviz` says without being run."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click
import pytest

from specviz.cli import group, main
from specviz.cli.options import given_knobs
from specviz.local_models import named
from specviz.methods import get_method

Pipeline = list[list[str]]


class Typed(NamedTuple):
    """A pipeline and the lines that the page says it prints."""

    pipeline: Pipeline
    printed: str


def pipeline(line: str) -> Pipeline:
    """The commands between bars, as words; comments left out."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|")
    reader.whitespace_split = True
    words: Pipeline = [[]]
    for word in reader:
        if word == "|":
            words.append([])
        else:
            words[-1].append(word)
    return [command for command in words if command]


def typed(text: str, prompt: str = "") -> list[Typed]:
    """The commands of a block. With a prompt (`$ `) other lines are what the command above them prints."""
    lines: list[Typed] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith(prompt):
            words = pipeline(line.removeprefix(prompt))
            lines += [Typed(words, "")] if words else []
        elif lines:
            lines[-1] = lines[-1]._replace(printed=lines[-1].printed + line + "\n")
        else:
            raise ValueError(f"'{line}' stands before any command")
    return lines


def parse(args: list[str], monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """Let the command line read `args` and stop before anything is done. Its options; knobs fit the method.

    Raises AssertionError for what the program would refuse.
    """
    seen: list[Mapping[str, Any]] = []
    invoke = click.Command.invoke

    def only_look(self: click.Command, ctx: click.Context) -> Any:
        if isinstance(self, click.Group):
            return invoke(self, ctx)
        seen.append(ctx.params)
        if "method" in ctx.params and args[0] in ("run", "tui", "web"):
            given_knobs(get_method(ctx.params["method"] or "draft"), ctx.params)
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(click.Command, "invoke", only_look)
        patch.setattr(named, "checked_path", lambda name, option: None)  # a page speaks of models that are not here
        assert main(args) == 0, args
    assert len(seen) == 1, f"{args} names no command"
    return seen[0]


def flags() -> dict[str, set[str]]:
    """Every option of every command, by the words that name the command."""
    by_command: dict[str, set[str]] = {}
    for name, command in _commands(group, ""):
        by_command[name] = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    return by_command


def _commands(of: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(of)
    for name in of.list_commands(ctx):
        command = of.get_command(ctx, name)
        assert command is not None
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")


def prints(promised: str, real: str) -> bool:
    """Whether `real` is what a page says is printed: `…` on a line of its own is any lines, times may differ."""
    pattern = ""
    for line in promised.splitlines():
        exact = re.escape(line.rstrip())
        pattern += (
            r"(?:.*\n)*?" if line == "…" else re.sub(r"(\\ )+(\d+|\\?\.\d+)\\ ms", r" +[\\d.,]+ ms", exact) + r" *\n"
        )
    return re.fullmatch(pattern, real.rstrip() + "\n") is not None
