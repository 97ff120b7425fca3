"""Rounds that are out of memory: read again, a run is what it was; in memory there is a window, however long it is."""

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specviz.events import At, End, Event, Knob, Note, Prefill, RoundEnd, RoundStart
from specviz.runlog import rounds
from specviz.runlog.fold import fold
from specviz.runlog.run import RoundRecord
from specviz.runlog.spool import Spool
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.frame.frame import Options
from specviz.view.panels import all_panels
from specviz.view.panels.lanes import blocks
from specviz.view.play import build
from support.recordings import RECORDINGS

TRACES = RECORDINGS
_ALL = tuple(panel.id for panel in all_panels())


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "WINDOW", 3)
    monkeypatch.setattr(rounds, "AT_HAND", 2)


def _frames(events: list[Event]) -> Iterator[object]:
    """The end of every fifth round from the last to the first, with all its panels, and the first step of it."""
    player = Player(fold(events), animate=False)
    options = Options(shown=_ALL)
    for index in range(len(player.run.rounds) - 1, -1, -5):
        player.seek_index(index)
        frame = player.frame(options)
        yield replace(frame, timeline=replace(frame.timeline, points=tuple(frame.timeline.points)))


@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_round_read_again_is_shown_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = read_events(TRACES[name])
    near = list(_frames(events))
    monkeypatch.setattr(rounds, "WINDOW", 3)
    monkeypatch.setattr(rounds, "AT_HAND", 2)
    away = fold(events).rounds.n_away
    assert away > 0
    for shown, wanted in zip(_frames(events), near, strict=True):
        assert shown == wanted


@pytest.mark.parametrize("name", ["code-specbound", "code-specbranch"])
def test_what_is_counted_over_a_run_is_counted_as_rounds_leave(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the panels shows what it shows of a run in memory, without reading all of it once more."""
    events = list(_many(12, read_events(TRACES[name])))
    options = Options(shown=_ALL)
    whole = Player(fold(events), animate=False)
    whole.seek_index(len(whole.run.rounds) - 1)
    wanted = whole.frame(options).panels
    monkeypatch.setattr(rounds, "WINDOW", 3)
    monkeypatch.setattr(blocks, "STRETCH", 40)
    player = Player(animate=False)
    player.extend(events)
    read: set[int] = set()
    again = rounds.Rounds._read

    def reading(self: rounds.Rounds, index: int) -> RoundRecord:
        read.add(index)
        return again(self, index)

    monkeypatch.setattr(rounds.Rounds, "_read", reading)
    player.seek_index(len(player.run.rounds) - 1)
    assert player.frame(options).panels == wanted
    assert len(read) < len(player.run.rounds) / 2


@pytest.mark.parametrize("name", ["code-draft", "code-specbranch"])
def test_every_way_to_a_place_leads_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = read_events(TRACES[name])

    def places() -> Iterator[object]:
        player = Player(fold(events), animate=False)
        run = player.run
        text = run.queries[0].text
        player.first()
        while player.next_rejection():
            yield "rejection", player.cursor
        for record in list(run.rounds)[::7]:
            yield "place", player.seek(f"q{record.q}/r{record.r}"), player.cursor
            yield "position", player.seek_position(record.start.n, record.q), player.cursor
            yield "time", player.seek_time(record.start.t + 1), player.cursor
        player.first()
        for at in range(0, len(text) - 9, 11):
            yield "text", player.seek_text(text[at : at + 9]), player.cursor
        yield "nothing", player.seek_text("no such text"), player.cursor
        yield text, [run.queries[0].nodes.get(i) for i in range(40)], dict(run.queries[0].nodes)

    near = list(places())
    monkeypatch.setattr(rounds, "WINDOW", 3)
    monkeypatch.setattr(rounds, "AT_HAND", 2)
    assert list(places()) == near
    assert len(near) > 20


def _many(n: int, events: list[Event]) -> Iterator[Event]:
    """The rounds of a run over and over, as the queries of a stream."""
    from msgspec.structs import replace as other

    body = [event for event in events if (event.r > 0 or isinstance(event, Prefill)) and not isinstance(event, End)]
    yield events[0]
    for q in range(n):
        yield from (other(event, q=q) for event in body if event.q == 0)


def _held(kind: type) -> int:
    gc.collect()
    return sum(
        1 for thing in gc.get_objects() if type(thing) is kind
    )  # isinstance would ask lazy objects of libraries for a class


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("name", ["code-draft", "code-specbranch"])
def test_a_run_of_any_length_holds_a_window(name: str) -> None:
    """Of hundreds of rounds a few are in memory, however they were looked at; their prompts and texts neither."""
    events = list(_many(30, read_events(TRACES[name])))
    before = _held(RoundRecord)
    player = Player(animate=False)
    late = len(events) - 400
    for k, event in enumerate(events):
        player.extend([event])
        if isinstance(event, RoundEnd) and k > late:
            player.frame(Options(shown=_ALL))
    n = len(player.run.rounds)
    assert n > 500
    for index in range(0, n, n // 20):
        player.seek_index(index)
        player.frame(Options(shown=_ALL))
    assert player.run.rounds.spool.size > 0
    events.clear()
    assert _held(RoundRecord) - before < 250  # 64 families, 128 climbs, and the window
    held = [query for query in player.run.queries if query._kept is not None]
    assert len(held) < 5 < len(player.run.queries)
    assert max(len(query.nodes.near) for query in player.run.queries[:-3]) == 0


@pytest.mark.usefixtures("little")
def test_a_mark_on_a_round_that_is_away_stays() -> None:
    events = read_events(TRACES["code-draft"])
    player = Player(fold(events[:-1]), animate=False)
    plain = player.frame().timeline
    player.extend([Note(text="look", at=At(r=2), q=0, r=9)])
    assert player.run.rounds.n_away > 2
    gc.collect()
    index = player.run.find(0, 2)
    assert index is not None
    assert [note.text for note in player.run.rounds[index].notes] == ["look"]
    marked = player.frame().timeline
    assert [p.r for p in marked.marked] == [2]
    assert marked.points[index].markers == "⚑"
    assert marked.points != plain.points


@pytest.mark.usefixtures("little")
def test_a_knob_that_is_acknowledged_late_reaches_rounds_that_are_away() -> None:
    events = read_events(TRACES["code-draft"])
    run = fold(events[:-1])
    run.apply(Knob(name="gamma", old=4, new=7, requested_r=1, applied_r=3, q=0, r=9))
    gc.collect()
    third = run.find(0, 3)
    assert third is not None
    assert run.rounds.n_away > third
    assert run.rounds[third].knobs["gamma"] == 7
    assert run.rounds[third - 1].knobs["gamma"] != 7
    assert [change.new for change in run.rounds[third].changes] == [7]


def test_a_full_disk_keeps_rounds_in_memory(little: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Spool, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    events = read_events(TRACES["code-draft"])
    near = fold(events)
    monkeypatch.setattr(Spool, "put", full)
    run = fold(events)
    assert run.rounds.n_away == 0
    assert len(run.rounds) == len(near.rounds)
    assert run.rounds[0].start == near.rounds[0].start


def test_the_spool_is_private_and_gone_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = Spool()
    pieces = [f"piece {k} ".encode() * 900 for k in range(40)]
    places = [spool.put(piece) for piece in pieces]
    assert [spool.get(place) for place in reversed(places)] == pieces[::-1]
    assert 0 < spool.size < sum(map(len, pieces)) / 4
    assert spool._file is not None
    assert os.fstat(spool._file.fileno()).st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == []  # no name: nothing to clean up after a kill
    spool.close()


def test_an_aborted_round_is_replaced_beside_rounds_that_are_away(little: None) -> None:
    events = read_events(TRACES["code-draft"])
    starts = [k for k, event in enumerate(events) if isinstance(event, RoundStart)]
    torn = events[: starts[8] + 3] + events[starts[8] :]
    whole, run = fold(events), fold(torn)
    assert len(run.rounds) == len(whole.rounds)
    assert [r.start.r for r in run.rounds] == [r.start.r for r in whole.rounds]
    assert run.queries[0].text == whole.queries[0].text


class _Seen(Event, tag="seen_by_a_test", kw_only=True):
    """A kind that nobody in the package has heard of."""

    depth: int
    words: dict[str, list[float]]


@pytest.mark.usefixtures("little")
def test_a_kind_declared_elsewhere_stays_with_its_round() -> None:
    """In memory, and read again from the spool as what it was."""
    events = read_events(TRACES["code-draft"])
    ends = [k for k, event in enumerate(events) if isinstance(event, RoundEnd)]
    records = [_Seen(r=events[k].r, depth=events[k].r, words={"a": [0.5, k]}) for k in ends]
    for k, event in reversed(list(zip(ends, records, strict=True))):
        events.insert(k, event)
    run = fold(events)
    gc.collect()
    assert run.rounds.n_away > 3
    assert [event for record in run.rounds for event in record.every(_Seen)] == records
    assert type(run.rounds[0].first(_Seen)) is _Seen


OF_PANELS = {"lanes": "code-specbranch", "ranks": "code-specblock", "exits": "code-specbound"}


@pytest.mark.parametrize("panel", OF_PANELS)
def test_a_panel_reads_a_long_run_in_slices_and_says_how_far_it_is(panel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame reads more than a few rounds; in the end it is what it would have been at once."""
    events, options, n_read = read_events(TRACES[OF_PANELS[panel]]), Options(shown=(panel,)), 0
    wanted = Player(fold(events), animate=False).frame(options).panels[panel]
    read = rounds.Rounds._read

    def counted(self: rounds.Rounds, index: int) -> RoundRecord:
        nonlocal n_read
        n_read += 1
        return read(self, index)

    monkeypatch.setattr(rounds, "WINDOW", 1)
    monkeypatch.setattr(build, "AT_ONCE", 2)
    monkeypatch.setattr(build, "_SLICE", 2)
    player, shares = Player(fold(events), animate=False), []
    player.frame(Options(shown=()))  # the round on screen, the time line
    monkeypatch.setattr(rounds.Rounds, "_read", counted)
    for _ in player.run.rounds.points():
        n_read = 0
        frame = player.frame(replace(options, patience_s=0.0))
        assert n_read <= 2 + 2
        if frame.reading is None:
            break
        shares.append(frame.reading)
        assert "reading the rounds" in frame.panels[panel].missing
    assert shares, "there was something to wait for"
    assert shares == sorted(shares)
    assert frame.panels[panel] == wanted
