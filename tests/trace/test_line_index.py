"""The index of lines: every line is found again, by kind and round, in a plain and in a zipped file."""

import gzip
from pathlib import Path

import pytest

from specviz.errors import TraceError
from specviz.events import encode
from specviz.trace.line_index import LineIndex
from support.traces import make_events


def _written(folder: Path, zipped: bool) -> tuple[Path, list[bytes]]:
    lines = [encode(event) for event in make_events(temperature=0.8, new_tokens=24)]
    data = b"".join(line + b"\n" for line in lines)
    path = folder / ("a.sv.jsonl.gz" if zipped else "a.sv.jsonl")
    path.write_bytes(gzip.compress(data) if zipped else data)
    return path, lines


@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "zipped"])
def test_lines_are_read_again_by_kind_and_round(zipped: bool, tmp_path: Path) -> None:
    path, lines = _written(tmp_path, zipped)
    index = LineIndex(path)
    assert len(index) == len(lines)
    assert list(index.read(range(len(index)))) == lines
    assert list(index.read([3, 7, len(lines) - 1])) == [lines[3], lines[7], lines[-1]]
    assert list(index.read([])) == []
    verdicts = index.matching("verify", 2)
    assert verdicts
    assert list(index.read(verdicts)) == [line for line in lines if b'"ev":"verify"' in line and b'"r":2,' in line]
    assert list(index.matching("no such kind")) == []
    assert index.kinds[0] == "header"


def test_a_torn_end_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    path, lines = _written(tmp_path, zipped=False)
    path.write_bytes(b"\n".join([lines[0], b"", *lines[1:5], lines[5][:20]]))
    assert list(LineIndex(path).read(range(5))) == lines[:5]
    assert len(LineIndex(path)) == 5


def test_what_is_no_record_is_named_by_its_line(tmp_path: Path) -> None:
    path, lines = _written(tmp_path, zipped=False)
    path.write_bytes(b"\n".join([lines[0], b"nonsense", b""]))
    with pytest.raises(TraceError, match="line 2"):
        LineIndex(path)
