"""A file as a source: finished, growing, cut off."""

import os
from pathlib import Path

import pytest

from specviz.commands import Pause
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.sources import Source, TraceFile
from specviz.trace import Recorder
from support.traces import make_events, write_trace

EVENTS = make_events(shape="tree")


def test_a_finished_file_comes_in_one_poll(tmp_path: Path) -> None:
    source: Source = TraceFile(write_trace(tmp_path / "run", EVENTS))
    assert not source.ended
    assert source.poll()[:-1] == EVENTS[:-1]
    assert source.ended
    assert source.poll() == []
    source.close()


def test_a_growing_file_is_followed_through_its_renaming(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.write(EVENTS[0])
    source = TraceFile(tmp_path / "run.sv.jsonl")
    got: list[Event] = source.poll()
    for start in range(1, len(EVENTS), 7):
        assert not source.ended
        for event in EVENTS[start : start + 7]:
            recorder.write(event)
        got += source.poll()
    assert recorder.path.name == "run.sv.jsonl.gz"
    assert not (tmp_path / "run.sv.jsonl").exists()
    got += source.poll()
    assert got[:-1] == EVENTS[:-1]
    assert source.ended
    source.close()


def test_a_file_whose_recorder_is_gone_has_ended_without_an_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:40]:
        recorder.write(event)
    source = TraceFile(tmp_path / "run.sv.jsonl")
    source.poll()
    assert not source.ended
    assert recorder._fd is not None
    os.close(recorder._fd)  # as the system does when the process dies
    recorder._fd = None
    source.poll()
    assert source.ended
    assert source.trace.end is None
    source.close()


def test_a_file_takes_no_commands(tmp_path: Path) -> None:
    source = TraceFile(write_trace(tmp_path / "run", EVENTS))
    assert not source.live
    with pytest.raises(SpecvizError, match=r"cannot 'pause': .*run.sv.jsonl.gz is a recording"):
        source.send(Pause())
    source.close()
