"""What the recorder promises: whole lines, a hash, a zipped end, and never an exception into a run."""

import gzip
import hashlib
import os
from pathlib import Path

import msgspec
import pytest

from specviz.errors import TraceError
from specviz.events import Catalogue, End, Event, Header, Models, Note, RoundEnd, RoundStart, Warn, decode
from specviz.events.run import At
from specviz.trace import Recorder, Trace, read_events
from specviz.trace import recorder as record_module
from specviz.trace.recorder import pack
from support.traces import make_events

EVENTS = make_events(queries=2, temperature=0.7)


class Disk:
    """Stands in for `os.write`: takes `room` bytes, a little at a time, then says that it is full."""

    def __init__(self, room: int) -> None:
        self.room, self.real = room, os.write

    def write(self, fd: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(28, "No space left on device")
        count = self.real(fd, bytes(data[: min(self.room, 1000)]))
        self.room -= count
        return count


def record(path: Path, events: list[Event], **options: object) -> Recorder:
    recorder = Recorder(path, **options)  # type: ignore[arg-type]
    for event in events:
        recorder.write(event)
    return recorder


def test_end_counts_and_hashes_all_earlier_bytes(tmp_path: Path) -> None:
    data = gzip.decompress(record(tmp_path / "run", EVENTS).path.read_bytes())
    *earlier, last = data.splitlines(keepends=True)
    end = decode(last)
    assert isinstance(end, End)
    assert end.n_lines == len(earlier) == len(EVENTS) - 1
    assert end.sha256 == hashlib.sha256(b"".join(earlier)).hexdigest()
    ends = [event for event in EVENTS if isinstance(event, RoundEnd)]
    assert end.totals["n_queries"] == 2
    assert end.totals["n_rounds"] == len(ends)
    assert end.totals["n_emitted"] == sum(event.n_emitted for event in ends) == 48


def test_the_worker_s_own_totals_stay_and_ours_win(tmp_path: Path) -> None:
    events = [*EVENTS[:-1], End(reason="done", totals={"finish": "eos", "n_rounds": -1})]
    end = read_events(record(tmp_path / "run", events).path)[-1]
    assert isinstance(end, End)
    assert end.totals["finish"] == "eos"
    assert end.totals["n_rounds"] > 0


def test_while_recording_every_finished_round_is_in_the_plain_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for i, event in enumerate(EVENTS[:-1]):
        recorder.write(event)
        if isinstance(event, RoundEnd):
            assert recorder.path.read_bytes().count(b"\n") == i + 1
    assert recorder.path == tmp_path / "run.sv.jsonl"
    assert read_events(recorder.path) == EVENTS[:-1]
    recorder.close()


def test_numbers_are_given_anew_when_a_note_comes_between(tmp_path: Path) -> None:
    note = Note(text="look", at=At(r=1))
    written = read_events(record(tmp_path / "run", [*EVENTS[:9], note, *EVENTS[9:]]).path)
    assert [event.i for event in written] == list(range(len(EVENTS) + 1))
    assert msgspec.structs.replace(written[9], i=-1) == note
    assert EVENTS[9].i == 9, "the events that were handed in keep their numbers"


def test_levels_leave_records_out_and_the_header_says_so(tmp_path: Path) -> None:
    written = read_events(record(tmp_path / "run", EVENTS, level="none").path, check=True)
    assert not {type(e).__name__ for e in written} & {"Node", "Verify", "Closing", "Span", "Chain"}
    assert isinstance(written[0], Header)
    assert written[0].level == "none"
    lower = make_events(level="none")
    unchanged = read_events(record(tmp_path / "low", lower, level="full").path)[0]
    assert isinstance(unchanged, Header)
    assert unchanged.level == "none", "a level that was not recorded is not claimed"


def test_records_of_the_wire_never_reach_the_file(tmp_path: Path) -> None:
    events = [Catalogue(methods=[], verifiers=[], models=Models()), *EVENTS]
    assert len(read_events(record(tmp_path / "run", events).path)) == len(EVENTS)


def test_a_full_disk_is_told_once_and_what_was_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[Warn] = []
    recorder = Recorder(tmp_path / "run", on_problem=warnings.append)
    disk = Disk(room=30_000)
    monkeypatch.setattr(record_module.os, "write", disk.write)
    for event in EVENTS:
        recorder.write(event)
    assert recorder.problem == "No space left on device"
    assert [(warning.code, warning.message) for warning in warnings] == [
        ("disk_full", f"not recording to {tmp_path / 'run.sv.jsonl'}: No space left on device; the run goes on")
    ]
    assert recorder.path.stat().st_size == 30_000
    with Trace(recorder.path) as trace:
        kept = trace.poll()
        assert trace.torn
    assert kept == EVENTS[: len(kept)]
    assert len(kept) > 10


def test_a_disk_that_gets_room_again_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    disk = Disk(room=20_000)
    monkeypatch.setattr(record_module.os, "write", disk.write)
    half = len(EVENTS) // 2
    for event in EVENTS[:half]:
        recorder.write(event)
    assert recorder.problem is not None
    disk.room = 10**9
    for event in EVENTS[half:]:
        recorder.write(event)
    assert recorder.problem is None
    assert read_events(recorder.path, check=True)[:-1] == EVENTS[:-1]


def test_a_disk_full_for_too_long_is_given_up_without_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    disk = Disk(room=20_000)
    monkeypatch.setattr(record_module.os, "write", disk.write)
    monkeypatch.setattr(record_module, "_PATIENCE", 10_000)
    half = len(EVENTS) // 2
    for event in EVENTS[:half]:
        recorder.write(event)
    disk.room = 10**9
    for event in EVENTS[half:]:
        recorder.write(event)
    kept = read_events(recorder.path)
    assert kept == EVENTS[: len(kept)]
    assert recorder.problem is not None


def test_without_room_for_the_zip_the_plain_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:-1]:
        recorder.write(event)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record_module.os, "fsync", full)
    recorder.write(EVENTS[-1])
    assert recorder.path == tmp_path / "run.sv.jsonl"
    assert [path.name for path in tmp_path.iterdir()] == ["run.sv.jsonl"]
    assert read_events(recorder.path, check=True)[:-1] == EVENTS[:-1]


def test_an_unwritable_place_is_a_problem_not_an_exception(tmp_path: Path) -> None:
    warnings: list[Warn] = []
    recorder = record(tmp_path / "nowhere" / "run", EVENTS, on_problem=warnings.append)
    assert recorder.problem == "No such file or directory"
    assert len(warnings) == 1
    assert recorder.ended


def test_an_older_trace_is_replaced_only_by_a_run_that_began(tmp_path: Path) -> None:
    cut = record(tmp_path / "run", EVENTS[:20])
    cut.close()  # a recorder that is only forgotten still holds its file
    older = cut.path
    before = older.read_bytes()
    recorder = Recorder(older)
    recorder.close("error", "the model could not be loaded")
    assert older.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [older.name]
    record(tmp_path / "run", EVENTS)
    assert len(read_events(tmp_path / "run.sv.jsonl.gz")) == len(EVENTS)


def test_anything_but_a_trace_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("{}\n")
    with pytest.raises(TraceError, match=r"cannot record to .*notes.jsonl: it exists and is not a trace"):
        Recorder(tmp_path / "notes.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(TraceError, match="it is a folder"):
        Recorder(tmp_path / "folder.jsonl")
    assert (tmp_path / "notes.jsonl").read_text() == "{}\n"


def test_closing_without_an_end_writes_one_with_the_reason(tmp_path: Path) -> None:
    recorder = record(tmp_path / "run", EVENTS[:30])
    recorder.close("cancelled", "Ctrl-C")
    recorder.close("done")
    end = read_events(recorder.path)[-1]
    assert isinstance(end, End)
    assert (end.reason, end.message, end.q, end.r) == ("cancelled", "Ctrl-C", EVENTS[29].q, EVENTS[29].r)
    assert sum(isinstance(event, End) for event in read_events(recorder.path)) == 1


def test_nothing_is_written_behind_the_end(tmp_path: Path) -> None:
    recorder = record(tmp_path / "run", EVENTS)
    recorder.write(RoundStart(n=1, root=0, knob_version=0))
    assert len(read_events(recorder.path)) == len(EVENTS)


def test_packing_is_reproducible(tmp_path: Path) -> None:
    zipped = []
    for name in ("a", "b"):
        plain = tmp_path / f"{name}.sv.jsonl"
        plain.write_bytes(b'{"ev":"header"}\n' * 100)
        zipped.append(pack(plain).read_bytes())
    assert zipped[0] == zipped[1]


@pytest.mark.parametrize("content", [b"precious", gzip.compress(b"precious", mtime=0), b""])
def test_a_zipped_file_that_is_no_trace_is_not_replaced(tmp_path: Path, content: bytes) -> None:
    """The run's last act is to take the zipped name: what stands there counts from the start."""
    zipped = tmp_path / "data.jsonl.gz"
    zipped.write_bytes(content)
    with pytest.raises(TraceError, match="not a trace"):
        Recorder(tmp_path / "data.jsonl")
    assert zipped.read_bytes() == content
    assert os.listdir(tmp_path) == [zipped.name]


def test_a_pipe_of_that_name_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.jsonl")
    with pytest.raises(TraceError, match="no regular file"):
        Recorder(tmp_path / "run.jsonl")


def test_two_runs_do_not_share_a_file(tmp_path: Path) -> None:
    """The second is refused; when both were made before either wrote, the slower one says so and the first is whole."""
    warnings: list[Warn] = []
    first, second = Recorder(tmp_path / "run"), Recorder(tmp_path / "run", on_problem=warnings.append)
    half = len(EVENTS) // 2
    for event in EVENTS[:half]:
        first.write(event)
    with pytest.raises(TraceError, match="another run is recording"):
        Recorder(tmp_path / "run")
    for event in EVENTS:
        second.write(event)
    for event in EVENTS[half:]:
        first.write(event)
    assert ["another run" in warning.message for warning in warnings] == [True]
    assert len(read_events(first.path, check=True)) == len(EVENTS)
    assert os.listdir(tmp_path) == [first.path.name]
