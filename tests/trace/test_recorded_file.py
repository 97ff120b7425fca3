"""The file that is recorded: what happens to it meanwhile is said, what is not ours stays, and a round is one write."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from specviz.events import FILE_RECORDS, Event, RoundEnd, RoundStart, Warn
from specviz.trace import Recorder, files, read_events
from specviz.trace import recorder as record_module
from specviz.trace.recorder import existing
from support.recordings import RECORDINGS
from support.traces import make_events, make_header

EVENTS = make_events(queries=1, new_tokens=30)
HALF = len(EVENTS) // 2


def removed(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("elsewhere.jsonl"))


def folder_removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def folder_renamed(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced(path: Path) -> None:
    path.unlink()
    path.write_text("years of work")


def renamed_over(path: Path) -> None:
    path.with_name("other").write_text("years of work")
    path.with_name("other").rename(path)


def truncated(path: Path) -> None:
    os.truncate(path, 500)


def added_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"hello\n")


def made_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HAPPENS: list[tuple[Callable[[Path], None], str]] = [
    (removed, "it was removed"),
    (renamed, "it was moved or renamed"),
    (folder_removed, "it was removed"),
    (folder_renamed, "it was moved or renamed"),
    (replaced, "another file was put in its place, which is left alone"),
    (renamed_over, "another file was put in its place, which is left alone"),
    (truncated, "somebody else changed it"),
    (added_to, "somebody else changed it"),
    (made_a_folder, "another file was put in its place, which is left alone"),
]
HAPPENED = pytest.mark.parametrize(("happens", "says"), HAPPENS, ids=[happens.__name__ for happens, _ in HAPPENS])


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything under a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@HAPPENED
@pytest.mark.parametrize("when", ["between rounds", "behind the last record"])
def test_what_becomes_of_the_file_meanwhile_is_a_problem(
    happens: Callable[[Path], None], says: str, when: str, tmp_path: Path
) -> None:
    """Told once; what lies there afterwards is what lay there, and of a file that was moved also the rest of it."""
    (tmp_path / "in").mkdir()
    warnings: list[Warn] = []
    recorder = Recorder(tmp_path / "in" / "run", on_problem=warnings.append)
    at = HALF if when == "between rounds" else len(EVENTS) - 1
    for event in EVENTS[:at]:
        recorder.write(event)
    assert recorder.problem is None
    happens(recorder.path)
    there = contents(tmp_path)
    for event in EVENTS[at:]:
        recorder.write(event)
    assert recorder.problem is not None
    assert recorder.problem.startswith(says)
    assert [(warn.code, says in warn.message) for warn in warnings] == [("trace_lost", True)]
    moved = {"in/elsewhere.jsonl", "elsewhere/run.sv.jsonl"}
    assert {name: data for name, data in contents(tmp_path).items() if name not in moved} == {
        name: data for name, data in there.items() if name not in moved
    }


def test_a_file_that_was_moved_holds_the_whole_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:HALF]:
        recorder.write(event)
    renamed(recorder.path)
    for event in EVENTS[HALF:]:
        recorder.write(event)
    assert read_events(tmp_path / "elsewhere.jsonl", check=True)[:-1] == EVENTS[:-1]


def test_a_file_that_goes_while_it_is_zipped_is_zipped_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The open file is read, so the zipped one is whole, and a foreign one of the plain name is not removed."""
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:-1]:
        recorder.write(event)
    real = os.fsync

    def meanwhile(fd: int) -> None:
        real(fd)
        replaced(tmp_path / "run.sv.jsonl")

    monkeypatch.setattr(record_module.os, "fsync", meanwhile)
    recorder.write(EVENTS[-1])
    assert recorder.path == tmp_path / "run.sv.jsonl.gz"
    assert read_events(recorder.path, check=True)[:-1] == EVENTS[:-1]
    assert (tmp_path / "run.sv.jsonl").read_text() == "years of work"


def test_a_file_that_goes_and_cannot_be_zipped_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:-1]:
        recorder.write(event)

    def full(_fd: int) -> None:
        (tmp_path / "run.sv.jsonl").unlink()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record_module.os, "fsync", full)
    recorder.write(EVENTS[-1])
    assert recorder.problem == "it was removed"
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_zipped_name_is_not_written_over(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:-1]:
        recorder.write(event)
    (tmp_path / "run.sv.jsonl.gz").write_text("years of work")
    recorder.write(EVENTS[-1])
    assert recorder.path == tmp_path / "run.sv.jsonl"
    assert read_events(recorder.path, check=True)[:-1] == EVENTS[:-1]
    assert (tmp_path / "run.sv.jsonl.gz").read_text() == "years of work"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_older_trace_stays_until_the_new_one_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk keeps it; a run that began takes both its names, so that NAME.gz is not another run."""
    older = Recorder(tmp_path / "run")
    older.write(EVENTS[0])
    older.close()
    before = (tmp_path / "run.sv.jsonl.gz").read_bytes()

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(record_module.os, "write", full)
        recorder = Recorder(tmp_path / "run")
        recorder.write(EVENTS[0])
        recorder.close()
        assert recorder.problem is not None
    assert contents(tmp_path) == {"run.sv.jsonl.gz": before}
    recorder = Recorder(tmp_path / "run")
    recorder.write(EVENTS[0])
    assert sorted(contents(tmp_path)) == ["run.sv.jsonl"]
    recorder.close()
    assert existing(tmp_path / "run") == tmp_path / "run.sv.jsonl.gz"


def test_what_killed_recorders_left_goes_with_the_next_of_that_name(tmp_path: Path) -> None:
    """Not what is young, held by somebody, or of another name."""
    old = time.time() - 3600
    left = [".run.sv.jsonl.0123abcd.new", ".run.sv.jsonl.gz.0123abcd.tmp", ".run.sv.jsonl.gz.4711.tmp"]
    stay = [".run.sv.jsonl.ff.new", ".other.sv.jsonl.ff.new", ".run.sv.jsonl.notes.new", ".run.sv.jsonl.ee.new"]
    for name in (*left, *stay):
        (tmp_path / name).write_bytes(b"{}")
        os.utime(tmp_path / name, (old, old))
    os.utime(tmp_path / stay[0])
    with (tmp_path / stay[-1]).open("rb") as held:
        files.hold(held.fileno())
        Recorder(tmp_path / "run").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stay)


# Writes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RECORDINGS))
def test_a_round_is_one_write(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every method that is bundled, with everything recorded: the disk is asked once, when a round has ended."""
    events = read_events(RECORDINGS[name])
    recorder, real = Recorder(tmp_path / "run"), os.write
    writes: list[int] = []
    monkeypatch.setattr(record_module.os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    n_rounds = 0
    n = 0  # warnings in the middle of a round, which are written at once
    for event in events:
        recorder.write(event)
        if isinstance(event, RoundStart):
            writes.clear()
            n = 0
        n += isinstance(event, Warn)
        if isinstance(event, RoundEnd):
            assert len(writes) == 1 + n
            n_rounds += 1
    assert n_rounds == sum(isinstance(event, RoundEnd) for event in events) > 0
    recorder.close()


# At once, because whoever follows the file waits for it; all others are part of a round and wait for its end.
AT_ONCE = {"Header", "Prefill", "RoundEnd", "Adapt", "Knob", "Warn", "Note", "FindingRecord", "Calibration", "End"}
AT_ONCE |= {"Reported", "Counted"}  # of other engines


def test_every_kind_of_record_waits_for_the_end_of_its_round_or_not() -> None:
    assert {kind.__name__ for kind in FILE_RECORDS if not kind.inside_round} == AT_ONCE


@pytest.mark.parametrize(
    "kind", [kind for kind in FILE_RECORDS if kind.inside_round], ids=lambda kind: str(kind.__name__)
)
def test_a_record_inside_a_round_is_not_written_by_itself(
    kind: type[Event], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    monkeypatch.setattr(Recorder, "_flush", lambda self: writes.append(len(self._waiting)))
    monkeypatch.setattr(record_module, "encode_lines", lambda events: b"\n" * len(events))
    recorder = Recorder(tmp_path / "run")
    recorder.write(make_header())
    writes.clear()
    for _ in range(5):
        recorder.write(kind(**{field.name: [] for field in msgspec.structs.fields(kind) if field.required}))
    assert writes == []
    recorder.write(Warn(code="x", message="y"))
    assert writes == [7]  # the header, five, and what does not wait
