"""The command line itself: what is imported when, and what every kind of ending looks like."""

import errno
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import specviz
from cli.conftest import Cli
from specviz import cli as command_line
from specviz.cli import COMMANDS, HOMES, OLD_NAMES, Terminated, group
from specviz.errors import SpecvizError


def _raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `specviz doctor` end in `error`."""

    def fail() -> None:
        raise error

    fake = click.Command("doctor", callback=fail)
    monkeypatch.setattr(command_line.LazyGroup, "get_command", lambda self, ctx, name: fake)


def test_help_lists_all_commands_and_imports_none() -> None:
    code = "import sys, json, specviz.cli as c; c.main(['--help']); print(json.dumps(sorted(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    *text, modules = out.splitlines()
    assert [line for name in COMMANDS for line in text if line.startswith(f"  {name} ")]
    loaded = set(json.loads(modules))
    assert not loaded & set(HOMES.values())
    assert not loaded & {"torch", "transformers", "textual", "numpy", "rich", "msgspec"}


@pytest.mark.parametrize(("name", "extra"), [("train", "train"), ("lab", "lab")])
def test_a_command_of_an_extra_says_what_to_install(
    name: str, extra: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = HOMES[name].partition(".")[0]
    for loaded in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    done = cli(name)
    assert (done.code, done.line) == (
        2,
        f"this command uses {package}, which is not installed; it needs the extra '{extra}': "
        f"pip install 'specviz-llm[{extra}]'",
    )


def test_without_a_command_help_is_shown(cli: Cli) -> None:
    assert cli().out == cli("--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_list_is_there_and_has_help(name: str, cli: Cli) -> None:
    done = cli(name, "--help")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: specviz {name}")


@pytest.mark.parametrize(("old", "new"), [(old, " ".join((new, *front))) for old, (new, front) in OLD_NAMES.items()])
def test_an_old_name_goes_on_says_the_new_one_and_stands_in_no_help(old: str, new: str, cli: Cli) -> None:
    before, now = cli(*old.split(), "--help"), cli(*new.split(), "--help")
    assert (before.code, before.out) == (0, now.out)
    assert before.err == f"specviz: '{old}' is now '{new}'; the old name goes with the next version\n"
    assert old not in COMMANDS
    assert not [line for line in cli("--help").out.splitlines() if line.startswith(f"  {old} ")]


@pytest.mark.parametrize("name", ["bench", "ablate", "prove", "papers"])
def test_the_lab_has_commands_of_its_own(name: str, cli: Cli) -> None:
    assert cli("lab", name, "--help").out.startswith(f"Usage: specviz lab {name}")


def test_version(cli: Cli) -> None:
    assert cli("--version").out == f"specviz {specviz.__version__}\n"


def test_an_unknown_command_names_the_nearest(cli: Cli) -> None:
    assert cli("rum").line == "no command 'rum'; did you mean 'run'? (see specviz --help)"


def test_an_unknown_option_names_the_nearest(cli: Cli) -> None:
    line = cli("run", "--gama", "3").line
    assert "--gama" in line
    assert "--gamma" in line


def test_whatever_a_message_holds_it_is_one_safe_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, SpecvizError("no folder\n  called \x1b[31mred\u202e"))
    assert cli("doctor").line == "no folder called ⟨1B⟩[31mred⟨202E⟩"


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (click.Abort(), 130), (Terminated(), 143), (BrokenPipeError(), 141)],
    ids=lambda value: type(value).__name__,
)
def test_endings_that_are_nobody_s_mistake_are_quiet(
    error: BaseException, code: int, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _raising(monkeypatch, error)
    done = cli("doctor")
    assert (done.code, done.out, done.err.strip()) == (code, "", "")


def test_an_output_without_room_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, OSError(errno.ENOSPC, "no room"))
    assert cli("doctor") == (1, "", "specviz: cannot write the output: no room\n")
    _raising(monkeypatch, PermissionError(errno.EPERM, "a bug"))
    with pytest.raises(PermissionError):
        cli("doctor")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libtorch.so: failed to map segment from shared object: Cannot allocate memory"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_too_little_memory_is_one_line(error: Exception, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, error)
    assert cli("doctor") == (
        1,
        "",
        "specviz: out of memory; smaller models, a shorter prompt or fewer new tokens need less\n",
    )
    _raising(monkeypatch, ImportError("a bug"))
    with pytest.raises(ImportError, match="a bug"):
        cli("doctor")


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-", "2>&-", "> /dev/full 2>&1"])
def test_streams_that_cannot_be_written_end_without_a_traceback(redirect: str) -> None:
    if "full" in redirect and not Path("/dev/full").exists():
        pytest.skip("needs the device that is always full")
    shell = f"{shlex.quote(sys.executable)} -m specviz --help {redirect}"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": ""}  # "": as if it were not set
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == (1 if "full" in redirect else 0)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_closed_standard_input_is_an_empty_one() -> None:
    """As `specviz run - <&-` of a shell."""
    shell = f"{shlex.quote(sys.executable)} -m specviz run - <&-"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("specviz: the prompt from - is empty")


def test_a_zero_byte_in_an_argument_is_one_line(cli: Cli) -> None:
    assert "holds a zero byte" in cli("stats", "a\0b").line
    assert "holds a zero byte" in cli("run", "--prompt", "a\0b").line


@pytest.mark.parametrize(("module", "extra"), [("torch", "engine"), ("textual", "tui"), ("plotly.express", "web")])
def test_a_missing_extra_is_answered_with_its_install_line(
    module: str, extra: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    _raising(monkeypatch, ModuleNotFoundError(f"No module named '{module}'", name=module))
    assert cli("doctor").line.endswith(f"pip install 'specviz-llm[{extra}]'")


def test_a_module_of_no_extra_is_a_bug_and_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raising(monkeypatch, ModuleNotFoundError("No module named 'specviz.gone'", name="specviz.gone"))
    with pytest.raises(ModuleNotFoundError):
        cli("doctor")


def test_the_exit_codes_in_the_help_are_those_in_the_code() -> None:
    codes = (command_line.OK, command_line.FAILED, command_line.BAD_INPUT, command_line.INTERRUPTED)
    for code in (*codes, command_line.CLOSED_PIPE, command_line.TERMINATED):
        assert f" {code} " in f" {group.help} ".replace("\n", " ")


def test_public_names_resolve_to_what_their_home_calls_them() -> None:
    for name in specviz.__all__:
        assert getattr(specviz, name) is not None
    assert set(specviz.__all__) <= set(dir(specviz))
    with pytest.raises(AttributeError, match="no attribute 'sesion'"):
        specviz.sesion  # noqa: B018
