"""One number in a trace takes no memory and no time: what is beyond reason is refused by its line, for every record."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as shape
import pytest

from specviz.cli import main
from specviz.errors import TraceError
from specviz.events import FILE_RECORDS, Event, Header, Knob, Node, Prefill, RoundStart, decode, encode
from specviz.trace import Trace, read_events
from specviz.trace.check import MOST_IN_A_ROUND, Ranges
from support.damage import frames
from support.recordings import RECORDINGS
from support.traces import make_events

EVENTS = make_events(queries=1, new_tokens=12)
BEYOND = (2**61, 2**63 - 1, 2**63, 10**30, -10, -(2**31), -(2**63), -(10**30))
Leaf = tuple[tuple[str | int, ...], int, int]  # where in the record, the least and the most it may be
KINDS = [kind for kind in FILE_RECORDS if kind is not Header]
NAMES = [kind.__name__ for kind in KINDS]


def made(kind: Any, path: tuple[str | int, ...], leaves: list[Leaf]) -> Any:
    """A value of a type, one element in every list; every integer in it is noted with its bounds."""
    if isinstance(kind, shape.IntType):
        leaves.append((path, _bound(kind.ge), _bound(kind.le)))
        return max(_bound(kind.ge), 1)
    if isinstance(kind, shape.FloatType):
        return max(kind.ge or 0.0, 0.0) if kind.gt is None else 1.0
    if isinstance(kind, shape.UnionType):
        one = next((k for k in kind.types if isinstance(k, shape.IntType)), None)
        return made(one or next(k for k in kind.types if not isinstance(k, shape.NoneType)), path, leaves)
    if isinstance(kind, shape.LiteralType):
        return kind.values[0]
    if isinstance(kind, shape.ListType):
        leaf = made(kind.item_type, (*path, 0), leaves)
        return [leaf] * (kind.min_length or 1)
    if isinstance(kind, shape.TupleType):
        return [made(item, (*path, k), leaves) for k, item in enumerate(kind.item_types)]
    if isinstance(kind, shape.DictType):
        key = kind.key_type.values[0] if isinstance(kind.key_type, shape.LiteralType) else "x"
        return {key: made(kind.value_type, (*path, key), leaves)}
    if isinstance(kind, shape.StructType):
        fields = {field.encode_name: made(field.type, (*path, field.encode_name), leaves) for field in kind.fields}
        return ({kind.tag_field: kind.tag} if kind.tag_field else {}) | fields
    plain = {shape.StrType: "x", shape.BoolType: False, shape.AnyType: None, shape.NoneType: None}
    assert type(kind) in plain, kind
    return plain[type(kind)]


def _bound(value: int | None) -> int:
    assert value is not None, "an integer without a least or a most"
    return int(value)


def sample(kind: type[Event]) -> tuple[dict[str, Any], list[Leaf]]:
    """A record of a kind, and its integers."""
    leaves: list[Leaf] = []
    return made(shape.type_info(kind), (), leaves), leaves


def put(record: dict[str, Any], path: tuple[str | int, ...], value: Any) -> bytes:
    """The record's line with another value at a place."""
    record = json.loads(json.dumps(record))
    inside: Any = record
    for part in path[:-1]:
        inside = inside[part]
    inside[path[-1]] = value
    return json.dumps(record).encode() + b"\n"


def trace_of(path: Path, line: bytes) -> Path:
    """A trace with a line in its first round; the fourth."""
    path.write_bytes(b"".join(encode(event) + b"\n" for event in EVENTS[:3]) + line)
    return path


def others(kind: type[Event]) -> Iterator[tuple[tuple[str | int, ...], int]]:
    record, leaves = sample(kind)
    decode(put(record, leaves[0][0], 1))  # good but for that number
    return ((path, value) for path, least, most in leaves for value in BEYOND if not least <= value <= most)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_an_integer_beyond_reason_is_refused_by_its_line(kind: type[Event], tmp_path: Path) -> None:
    """Each integer of every kind of record, those in lists and tables too."""
    record, _ = sample(kind)
    count = 0
    for path, value in others(kind):
        file = trace_of(tmp_path / "a.sv.jsonl", put(record, path, value))
        with pytest.raises(TraceError, match=r"a\.sv\.jsonl line 4: ") as caught:
            read_events(file)
        assert str(path[-1]) in str(caught.value) or len(path) > 1, (path, caught.value)
        count += 1
    assert count >= 4 * len(BEYOND)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_the_most_that_one_record_may_say_ends_soon(kind: type[Event], tmp_path: Path) -> None:
    """Every integer alone at its own limit: read, counted and checked, or refused in one line. None is looped over."""
    record, leaves = sample(kind)
    for path, least, most in leaves:
        for value in (least, most):
            file = trace_of(tmp_path / "a.sv.jsonl", put(record, path, value))
            assert main(["stats", str(file), "--check"]) in (0, 2)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("topk",), 2**61),
        (("i",), 2**63),
        (("models", "target", "n_layers"), 10**9),
        (("v", 0), -(10**9)),
        (("t",), -5),
    ],
)
def test_a_header_is_refused_in_one_line(
    where: tuple[str | int, ...], value: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = json.loads(encode(EVENTS[0]))
    header["models"]["target"] = {"name": "x", "n_layers": 4}
    (tmp_path / "a.sv.jsonl").write_bytes(put(header, where, value))
    assert main(["stats", str(tmp_path / "a.sv.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "a.sv.jsonl" in err


@pytest.mark.parametrize("pos", [10**9, 2**24, 60_000, -1_000_000])
def test_a_node_far_from_its_text_is_refused_everywhere(
    pos: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line that once took all memory: depths are counted from the root to `pos`."""
    lines = _lines("code-tree")
    at = next(k for k, line in enumerate(lines) if line.startswith(b'{"ev":"node"'))
    lines[at] = put(json.loads(lines[at]), ("pos",), pos)
    (tmp_path / "a.sv.jsonl").write_bytes(b"".join(lines))
    for words in (["stats"], ["stats", "--check"], ["whatif", "--sweep", "specbound"], ["tui", "--replay"]):
        assert main([*words, str(tmp_path / "a.sv.jsonl")]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"a.sv.jsonl line {at + 1}: " in err
        assert "pos" in err
    with pytest.raises(TraceError, match="pos"):
        frames(tmp_path / "a.sv.jsonl")


def _lines(name: str) -> list[bytes]:
    return [encode(event) + b"\n" for event in read_events(RECORDINGS[name])]


def test_what_was_recorded_is_in_range() -> None:
    """Everything that was bundled, and what the factory makes."""
    for path in RECORDINGS.values():
        with Trace(path) as trace:
            assert sum(1 for _ in trace.read()) > 100
    ranges = Ranges()
    assert [reason for event in EVENTS for reason in ranges.wrong(event)] == []


def wrong(*events: Event) -> str | None:
    """What the last of some records says when those before it are right."""
    ranges = Ranges()
    for event in events[:-1]:
        assert next(ranges.wrong(event), None) is None
    return next(ranges.wrong(events[-1]), None)


def _node(**fields: Any) -> Node:
    return Node(**{"node": 0, "parent": -1, "depth": 1, "pos": 5, "token": 1, "text": "a"} | fields)


def test_what_depends_on_the_records_before() -> None:
    header = next(event for event in EVENTS if isinstance(event, Header))
    prefill = Prefill(prompt=[1] * 5, text="aaaaa", n_prompt=5, seed=0, dur_ns=0)
    start = RoundStart(n=6, root=1, knob_version=0)
    assert wrong(header, prefill, start, _node()) is None
    assert "more than 4096 away from the 5 tokens" in str(wrong(header, prefill, start, _node(pos=5 + 4097)))
    assert "parent 3, which must be older" in str(wrong(header, prefill, start, _node(parent=3)))
    assert "parent 0, which must be older" in str(wrong(header, prefill, start, _node(parent=0)))
    assert "n 9000 is more than" in str(wrong(header, prefill, msgspec.structs.replace(start, n=9000)))
    spec = next(spec for spec in header.knob_specs if spec.kind == "int" and spec.hi)
    changed = Knob(name=spec.name, old=1, new=10**9, requested_r=0, applied_r=1)
    assert spec.name in str(wrong(header, prefill, changed))


def test_a_round_has_so_many_records() -> None:
    ranges = Ranges()
    assert next(ranges.wrong(RoundStart(n=6, root=1, knob_version=0)), None) is None
    nodes = (_node(node=k, parent=k - 1) for k in range(MOST_IN_A_ROUND + 1))
    assert "records in one round" in next(reason for node in nodes for reason in ranges.wrong(node))


def test_every_number_has_its_range() -> None:
    """A new field of a new record cannot forget it: `made` asks every integer for both bounds."""
    for kind in FILE_RECORDS:
        if kind is not Header:  # `v` is checked before anything else is read
            _, leaves = sample(kind)
            assert all(-(2**24) <= least <= 0 < most <= 2**60 for _, least, most in leaves)
            assert {path[0] for path, _, _ in leaves} >= {"i", "t", "q", "r"}
