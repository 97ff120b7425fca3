"""Everything that is no trace gets one clear line and exit code 2, through the command line."""

import gzip
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.cli import main
from specviz.errors import TraceError
from specviz.events import VERSION
from specviz.trace import Trace, read_events
from support.traces import make_events, write_trace

EVENTS = make_events()
NOW = b'"v":[%d,%d]' % VERSION
Make = Callable[[Path], Path]


def whole(folder: Path) -> bytes:
    return gzip.decompress(write_trace(folder / "source", EVENTS).read_bytes())


def missing(folder: Path) -> Path:
    write_trace(folder / "bonfire", EVENTS)
    return folder / "bonfires"


def missing_folder(folder: Path) -> Path:
    return folder / "there" / "run.sv.jsonl"


def a_folder(folder: Path) -> Path:
    write_trace(folder / "inside", EVENTS)
    return folder


def an_empty_folder(folder: Path) -> Path:
    return folder


def empty(folder: Path) -> Path:
    (folder / "empty.sv.jsonl").touch()
    return folder / "empty.sv.jsonl"


def text(folder: Path) -> Path:
    (folder / "letter.txt").write_text("Dear reader,\nall is well.\n")
    return folder / "letter.txt"


def binary(folder: Path) -> Path:
    (folder / "photo").write_bytes(bytes(range(256)) * 40)
    return folder / "photo"


def other_json(folder: Path) -> Path:
    (folder / "data.jsonl").write_text('{"loss": 3.2}\n{"loss": 3.1}\n')
    return folder / "data.jsonl"


def wire(folder: Path) -> Path:
    (folder / "wire.jsonl").write_bytes(b'{"ev":"catalogue"}\n' + whole(folder))
    return folder / "wire.jsonl"


def zipped_text(folder: Path) -> Path:
    (folder / "letter.gz").write_bytes(gzip.compress(b"Dear reader,\n"))
    return folder / "letter.gz"


def newer(folder: Path) -> Path:
    (folder / "new.sv.jsonl").write_bytes(whole(folder).replace(NOW, b'"v":[9,2]'))
    return folder / "new.sv.jsonl"


def cut_header(folder: Path) -> Path:
    (folder / "cut.sv.jsonl").write_bytes(whole(folder)[:100])
    return folder / "cut.sv.jsonl"


def truncated_gz(folder: Path) -> Path:
    path = write_trace(folder / "run", EVENTS)
    path.write_bytes(path.read_bytes()[:-200])
    return path


def damaged_gz(folder: Path) -> Path:
    path = write_trace(folder / "run", EVENTS)
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF  # the checksum
    path.write_bytes(bytes(data))
    return path


def malformed_line(folder: Path) -> Path:
    lines = whole(folder).splitlines(keepends=True)
    lines[6] = b'{"ev":"node","node":"three"}\n'
    (folder / "bad.sv.jsonl").write_bytes(b"".join(lines))
    return folder / "bad.sv.jsonl"


def not_json(folder: Path) -> Path:
    lines = whole(folder).splitlines(keepends=True)
    lines[4] = b"<<<<<<< HEAD\n"
    (folder / "merge.sv.jsonl").write_bytes(b"".join(lines))
    return folder / "merge.sv.jsonl"


def bad_utf8(folder: Path) -> Path:
    lines = whole(folder).splitlines(keepends=True)
    lines[4] = b'{"ev":"warn","code":"\xff\xfe","message":""}\n'
    (folder / "bytes.sv.jsonl").write_bytes(b"".join(lines))
    return folder / "bytes.sv.jsonl"


def two_runs(folder: Path) -> Path:
    lines = whole(folder).splitlines(keepends=True)
    (folder / "two.sv.jsonl").write_bytes(b"".join(lines[:-1] + lines))
    return folder / "two.sv.jsonl"


def behind_the_end(folder: Path) -> Path:
    lines = whole(folder).splitlines(keepends=True)
    (folder / "after.sv.jsonl").write_bytes(b"".join([*lines, lines[-2]]))
    return folder / "after.sv.jsonl"


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


CASES: list[tuple[Make, str]] = [
    (missing, "no trace .*bonfires; did you mean 'bonfire'"),
    (missing_folder, "there is no folder .*there"),
    (a_folder, "is a folder; name one of its traces: inside.sv.jsonl.gz"),
    (an_empty_folder, "is a folder; name one of its traces .there is none in it"),
    (empty, "is empty: nothing was recorded; record again"),
    (text, "letter.txt is not a specviz trace: its first line is not a JSON object"),
    (binary, "photo is not a specviz trace"),
    (other_json, "data.jsonl is not a specviz trace: its first line is a JSON object without 'ev'"),
    (wire, "its first line is a 'catalogue' record, not a header"),
    (zipped_text, "letter.gz is not a specviz trace: its first line is not a JSON object"),
    (newer, r"was written by trace version 9\.2, this specviz reads up to 1\.x: pip install -U"),
    (cut_header, "was cut off inside its header"),
    (truncated_gz, "the gzip data ends early, after [0-9]+ whole lines; copy the file again"),
    (damaged_gz, "the gzip data is damaged"),
    (malformed_line, r"bad.sv.jsonl line 7: Expected `int`, got `str` - at `\$.node`"),
    (not_json, "merge.sv.jsonl line 5: JSON is malformed"),
    (bad_utf8, "bytes.sv.jsonl line 5: "),
    (two_runs, "line [0-9]+: a second header"),
    (behind_the_end, "line [0-9]+: a 'round_end' record stands behind the end of the run"),
    (pipe, "is not a regular file"),
]


@pytest.mark.parametrize(("make", "reason"), CASES, ids=[make.__name__ for make, _ in CASES])
def test_one_clear_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Make, reason: str
) -> None:
    path = make(tmp_path)
    with pytest.raises(TraceError, match=reason):
        read_events(path)
    assert main(["stats", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("specviz: ")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "run", EVENTS)
    path.chmod(stat.S_IWUSR)
    with pytest.raises(TraceError, match=r"cannot read .*: Permission denied"):
        Trace(path)


def test_a_read_that_fails_names_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_trace(tmp_path / "run", EVENTS)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(TraceError, match=r"cannot read .*run.sv.jsonl.gz: Permission denied"):
        Trace(path)


def test_the_good_file_beside_them_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_trace(tmp_path / "run", EVENTS)
    assert main(["stats", str(path)]) == 0
    assert "mean_acceptance_length" in capsys.readouterr().out
    assert read_events(path)[:-1] == EVENTS[:-1]
