"""Recorded runs, made once; the terminal's own wishes (NO_COLOR, TEXTUAL_*) do not reach the tests."""

import os
from pathlib import Path

import pytest

from tui_stage import recorded


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name == "NO_COLOR" or name.startswith("TEXTUAL")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def chain_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("chain"), "chain", temperature=0.8, new_tokens=40, knob_at=5)


@pytest.fixture(scope="session")
def tree_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("tree"), "tree", shape="tree", temperature=0.7, new_tokens=32)


@pytest.fixture(scope="session")
def two_queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("two"), "two", queries=2, new_tokens=8)
