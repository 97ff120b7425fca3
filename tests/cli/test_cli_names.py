"""Names that the system refuses, too long or behind a closed door, are one line and exit code 2 in every command."""

import builtins
import io
import os
from pathlib import Path

import pytest

from cli.conftest import Cli
from cli.scripted import Script
from support.recordings import RECORDINGS

LONG = "n" * 256
COMMANDS: dict[str, tuple[str, ...]] = {
    "stats": ("stats", "PATH"),
    "stats of two": ("stats", "GOOD", "PATH"),
    "export --html": ("export", "--html", "PATH"),
    "export --html --out": ("export", "--html", "GOOD", "-o", "PATH"),
    "whatif --sweep": ("whatif", "PATH", "--sweep", "specbound"),
    "whatif --sweep --write": ("whatif", "GOOD", "--sweep", "specbound", "--write", "PATH"),
    "whatif --sweep --heads": ("whatif", "GOOD", "--sweep", "specbound", "--heads", "PATH", "--alpha", "0.5"),
    "run --record": ("run", "--prompt", "x", "--record", "PATH"),
    "run --prompt-file": ("run", "--prompt-file", "PATH"),
    "run --stream": ("run", "--stream", "PATH"),
    "run --target": ("run", "--prompt", "x", "--method", "ar", "--target", "PATH"),
    "run --draft": ("run", "--prompt", "x", "--draft", "PATH"),
    "tui --replay": ("tui", "--replay", "PATH"),
    "tui --record": ("tui", "--prompt", "x", "--record", "PATH"),
    "tui --target": ("tui", "--prompt", "x", "--target", "PATH"),
    "web --replay": ("web", "--replay", "PATH"),
    "web --record": ("web", "--prompt", "x", "--record", "PATH"),
    "web --target": ("web", "--prompt", "x", "--target", "PATH"),
    "models": ("models", "PATH"),
    "models convert": ("models", "convert", "PATH"),
    "check": ("check", "PATH", "PATH"),
}
EVERY = pytest.mark.parametrize("words", list(COMMANDS.values()), ids=list(COMMANDS))


def line_of(cli: Cli, words: tuple[str, ...], path: Path) -> str:
    places = {"PATH": path, "GOOD": RECORDINGS["code-specbound"]}
    line = cli(*[places.get(word, word) for word in words]).line
    assert path.name[:20] in line
    return line


@EVERY
@pytest.mark.parametrize(
    "name", [LONG, "é" * 200, f"{LONG}/{LONG}", f"{LONG}.sv.jsonl"], ids=["256", "bytes", "folder", "trace"]
)
def test_a_name_that_is_too_long(cli: Cli, words: tuple[str, ...], name: str, tmp_path: Path) -> None:
    line_of(cli, words, tmp_path / name)


@pytest.mark.parametrize("n", [200, 210, 230, 245, 250])
def test_a_trace_s_longest_name_counts(cli: Cli, monkeypatch: pytest.MonkeyPatch, n: int, tmp_path: Path) -> None:
    """It is longer while it is zipped: said before a model is loaded, or recorded."""
    script = Script().install(monkeypatch)
    done = cli("run", "--prompt", "x", "--record", tmp_path / ("n" * n))
    if n == 200:
        assert (done.code, len(list(tmp_path.iterdir()))) == (0, 1)
        return
    assert "File name too long; name another file" in done.line
    assert (script.loaded, list(tmp_path.iterdir())) == (None, [])


@EVERY
def test_a_folder_that_may_not_be_searched(
    cli: Cli, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "inside").mkdir()
    for name in ("stat", "lstat", "open", "scandir", "listdir", "mkdir"):
        monkeypatch.setattr(os, name, _closed(getattr(os, name), str(locked) + os.sep))
    for module in (io, builtins):
        monkeypatch.setattr(module, "open", _closed(open, str(locked) + os.sep))
    line = line_of(cli, words, locked / "inside")
    assert "ermission" in line


def _closed(real, prefix: str):  # type: ignore[no-untyped-def]
    def call(path=".", *args, **kwargs):  # type: ignore[no-untyped-def]
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(prefix):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return real(path, *args, **kwargs)

    return call
