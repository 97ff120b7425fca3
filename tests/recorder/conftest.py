"""Recordings of engines that are not there: their modules are made, the plugin is the real one."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specviz_recorder import sglang, vllm
from specviz_recorder.sink import Sink


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where is recorded."""
    where = tmp_path / "run.sv.jsonl"
    monkeypatch.setenv("SPECVIZ_RECORD", str(where))
    return where


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, ModuleType]], None]]:
    """Puts modules where imports find them, for a test."""
    monkeypatch.setenv("SPECVIZ_RECORD_TEXT", "0")
    monkeypatch.setattr(vllm, "_hooks", {})
    monkeypatch.setattr(sglang, "_loaded", [])

    def install(modules: dict[str, ModuleType]) -> None:
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)

    yield install
    sinks: list[Any] = [*(hook.sink for hook in vllm._hooks.values()), *sglang._loaded]
    for sink in sinks:
        assert isinstance(sink, Sink)
        sink.close()
