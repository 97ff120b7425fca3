"""Reading: round trip, seeking to a round, torn lines, growing files, and versions."""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specviz.cli import main
from specviz.errors import TraceError
from specviz.events import VERSION, Event, encode
from specviz.trace import Recorder, Trace, files, read_events
from specviz.trace import migrate as migrate_module
from support.traces import make_events, write_trace

EVENTS = make_events(shape="tree", queries=2, temperature=0.9, knob_at=3)
NOW = b'"v":[%d,%d]' % VERSION


def plain(path: Path, events: Sequence[Event], tail: bytes = b"") -> Path:
    """A plain file, as a recorder that was cut off leaves it."""
    path.write_bytes(b"".join(encode(event) + b"\n" for event in events) + tail)
    return path


def test_the_text_of_a_zipped_trace_is_told_once_while_it_is_read(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "run", EVENTS)
    lines: list[bytes] = []
    with Trace(path, unzipped=lines.append) as trace:
        trace.poll()
        assert trace.intact() is True  # reads it again
    assert b"".join(lines) == gzip.decompress(path.read_bytes())


@pytest.mark.parametrize("name", ["run", "run.sv.jsonl", "run.sv.jsonl.gz"])
def test_every_form_of_the_name_finds_the_file(tmp_path: Path, name: str) -> None:
    write_trace(tmp_path / "run", EVENTS)
    assert read_events(tmp_path / name)[:-1] == EVENTS[:-1]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_anywhere_gives_its_whole_lines(tmp_path: Path, data: st.DataObject) -> None:
    path = plain(tmp_path / "run.sv.jsonl", EVENTS[:50])
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    size = data.draw(st.integers(header, len(whole)))
    path.write_bytes(whole[:size])
    with Trace(path) as trace:
        got = trace.poll()
        assert got == EVENTS[: whole[:size].count(b"\n")]
        assert trace.torn == (whole[size - 1 : size] != b"\n")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pieces_that_arrive_one_by_one_add_up(tmp_path: Path, data: st.DataObject) -> None:
    whole = b"".join(encode(event) + b"\n" for event in EVENTS[:50])
    header = whole.index(b"\n") + 1
    cuts = sorted(data.draw(st.lists(st.integers(header, len(whole)), max_size=8)))
    path = tmp_path / "run.sv.jsonl"
    path.write_bytes(whole[:header])
    got: list[Event] = []
    with Trace(path) as trace:
        for stop in [*cuts, len(whole)]:
            path.write_bytes(whole[:stop])
            got += trace.poll()
        assert got == EVENTS[:50]


def test_an_end_without_its_newline_still_ends_the_run(tmp_path: Path) -> None:
    path = plain(tmp_path / "run.sv.jsonl", EVENTS)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    with Trace(path) as trace:
        assert trace.poll() == EVENTS
        assert trace.end is not None
        assert not trace.torn


def test_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = plain(tmp_path / "run.sv.jsonl", EVENTS[:5], b"\n\n")
    assert read_events(path) == EVENTS[:5]


def test_a_change_behind_the_recorder_s_back_is_seen(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    for event in EVENTS[:-1]:
        recorder.write(event)
    with Trace(recorder.path) as growing:
        assert growing.growing
        growing.poll()
        assert growing.intact() is None
    recorder.write(EVENTS[-1])
    path = tmp_path / "changed.sv.jsonl"
    with Trace(recorder.path) as trace:
        trace.poll()
        assert trace.intact() is True
        assert not trace.growing
        lines = [encode(event) for event in read_events(recorder.path)]
    lines[3] = lines[3].replace(b'"pos":', b'"pos": ')
    path.write_bytes(b"\n".join(lines) + b"\n")
    with Trace(path) as changed:
        changed.poll()
        assert changed.intact() is False


def test_a_new_recording_of_the_same_name_is_another_file(tmp_path: Path) -> None:
    first = Recorder(tmp_path / "run")
    for event in EVENTS[:60]:
        first.write(event)
    with Trace(first.path) as trace:
        events = trace.poll()
        first.path.unlink()  # a name in use is refused; a removed file leaves it free
        second = Recorder(tmp_path / "run")
        for event in EVENTS[:30]:
            second.write(event)
        assert trace.growing, "its own recorder is still there"
        for event in EVENTS[60:90]:
            first.write(event)
        events += trace.poll()
        assert events == EVENTS[: len(events)]
        assert len(events) > 60
        os.close(first._fd or -1)
        first._fd = None
        assert not trace.growing, "the second recorder is none of this file's"
    second.close()


def test_an_opened_recording_without_a_line_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "run.sv.jsonl"
    with path.open("wb", buffering=0) as file:
        files.hold(file.fileno())
        with Trace(path) as trace:
            assert (trace.header, trace.poll(), trace.growing) == (None, [], True)
            header = encode(EVENTS[0]) + b"\n"
            file.write(header[:50])
            assert (trace.poll(), trace.growing) == ([], True)
            file.write(header[50:])
            assert trace.poll() == EVENTS[:1]
            assert trace.header == EVENTS[0]


def test_unknown_records_and_fields_are_passed_over(tmp_path: Path) -> None:
    later = b'{"ev":"premonition","q":0,"r":1,"i":2,"t":0,"strength":9}\n'
    node = msgspec.json.decode(encode(EVENTS[3]))
    more = msgspec.json.encode({**node, "aura": [1, 2]}) + b"\n"
    path = plain(tmp_path / "run.sv.jsonl", EVENTS[:3], later + more)
    assert read_events(path) == EVENTS[:4]


def test_an_older_major_version_goes_through_its_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = plain(tmp_path / "run.sv.jsonl", EVENTS[:6])
    old.write_bytes(old.read_bytes().replace(NOW, b'"v":[0,4]').replace(b'"node":', b'"knot":'))
    with pytest.raises(TraceError, match=r"has trace version 0\.4; there is no migration from version 0"):
        Trace(old)
    monkeypatch.setitem(migrate_module.MIGRATIONS, 0, lambda line: line.replace(b'"knot":', b'"node":'))
    got = read_events(old)
    assert got[1:] == EVENTS[1:6]


def test_a_cut_anywhere_in_the_end_record_leaves_it_out(tmp_path: Path) -> None:
    """Also behind a brace of something in it, where the line looks whole."""
    whole = plain(tmp_path / "run.sv.jsonl", EVENTS).read_bytes()
    path = tmp_path / "cut.sv.jsonl"
    last = whole[:-1].rindex(b"\n") + 1
    braces = 0
    for size in range(last + 1, len(whole) - 1):
        path.write_bytes(whole[:size])
        with Trace(path) as trace:
            assert trace.poll() == EVENTS[:-1]
            assert (trace.torn, trace.end) == (True, None)
        braces += whole[size - 1 : size] == b"}"
    assert braces > 0
    assert main(["stats", str(path)]) == 0


@pytest.mark.parametrize("size", [50, 1000, 100_000])
def test_several_gzip_members_are_one_trace(size: int, tmp_path: Path) -> None:
    """As gzip has it, cut wherever; zeros behind them are padding, of a tape or a copy."""
    whole = gzip.decompress(write_trace(tmp_path / "run", EVENTS).read_bytes())
    path = tmp_path / "members.sv.jsonl.gz"
    packed = b"".join(gzip.compress(whole[k : k + size]) for k in range(0, len(whole), size))
    for padding in (b"", b"\0" * 700):
        path.write_bytes(packed + padding)
        assert read_events(path, check=True)[:-1] == EVENTS[:-1]
        assert main(["stats", "--check", str(path)]) == 0
        with Trace(path) as trace:
            assert len(trace.poll()) == len(EVENTS)
            assert trace.intact() is True


@pytest.mark.parametrize("rest", [b"hello", b"\0\0hello\0", b"\x1f", b"x" * 3_000_000], ids=len)
def test_what_is_no_gzip_behind_the_data_is_said_by_a_check(
    rest: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_trace(tmp_path / "run", EVENTS)
    path.write_bytes(path.read_bytes() + rest)
    assert read_events(path)[:-1] == EVENTS[:-1]
    assert main(["stats", str(path)]) == 0
    capsys.readouterr()
    assert main(["stats", "--check", str(path)]) == 2
    n_bytes = len(rest.replace(b"\0", b""))
    assert capsys.readouterr().err == f"specviz: {path}: {n_bytes} bytes behind its end are no part of the gzip data\n"


def test_a_member_that_is_cut_off_says_how_far_it_came(tmp_path: Path) -> None:
    whole = gzip.decompress(write_trace(tmp_path / "run", EVENTS).read_bytes())
    at = whole.index(b"\n", len(whole) // 2) + 1
    path = tmp_path / "run.sv.jsonl.gz"
    path.write_bytes(gzip.compress(whole[:at]) + gzip.compress(whole[at:])[:-200])
    with pytest.raises(TraceError, match=r"ends early, after [0-9]+ whole lines; .* as far as round [0-9]+ of query 1"):
        read_events(path)
