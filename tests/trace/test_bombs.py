"""A small file that becomes a large one: reading keeps nothing, stops at a limit, and names the flag that raises it."""

import gzip
import resource
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.errors import TraceError
from specviz.events import At, Note, encode
from specviz.trace import Trace, read_events
from support.traces import make_header

MB = 1 << 20
HEAD = encode(make_header()) + b"\n"
NODES = b"".join(encode(Note(i=k, text="x" * 200, at=At(r=0))) + b"\n" for k in range(4000))
ROOM = 2 << 30  # of address space; the libraries that are loaded take a good part


def bomb(block: bytes, times: int) -> bytes:
    """A gzip member of a header and `times` the block, made as quickly as it is small; cut off before its end."""
    first = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = first.compress(HEAD) + first.flush(zlib.Z_FULL_FLUSH)
    whole = zlib.compressobj(9, zlib.DEFLATED, -15)
    return head + (whole.compress(block) + whole.flush(zlib.Z_FULL_FLUSH)) * times


def members(block: bytes, times: int) -> bytes:
    return gzip.compress(HEAD) + gzip.compress(block) * times


BOMBS: list[tuple[str, Callable[[], bytes], str]] = [
    ("newlines", lambda: bomb(b"\n" * MB, 4000), "more than 10,000 empty lines"),
    ("zeros", lambda: bomb(b"\0" * MB, 4000), "line 2: longer than 16 MB"),
    ("spaces", lambda: bomb(b" " * MB, 4000), "line 2: longer than 16 MB"),
    ("a line of text", lambda: bomb(b'{"ev":"note","text":"' + b"x" * MB, 4000), "line 2: longer than 16 MB"),
    ("nested", lambda: bomb(b"[" * MB, 4000), "line 2: longer than 16 MB"),
    ("members of zeros", lambda: members(b"\0" * MB, 4000), "line 2: longer than 16 MB"),
    ("no newline at all", lambda: gzip.compress(b"")[:10] + _stored(b"{" * MB, 4000), "longer than 16 MB"),
]


def _stored(block: bytes, times: int) -> bytes:
    whole = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (whole.compress(block) + whole.flush(zlib.Z_FULL_FLUSH)) * times


def limited(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that may not have more memory than a small machine."""
    return subprocess.run(
        [sys.executable, "-m", "specviz", *words],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM)),
    )


@pytest.mark.parametrize(("data", "says"), [(make, says) for _, make, says in BOMBS], ids=[name for name, *_ in BOMBS])
def test_four_gigabytes_in_a_small_file_are_one_line(data: Callable[[], bytes], says: str, tmp_path: Path) -> None:
    """Exit code 2 within 2 GiB of address space: neither a MemoryError nor a segmentation fault."""
    path = tmp_path / "a.sv.jsonl.gz"
    path.write_bytes(data())
    assert path.stat().st_size < 32 * MB
    done = limited("stats", str(path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr[-500:]
    assert done.stderr.startswith("specviz: ")
    assert says in done.stderr


@pytest.mark.parametrize(
    "words", [["stats"], ["stats", "--check"], ["whatif", "--sweep", "specbound"], ["tui", "--replay"]], ids=str
)
def test_too_much_of_what_is_right_names_the_flag(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.sv.jsonl.gz"
    path.write_bytes(members(NODES, 4))
    assert main([*words, str(path), "--max-mb", "2"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{path} holds more than 2 MB" in err
    assert "--max-mb" in err


def test_the_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable too, which reaches what a command starts."""
    path = tmp_path / "a.sv.jsonl.gz"
    path.write_bytes(members(NODES, 4))
    monkeypatch.setenv("SPECVIZ_MAX_MB", "2")
    with pytest.raises(TraceError, match=r"holds more than 2 MB; raise the limit with --max-mb"), Trace(path) as trace:
        list(trace.read())
    assert main(["stats", str(path), "--max-mb", "64"]) == 0
    assert main(["stats", str(path)]) == 2  # the flag holds for its command only
    monkeypatch.setenv("SPECVIZ_MAX_MB", "64")
    assert len(read_events(path)) == 1 + 4 * 4000


def test_keeping_all_records_has_a_lower_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sv.jsonl.gz"
    path.write_bytes(members(NODES, 4))
    monkeypatch.setattr("specviz.trace.reader.KEPT_MB", 2)
    with pytest.raises(
        TraceError, match=r"2 MB of records, which would all be kept in memory; raise the limit with --max"
    ):
        read_events(path)
    with Trace(path) as trace:
        assert sum(1 for _ in trace.read()) == 1 + 4 * 4000


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "plain"])
def test_reading_keeps_nothing(packed: bool, tmp_path: Path) -> None:
    """30 MB of records go through within a few: not with the length of the recording."""
    path = tmp_path / ("a.sv.jsonl.gz" if packed else "a.sv.jsonl")
    with gzip.open(path, "wb", compresslevel=1) if packed else path.open("wb") as file:
        file.write(HEAD)
        for _ in range(30):
            file.write(NODES)
    assert len(NODES) > MB
    with Trace(path) as trace:
        tracemalloc.start()
        try:
            count = sum(1 for _ in trace.read())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert count == 1 + 30 * 4000
    assert peak < 12 * MB
