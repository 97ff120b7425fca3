"""Recordings too big to be read first: the first rounds at once, all of them in a while, whatever goes wrong."""

import gzip
import time
from pathlib import Path

import pytest

from specviz.commands import Pause
from specviz.errors import SpecvizError, TraceError
from specviz.metrics import measure
from specviz.runlog.fold import fold
from specviz.sources import TraceFile, big_trace
from specviz.sources.big_trace import BigTrace, recording
from specviz.sources.live_run import IdleWords, LiveRun
from specviz.trace import index, read_events
from specviz.trace.recorder import Recorder
from specviz.view import Player
from support.recordings import RECORDINGS

PATH = RECORDINGS["code-specbranch"]
N = len([event for event in read_events(PATH) if event.__struct_config__.tag == "round_start"])


@pytest.fixture(autouse=True)
def everything_is_big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(big_trace, "BIG_PACKED", 0)
    monkeypatch.setattr(big_trace, "BIG", 0)
    monkeypatch.setattr(big_trace, "_FIRST_S", 0)
    monkeypatch.setattr(big_trace, "_SLICE_S", 0)


def opened(path: Path = PATH) -> LiveRun:
    live = LiveRun(recording(path), IdleWords("", ""), animate=False)
    live.tick(0.0)
    return live


def until_all_is_there(live: LiveRun) -> None:
    end = time.monotonic() + 60
    while live.filling is not None:
        assert time.monotonic() < end
        live.tick(time.monotonic())
        time.sleep(0.01)
    live.tick(time.monotonic())


def test_the_first_rounds_come_first_and_the_place_is_kept() -> None:
    live = opened()
    assert live.filling is not None
    assert 0 < len(live.run.rounds) < N
    assert live.run.end is None
    live.live_player.seek_index(1)
    before = live.live_player.cursor
    until_all_is_there(live)
    assert len(live.run.rounds) == N
    assert live.live_player.cursor == before
    assert live.run.end is not None
    live.close()


def test_with_its_index_all_of_it_is_there_at_once_with_its_numbers() -> None:
    live = opened()
    until_all_is_there(live)
    live.close()
    again = opened()
    assert again.filling is None
    assert len(again.run.rounds) == N
    known = again.live_player.builder.meter.metrics(again.run)
    assert known is not None
    assert dict(known) == dict(measure(read_events(PATH)))
    judgement = again.live_player.frame().judgement
    assert judgement == Player(fold(read_events(PATH)), animate=False).frame().judgement
    assert judgement.speed
    again.close()


def test_where_no_index_can_be_kept_a_temporary_one_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(index, "folder", lambda: tmp_path / "file" / "below")
    live = opened()
    until_all_is_there(live)
    assert len(live.run.rounds) == N
    live.close()


def test_where_none_can_be_made_the_rest_is_read_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(big_trace.sys, "executable", "/nowhere/python")
    live = opened()
    n = len(live.run.rounds)
    live.tick(1.0)
    assert n < len(live.run.rounds) + 1 <= N
    until_all_is_there(live)
    assert len(live.run.rounds) == N
    assert live.run.end is not None
    live.close()


def test_damage_in_the_middle_is_told_with_its_line(tmp_path: Path) -> None:
    lines = gzip.decompress(PATH.read_bytes()).splitlines(keepends=True)
    lines[-20] = b"{]\n"
    path = tmp_path / "bad.sv.jsonl"
    path.write_bytes(b"".join(lines))
    live = opened(path)
    end = time.monotonic() + 60
    while live.failed is None:
        assert time.monotonic() < end
        live.tick(time.monotonic())
    assert f"line {len(lines) - 19}" in live.failed
    live.close()


def test_what_still_grows_is_followed_and_what_is_none_is_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "grows")
    for event in read_events(PATH)[:40]:
        recorder.write(event)
    source = recording(recorder.path)
    assert isinstance(source, TraceFile)
    source.close()
    recorder.close()
    (tmp_path / "none.sv.jsonl").write_text("no trace")
    with pytest.raises(TraceError, match="not a specviz trace"):
        recording(tmp_path / "none.sv.jsonl")


def test_nothing_can_be_asked_of_it() -> None:
    source = BigTrace(PATH)
    with pytest.raises(SpecvizError, match=r"cannot 'pause'.*recording"):
        source.send(Pause())
    source.close()
    assert not list(index.folder().glob(".*.new"))
