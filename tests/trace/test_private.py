"""What a recording tells of a person: with `redact` no text at any level and of any method, always names for paths."""

import gzip
import stat
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from specviz.events import FILE_RECORDS, End, Event, FindingRecord, Header, Knob, Note, Prefill, Warn
from specviz.events.base import LEVELS
from specviz.trace import Recorder, Trace, read_events
from specviz.trace.private import LEFT_OUT, PARTS, named, without_folders
from specviz.trace.recorder import pack
from support.recordings import RECORDINGS

TRACES = RECORDINGS
SECRET = "s3cr3t"
HEX = SECRET.encode().hex()
_TEXTS = {"text", "bytes", "texts", "domain", "message"}
# Fields of records that are words of this program or ids, never of a person.
_OURS = {
    "schema",
    "run",
    "wall",
    "method",
    "drafter",
    "verifier",
    "lanes",
    "imported",
    "name",
    "by",
    "code",
    "reason",
    "of",  # an engine
    "models",  # as a server names them
    "engine",
    "parts_of",
    "gauges",
    "span",
    "settings",  # of an engine, as its own log or report names them; of paths the last part alone
    "notes",
    "drafts",
    "sha256",
    "level",
    "mode",
    "status",
    "why",
    "kind",
    "kinds",
    "finish",
    "draft_end",
    "walk_end",
    "lane",
    "clock",
    "source",
    "stage",
    "rule",
    "width_reason",
    "action",
    "cause",
    "fates",
    "void",
    "reset",
    "totals",
    "src",
    "kv",
    "stage_ns",
}


def _secret(event: Event) -> Event:
    """The record with a secret wherever text of a person may stand."""
    values: dict[str, Any] = {}
    for name in _TEXTS & set(event.__struct_fields__):
        old = getattr(event, name)
        values[name] = [SECRET] * len(old) if name == "texts" else HEX if name == "bytes" else SECRET
    if isinstance(event, Header):
        values |= {
            "env": {**event.env, "stream": {"n_queries": 2, "domains": {SECRET: 2}}},
            "knobs": {**event.knobs, **{name: [f"/home/{SECRET}", f"x/{SECRET}"] for name in PARTS}},
            "sampling": {**event.sampling, "stop": [SECRET], "ban": [SECRET]},
            "models": msgspec.structs.replace(event.models, parts={"heads": f"/a/{SECRET}/x, asked"}),
        }
    if isinstance(event, Knob):
        values |= {"name": "stop", "old": [SECRET], "new": [SECRET, "b"]}
    return msgspec.structs.replace(event, **values)


def _more(header: Header) -> list[Event]:
    at = {"q": 0, "r": 1}
    return [
        Knob(name="stop", old=[SECRET], new=[], requested_r=1, applied_r=1, **at),
        Warn(code="clamped_knob", message=SECRET, **at),
        Note(text=SECRET, at=msgspec.convert({"r": 1}, type=typing.get_type_hints(Note)["at"]), **at),
        FindingRecord(detector="late", message=SECRET, evidence=[1], **at),
    ]


def _bytes(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.parametrize("level", sorted(LEVELS))
@pytest.mark.parametrize("name", sorted(TRACES))
def test_no_text_is_in_a_redacted_recording(name: str, level: Any, tmp_path: Path) -> None:
    events = read_events(TRACES[name])
    header = events[0]
    assert isinstance(header, Header)
    for redact in (True, False):
        recorder = Recorder(tmp_path / f"{redact}", level, redact=redact)
        for event in [events[0], *events[1:-1], *_more(header), events[-1]]:
            recorder.write(_secret(event))
        content = _bytes(recorder.path).lower()
        assert (SECRET.encode() in content) is not redact
        assert not (redact and HEX.encode() in content)
    prefills = [event for event in read_events(tmp_path / "True") if isinstance(event, Prefill)]
    assert prefills[0].prompt == next(e.prompt for e in events if isinstance(e, Prefill))  # ids stay
    assert prefills[0].domain in ("domain 1", None)


def test_every_field_that_may_hold_text_was_thought_of() -> None:
    """A new record, or a new field, is either changed by the redactor or named here as one of ours."""
    from specviz.trace.private import _CHANGES

    for kind in FILE_RECORDS:
        for field in msgspec.structs.fields(kind):
            holds = "str" in str(field.type) or "Any" in str(field.type)
            if holds and kind not in _CHANGES:
                assert field.name in _OURS, f"{kind.__name__}.{field.name}: may it hold text of a person?"


def test_a_redacted_trace_is_whole_and_shows_ids(tmp_path: Path) -> None:
    from specviz.runlog.fold import fold
    from specviz.view import Player

    recorder = Recorder(tmp_path / "run", redact=True)
    events = read_events(TRACES["code-draft"])
    for event in events:
        recorder.write(event)
    with Trace(recorder.path, check=True) as trace:
        polled = trace.poll()
        assert trace.intact()
    player = Player(fold(polled), animate=False)
    frame = player.frame()
    assert all(token.running.startswith("#") for token in frame.strip.tokens)
    assert all(node.shown.startswith("#") for node in frame.tree.nodes)
    from specviz.metrics import measure

    assert measure(polled) == measure(events)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/home/ann/my heads/v2", "v2"),
        ("C:\\Users\\ann\\heads", "heads"),
        ("~/heads", "heads"),
        ("../../x/heads", "heads"),
        ("heads", "heads"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("knob", PARTS)
def test_a_path_is_recorded_by_its_last_part(knob: str, path: str, kept: str, tmp_path: Path) -> None:
    header = read_events(TRACES["code-draft"])[0]
    assert isinstance(header, Header)
    words = path.split() if path else []
    models = msgspec.structs.replace(header.models, parts={"asked": path, "said": f"heads of {path}, 3 layers"})
    named_header = named(msgspec.structs.replace(header, knobs={**header.knobs, knob: words}, models=models))
    assert isinstance(named_header, Header)
    assert named_header.knobs[knob] == ([kept] if kept else [])
    assert named_header.models.parts["said"] == f"heads of {kept}, 3 layers"
    for value in (words, path):
        change = named(Knob(name=knob, old=value, new=value, requested_r=1, applied_r=2))
        assert isinstance(change, Knob)
        assert change.new == ([kept] if isinstance(value, list) and kept else kept if isinstance(value, str) else [])


def test_stop_texts_with_slashes_are_no_paths() -> None:
    change = Knob(name="stop", old=[], new=["</s>", "a/b"], requested_r=1, applied_r=2)
    assert named(change) is change


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("OSError: cannot read /home/ann/models/x.safetensors: gone", "OSError: cannot read x.safetensors: gone"),
        ("no file C:\\Users\\ann\\x.bin", "no file x.bin"),
        ("tokens/s fell by 1/2", "tokens/s fell by 1/2"),
        ("see '~/heads/a'", "see 'a'"),
        ("nothing", "nothing"),
    ],
)
def test_messages_name_no_folders(message: str, kept: str) -> None:
    assert without_folders(message) == kept
    end = named(End(reason="error", message=message))
    assert isinstance(end, End) and end.message == kept  # noqa: PT018


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_their_owners_alone(tmp_path: Path) -> None:
    """While it is written, under its own name, zipped, and over an older file that others could read."""
    older = tmp_path / "run.sv.jsonl"
    older.write_bytes(b"")
    older.chmod(0o644)
    events = read_events(TRACES["code-draft"])
    recorder = Recorder(older)
    assert [_mode(path) for path in tmp_path.iterdir() if path.name.endswith(".new")] == [0o600]
    for event in events[:40]:
        recorder.write(event)
    assert _mode(older) == 0o600
    recorder.close("done")
    assert recorder.path.suffix == ".gz"
    assert _mode(recorder.path) == 0o600


def test_zipping_never_shows_it_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    seen = []
    copy = shutil.copyfileobj
    monkeypatch.setattr(
        shutil, "copyfileobj", lambda *a: (seen.extend(_mode(p) for p in tmp_path.glob(".*.tmp")), copy(*a))
    )
    plain = tmp_path / "x.sv.jsonl"
    plain.write_bytes(b'{"ev":"header"}\n')
    pack(plain)
    assert seen == [0o600]


def test_what_was_learnt_keeps_its_domains_apart(tmp_path: Path) -> None:
    events = read_events(TRACES["code-draft"])
    recorder = Recorder(tmp_path / "run", redact=True)
    recorder.write(events[0])
    prefill = next(event for event in events if isinstance(event, Prefill))
    for q, domain in enumerate(["law", "code", "law"]):
        recorder.write(msgspec.structs.replace(prefill, domain=domain, q=q))
    recorder.close()
    prefills = [event.domain for event in read_events(recorder.path) if isinstance(event, Prefill)]
    assert prefills == ["domain 1", "domain 2", "domain 1"]
    assert LEFT_OUT not in prefills
