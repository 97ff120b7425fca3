"""Comments and docstrings name files that a reader has: pages and sources of this repository."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.pages import ROOT

FILE = re.compile(r"(?<![\w./*-])[\w][\w./-]*\.(?:md|py)\b(?!\w|\.\w)")
# Of other projects, or written by a user of ours.
ELSEWHERE = {"docs/gguf.md", "page.md"}


def _tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a checkout of git")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def _told(path: Path) -> Iterator[str]:
    """Docstrings and comments of a Python file; all of a file in another language."""
    text = path.read_text("utf-8")
    if path.suffix != ".py" or not FILE.search(text):
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def missing(path: Path, ends: set[str]) -> list[str]:
    """Files that `path` names and `ends`, every ending of every path of the repository, has not."""
    named = {name.removeprefix("./") for text in _told(path) for name in FILE.findall(text)}
    return sorted(named - ends - ELSEWHERE)


def test_a_missing_page_is_found(tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text(
        '"""As laws.md 3.2 says, `verifiers/walk.py` and docs/methods.md."""\nx = "not.md"  # see plan.py\n'
    )
    assert missing(source, {"verifiers/walk.py", "docs/methods.md"}) == ["laws.md", "plan.py"]


def test_what_is_named_is_in_the_repository() -> None:
    tracked = _tracked()
    ends = {"/".join(parts[start:]) for name in tracked for parts in [name.split("/")] for start in range(len(parts))}
    kinds = {".py", ".c", ".h", ".js", ".css", ".tcss", ".toml", ".sh"}
    lost_names = {name: lost for name in tracked if Path(name).suffix in kinds and (lost := missing(ROOT / name, ends))}
    assert not lost_names, lost_names
