"""`specviz tui` from the outside: bad input is one line and exit code 2, and the replay needs no engine."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.cli import main
from support.traces import make_events, make_header, write_trace

ROOT = Path(__file__).resolve().parents[2]
ROOTS = [ROOT, *(ROOT / name for name in ("tui", "app", "assets", "train", "lab"))]
HEAVY = {
    "torch",
    "transformers",
    "accelerate",
    "specviz.engine",
    "specviz.methods.draft_model.drafter",
    "specviz_train",
}


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """The command, or some code, in a fresh interpreter without a terminal."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
    what = ["-c", code] if code is not None else ["-m", "specviz", "tui", *arguments]
    return subprocess.run(
        [sys.executable, "-W", "error", *what],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def told(capsys: pytest.CaptureFixture[str], arguments: list[str], process: bool) -> tuple[int, str, list[str]]:
    """Exit code, standard output and lines of standard error of the command: in a process of its own, or in this."""
    if process:
        done = run(*arguments)
        return done.returncode, done.stdout, done.stderr.splitlines()
    code = main(["tui", *arguments])
    out, err = capsys.readouterr()
    return code, out, err.splitlines()


def cut_zip(folder: Path) -> Path:
    whole = write_trace(folder / "cut", make_events(new_tokens=40)).read_bytes()
    path = folder / "cut.sv.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    return path


def newer(folder: Path) -> Path:
    path = folder / "newer.sv.jsonl"
    header = make_header()
    from specviz.events import VERSION, encode

    path.write_bytes(encode(header).replace(b'"v":[%d,%d]' % VERSION, b'"v":[9,0]') + b"\n")
    return path


def foreign(folder: Path) -> Path:
    path = folder / "foreign.sv.jsonl.gz"
    path.write_bytes(gzip.compress(b"a,b,c\n1,2,3\n"))
    return path


def absent(folder: Path) -> Path:
    return folder / "absent.sv.jsonl"


@pytest.mark.parametrize(
    ("make", "word"), [(cut_zip, "ends early"), (newer, "9"), (foreign, "not a specviz trace"), (absent, "no trace")]
)
def test_a_bad_trace_is_one_line_and_code_2(
    make: Callable[[Path], Path], word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, (line,) = told(capsys, ["--replay", str(make(tmp_path))], process=make is cut_zip)
    assert (code, out) == (2, "")
    assert line.startswith("specviz: ")
    assert word in line


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "no terminal"),
        (["--replay", "x", "--gamma", "3"], "--replay"),
        (["--method", "drafft"], "did you mean 'draft'"),
        (["--method", "ngram", "--d-max", "3"], "--d-max"),
        (["--prompt", "a", "--gamma", "999"], "0..64"),
        (["--prompt-file", "-"], "keyboard"),
        (["--target", "/nowhere/at/all", "--draft", "/nowhere"], "no such folder"),
    ],
)
def test_a_bad_command_is_one_line_and_code_2(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, (line,) = told(capsys, arguments, process=not arguments)
    assert (code, out) == (2, "")
    assert word in line


REPLAY = """
import asyncio, json, sys
from specviz.cli.look import tui
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import Library

async def look(path):
    library = Library(animate=False)
    app = SpecvizApp(library, library.trace(path))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("]", "right_curly_bracket", "full_stop", "question_mark", "escape", "K", "right")
        await pilot.pause()
        return app.screen.frame.round

rounds = asyncio.run(look({path!r}))
print(json.dumps([rounds, sorted(sys.modules)]))
"""


def test_a_replay_imports_no_engine(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "a", make_events(temperature=0.8, new_tokens=40))
    done = run(code=REPLAY.format(path=str(path)))
    assert done.returncode == 0, done.stderr
    rounds, modules = json.loads(done.stdout)
    assert rounds >= 2
    assert "textual" in modules  # the look was real
    assert not HEAVY & set(modules)
