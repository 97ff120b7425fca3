"""Uploads: what is taken, and what is refused by its own name, with line and reason."""

import gzip
from pathlib import Path

import pytest

from specviz.errors import TraceError
from specviz.events import encode
from specviz.trace import read_events
from specviz_app.ui import library
from support.traces import make_header


@pytest.mark.parametrize("packed", [True, False], ids=["zipped", "plain"])
def test_a_trace_is_kept_under_its_name(packed: bool, chain_trace: Path, tmp_path: Path) -> None:
    data = chain_trace.read_bytes() if packed else gzip.decompress(chain_trace.read_bytes())
    kept = library.accept("a.sv.jsonl.gz" if packed else "a.sv.jsonl", data, tmp_path)
    assert kept.name.startswith("a.sv.jsonl")
    assert read_events(kept) == read_events(chain_trace)


def test_a_name_is_no_path(chain_trace: Path, tmp_path: Path) -> None:
    kept = library.accept("../../etc/x.sv.jsonl.gz", chain_trace.read_bytes(), tmp_path)
    assert kept.name == "x.sv.jsonl.gz"
    assert tmp_path in kept.parents


def _lines(trace: Path) -> list[bytes]:
    return gzip.decompress(trace.read_bytes()).split(b"\n")


def test_what_is_wrong_is_named_with_its_line(chain_trace: Path, tmp_path: Path) -> None:
    lines = _lines(chain_trace)
    k = next(i for i, line in enumerate(lines) if b'"ev":"round_end"' in line)
    lines[k] = lines[k].replace(b'"n_emitted":', b'"n_emitted":9')
    with pytest.raises(TraceError, match=f"^bad.sv.jsonl line {k + 1} .*n_emitted"):
        library.accept("bad.sv.jsonl", b"\n".join(lines), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "is not a specviz trace"),
        (b"\x1f\x8bnonsense", "gzip data is damaged"),
        (gzip.compress(encode(make_header()) + b"\n" * 50)[:-9], "ends early"),
    ],
    ids=["empty", "text", "damaged", "cut"],
)
def test_what_is_no_trace_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=words) as caught:
        library.accept("x.sv.jsonl.gz", data, tmp_path)
    assert str(tmp_path) not in str(caught.value)


def test_too_much_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "INFLATED_MB", 4)
    bomb = gzip.compress(b" " * (5 << 20))
    with pytest.raises(TraceError, match="unpacks to more than 4 MB"):
        library.accept("bomb.sv.jsonl.gz", bomb, tmp_path)
    monkeypatch.setattr(library, "UPLOAD_MB", 1)
    with pytest.raises(TraceError, match="has 2 MB, uploads may have 1"):
        library.accept("big.sv.jsonl", b" " * (2 << 20), tmp_path)
    assert list(tmp_path.iterdir()) == []
