"""The index of a recording: its run is the one that reading everything gives, it goes stale, and it harms nobody."""

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specviz.errors import TraceError
from specviz.events import At, Event, Note, encode
from specviz.runlog import rounds
from specviz.runlog.fold import Run, fold
from specviz.trace import files, index, read_events
from specviz.trace.indexing import IndexedTrace, indexed, write_index
from specviz.view import Player
from specviz.view.frame.frame import Options
from specviz.view.judge.kept import read_counted
from specviz.view.panels import all_panels
from support.recordings import RECORDINGS
from support.traces import make_events, write_trace

EVENTS = make_events(shape="tree", queries=3, temperature=0.9, knob_at=3, new_tokens=9)
_ALL = tuple(panel.id for panel in all_panels())


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def with_index(path: Path) -> IndexedTrace:
    into = index.index_path(path)
    write_index(path, into)
    indexed_trace = indexed(path)
    assert indexed_trace is not None
    return indexed_trace


def facts(run: Run) -> Iterator[object]:
    """Everything that a run holds."""
    yield run.header, run.calibration, run.end, run.changes, run.warnings, run.notes, run.findings, run.learnt
    yield run.n_warnings, run.words, run.knobs, len(run.rounds), run.rounds.n_complete
    for query in run.queries:
        yield query.number, query.first, query.n_rounds, query.n_nodes, query.prefill, query.tokens, query.adapt
        yield query.exit_table
    for number, record in enumerate(run.rounds):
        yield record.index, record.start, record.n_before, record.born, record.serial, record.knobs
        yield record.by_kind, record.nodes, record.verdicts, record.chains, record.query.number
        yield run.rounds.point(number), run.rounds.place(number), run.rounds.began(number)


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_the_run_of_an_index_is_the_run_of_the_recording(name: str) -> None:
    path = RECORDINGS[name]
    indexed_trace = with_index(path)
    for got, wanted in zip(facts(indexed_trace.run), facts(fold(read_events(path))), strict=True):
        assert got == wanted
    indexed_trace.close()


@pytest.mark.parametrize("name", ["code-specbound", "code-specbranch", "stream-specblock"])
def test_frames_with_all_panels_are_the_same(name: str) -> None:
    """Those of panels that counted for themselves, and of panels that were told what was counted."""
    path = RECORDINGS[name]
    indexed_trace = with_index(path)
    other = Player(fold(read_events(path)), animate=False)
    one, twin = Player(indexed_trace.run, animate=False), Player(animate=False)
    twin.adopt(indexed_trace.run, read_counted(other.builder.counted()))
    options = Options(shown=_ALL)
    for place in range(len(other.run.rounds) - 1, -1, -7):
        shown = []
        for player in (one, twin, other):
            player.seek_index(place)
            frame = player.frame(options)
            shown.append(replace(frame, timeline=replace(frame.timeline, points=tuple(frame.timeline.points))))
        assert shown[0] == shown[2]
        assert shown[1] == shown[2]
    indexed_trace.close()


def _recorded(folder: Path, events: list[Event], packed: bool) -> Path:
    data = b"".join(encode(event) + b"\n" for event in events)
    path = folder / ("run.sv.jsonl.gz" if packed else "run.sv.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("packed", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_records_out_of_their_place_are_found_at_their_round(tmp_path: Path, data: st.DataObject, packed: bool) -> None:
    """Bookmarks of rounds long past, rounds that were aborted and came again, a recording cut off anywhere."""
    events = list(EVENTS[: data.draw(st.integers(12, len(EVENTS)))])
    begins = [k for k, event in enumerate(events) if event.__struct_config__.tag == "round_start"]
    if len(begins) > 2 and data.draw(st.booleans()):  # the middle of a round is lost, and it comes again
        k = data.draw(st.sampled_from(begins[1:]))
        events[k:k] = events[k : k + data.draw(st.integers(1, 4))]
        events = [event for event in events if event.__struct_config__.tag != "end"]
    for _ in range(data.draw(st.integers(0, 3))):
        k = data.draw(st.integers(min(12, len(events)), len(events)))
        at = data.draw(st.sampled_from([(e.q, e.r) for e in events[:k] if e.r]) if begins else st.just((0, 1)))
        if not any(event.__struct_config__.tag == "end" for event in events[:k]):
            events.insert(k, Note(text="look", at=At(r=at[1]), q=at[0], r=at[1]))
    path = _recorded(tmp_path, events, packed)
    indexed_trace = with_index(path)
    for got, wanted in zip(facts(indexed_trace.run), facts(fold(read_events(path))), strict=True):
        assert got == wanted
    indexed_trace.close()


def test_few_rounds_are_in_memory_and_a_bookmark_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "AT_HAND", 2)
    indexed_trace = with_index(RECORDINGS["code-specbranch"])
    run = indexed_trace.run
    first = run.rounds.place(0)
    run.apply(Note(text="here", at=At(r=first[1]), q=first[0], r=first[1]))
    assert all(record.start is not None for record in run.rounds)
    assert [note.text for note in run.rounds[0].notes] == ["here"]
    assert "⚑" in run.rounds.point(0).markers
    assert len(run.rounds._held) <= 4
    indexed_trace.close()


def test_an_index_of_another_file_is_stale(tmp_path: Path) -> None:
    path = _recorded(tmp_path, EVENTS, packed=False)
    with_index(path).close()
    other = path.read_bytes().replace(b'"temperature"', b'"temperaturf"', 1)
    status = path.stat()
    path.write_bytes(other)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, same time
    assert indexed(path) is None
    path.write_bytes(other + b"\n")
    assert indexed(path) is None


def test_an_index_of_another_version_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _recorded(tmp_path, EVENTS, packed=True)
    with_index(path).close()
    monkeypatch.setattr("specviz.trace.indexing.writer", lambda: "0.0.0")
    assert indexed(path) is None
    with_index(path).close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_index_is_as_good_as_none(tmp_path: Path, data: st.DataObject) -> None:
    path = _recorded(tmp_path, EVENTS, packed=False)
    into = tmp_path / "one.index"
    if not into.exists():
        write_index(path, into)
    whole = into.read_bytes()
    damaged = bytearray(whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    bad = tmp_path / "bad.index"
    bad.write_bytes(bytes(damaged[: data.draw(st.integers(0, len(whole)))]))
    indexed_trace = indexed(path, bad)
    if indexed_trace is not None:  # the damage is in a text, which nobody has asked for
        indexed_trace.close()


def test_damaged_lines_are_read_from_the_recording_itself(tmp_path: Path) -> None:
    path = _recorded(tmp_path, EVENTS, packed=True)
    into = index.index_path(path)
    write_index(path, into)
    with into.open("rb") as file:
        head = index.IndexFile(file).head()
    assert head is not None
    assert head.lines
    data = bytearray(into.read_bytes())
    for start, size in head.lines:
        data[start + size // 2] ^= 0x55
    into.write_bytes(bytes(data))
    indexed_trace = indexed(path)
    assert indexed_trace is not None
    for got, wanted in zip(facts(indexed_trace.run), facts(fold(read_events(path))), strict=True):
        assert got == wanted
    indexed_trace.close()


def test_what_a_panel_did_not_keep_itself_is_counted_again(tmp_path: Path) -> None:
    events = read_events(RECORDINGS["code-specbranch"])
    whole = Player(fold(events), animate=False)
    known = read_counted(whole.builder.counted())
    assert known is not None
    options = Options(shown=tuple(known.panels))
    player = Player(animate=False)
    player.adopt(fold(events), replace(known, panels=dict.fromkeys(known.panels, b"\x93of another version")))
    whole.seek_index(0)
    assert player.frame(options).panels == whole.frame(options).panels


def test_it_is_for_its_owner_alone_and_leaves_nothing_half_made(tmp_path: Path) -> None:
    path = _recorded(tmp_path, EVENTS, packed=False)
    into = index.index_path(path)
    write_index(path, into)
    assert into.stat().st_mode & 0o077 == 0
    path.write_bytes(path.read_bytes()[:-40] + b"{]\n")
    with pytest.raises(TraceError, match="line"):
        write_index(path, into)
    assert [entry.name for entry in into.parent.iterdir()] == [into.name]


def test_the_oldest_indexes_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MOST_MB", 0)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with_index(_recorded(tmp_path / name, EVENTS, packed=False)).close()
    assert indexed(tmp_path / "one" / "run.sv.jsonl") is None
    last = indexed(tmp_path / "two" / "run.sv.jsonl")
    assert last is not None
    last.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.tuples(st.integers(0, 1 << 17), st.integers(0, 5000)), min_size=1, max_size=12))
def test_any_stretch_of_a_zipped_file_is_the_text_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(files, "_APART", 3000)
    monkeypatch.setattr(files, "_MOST_MARKS", 8)
    path = write_trace(tmp_path / "run", EVENTS)
    whole = gzip.decompress(path.read_bytes())
    plain = files.Plain(path, 1 << 30)
    while plain.piece():
        pass
    for place, size in places:
        assert plain.stretch(place, size) == whole[place : place + size]
    plain.seek(0)
    assert b"".join(iter(plain.piece, b"")) == whole
    plain.close()
