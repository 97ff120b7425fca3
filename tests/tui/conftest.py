"""Recorded runs, made once; the terminal's own wishes (NO_COLOR, TEXTUAL_*) do not reach the tests."""

from pathlib import Path

import pytest

from trace_factory import write_trace
from tui_stage import recorded
from worked_trace import worked_events


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TEXTUAL_ANIMATIONS", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM", "TEXTUAL_FILTERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def chain_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("chain"), "chain", temperature=0.8, new_tokens=40, knob_at=5)


@pytest.fixture(scope="session")
def tree_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("tree"), "tree", shape="tree", temperature=0.7, new_tokens=32)


@pytest.fixture(scope="session")
def two_queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("two"), "two", queries=2, new_tokens=8)


@pytest.fixture(scope="session")
def case_d(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Case D of the specification, judged by hsd."""
    return write_trace(tmp_path_factory.mktemp("d") / "case-d", worked_events())
