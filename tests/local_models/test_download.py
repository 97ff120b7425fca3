"""Fetching a file from a server: what is here already is not asked for again, and what goes wrong is one line."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from specviz.errors import ModelError
from specviz.local_models.download import Unreachable, fetch, refuse_other, sha256

CONTENT = bytes(range(256)) * 40


class _Server(http.server.BaseHTTPRequestHandler):
    """Answers as it is told: whole, in part, cut short, or not at all."""

    way: ClassVar[str] = "ranges"
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.way == "ranges" else 0
        if self.way == "gone" or begin >= len(CONTENT):
            self.send_error(404 if self.way == "gone" else 416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        self.end_headers()
        self.wfile.write(CONTENT[begin : 100 if self.way == "cut" else None])

    def log_message(self, *args: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(_Server, "way", "ranges")
    monkeypatch.setattr(_Server, "asked", [])
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/file.whl"
        server.shutdown()


def _nothing(what: str, done: int, total: int) -> None:
    """No bar."""


def test_a_file_comes_whole_and_its_progress_is_told(address: str, tmp_path: Path) -> None:
    progress: list[tuple[int, int]] = []
    fetch(address, tmp_path / "part", "it", lambda what, done, total: progress.append((done, total)))
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert progress[-1] == (len(CONTENT), len(CONTENT))


def test_only_what_is_missing_is_asked_for(address: str, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:1000])
    fetch(address, part, "it", _nothing)
    assert part.read_bytes() == CONTENT
    assert _Server.asked == ["bytes=1000-"]
    fetch(address, part, "it", _nothing)
    assert part.read_bytes() == CONTENT, "nothing lies behind its end"


def test_a_server_that_knows_no_ranges_sends_all_again(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Server, "way", "whole")
    part = tmp_path / "part"
    part.write_bytes(b"of another time")
    fetch(address, part, "it", _nothing)
    assert part.read_bytes() == CONTENT


def test_a_connection_that_ends_early_keeps_what_came(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "part"
    with monkeypatch.context() as patch:
        patch.setattr(_Server, "way", "cut")
        with pytest.raises(Unreachable, match="it: the connection ended"):
            fetch(address, part, "it", _nothing)
    assert part.read_bytes() == CONTENT[:100]
    fetch(address, part, "it", _nothing)
    assert part.read_bytes() == CONTENT


def test_no_such_file_and_no_server_are_one_line(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Server, "way", "gone")
    with pytest.raises(Unreachable, match="the package index answers 404"):
        fetch(address, tmp_path / "part", "it", _nothing)
    with pytest.raises(Unreachable, match=r"cannot be fetched: .*the same command goes on"):
        fetch("http://127.0.0.1:9/file.whl", tmp_path / "part", "it", _nothing)


def test_another_file_is_deleted_and_both_hashes_said(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT)
    refuse_other(part, sha256(part), "it")
    with pytest.raises(ModelError, match=f"SHA-256 {sha256(part)[:16]}…, not {'0' * 16}…"):
        refuse_other(part, "0" * 64, "it")
    assert not part.exists()
