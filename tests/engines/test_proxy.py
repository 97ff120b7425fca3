"""The proxy: what passes is the same to the byte, however it was cut, and its rounds are in the trace."""

import json
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from specviz.cli.look.stats import measure_file
from specviz.engines.proxy import ProxyDoor
from specviz.engines.proxy.sides import AnswerSide
from specviz.engines.rounds.attach import ServerRequest, open_trace
from specviz.engines.rounds.server import EngineServer
from specviz.events import RoundEnd
from specviz.runlog.fold import Run, fold
from specviz.trace import read_events


def _chunk(n: int, drafted: int, accepted: int, stop: bool = False) -> bytes:
    timings = {"prompt_n": 4, "predicted_n": n, "predicted_ms": float(drafted), "draft_n": drafted}
    answer = {"content": "é", "tokens": [7], "timings": {**timings, "draft_n_accepted": accepted}, "stop": stop}
    return f"data: {json.dumps(answer)}\n\n".encode()


STREAM = [_chunk(1, 0, 0), _chunk(2, 4, 1), _chunk(3, 4, 1), _chunk(4, 8, 1, stop=True)]
ANSWER = b"HTTP/1.1 200 Fine\r\nx-ODD:  a \r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
    b"%x;ext\r\n%s\r\n" % (len(piece), piece) for piece in STREAM
)


@contextmanager
def odd_server(answer: bytes, cut: int, stays: bool = False) -> Iterator[tuple[str, list[bytes]]]:
    """Sends `answer` in pieces of `cut` bytes and goes, or `stays` until the other side does; what it was asked."""
    requests: list[bytes] = []

    class Odd(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.rfile.readline()
            n = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            requests.append(head + self.rfile.read(n))
            for first in range(0, len(answer), cut):
                self.wfile.write(answer[first : first + cut])
            if stays:
                self.rfile.read()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Odd) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
        server.shutdown()


def _request(host: str, body: bytes) -> bytes:
    head = f"POST /completion HTTP/1.1\r\nHOST: {host}\r\nauthorization: Bearer secret\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def _through(url: str, bodies: list[bytes], folder: Path, ask: bool = False) -> tuple[list[bytes], Run, list[str]]:
    """What came back for each body, all of them sent at once; the trace; what was said."""
    notices: list[str] = []
    trace = open_trace(EngineServer(url, "llama.cpp", None, None), folder / "p", ServerRequest(""), None)
    with ProxyDoor(EngineServer(url, "llama.cpp", None, None), trace, 0, ask, notices.append) as door:
        threading.Thread(target=door.serve_forever, args=(0.01,), daemon=True).start()
        lines = [socket.create_connection(("127.0.0.1", int(door.server_address[1])), 30) for _ in bodies]
        for line, body in zip(lines, bodies, strict=True):
            line.sendall(_request("door", body))
        got = []
        for line in lines:
            with line, line.makefile("rb") as file:
                got.append(file.read())
        door.shutdown()
    trace.close()
    return got, fold(read_events(trace.path)), notices


def _rounds(run: Run) -> list[tuple[int, int]]:
    return [(end.n_drafted, end.n_accepted) for record in run.rounds for end in record.every(RoundEnd)]


@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_two_clients_get_every_byte_and_the_trace_both_answers(tmp_path: Path, cut: int) -> None:
    whole = ANSWER + b"0\r\n\r\n"
    with odd_server(whole, cut) as (url, requests):
        got, run, notices = _through(url, [b'{"prompt": "a" }', b"{ }"], tmp_path)
    assert got == [whole, whole]
    host = url.removeprefix("http://")
    assert sorted(requests) == sorted(_request(host, body) for body in (b'{"prompt": "a" }', b"{ }"))
    assert _rounds(run) == [(0, 0), (4, 1), (4, 0)] * 2
    assert not notices
    assert all(b"secret" not in file.read_bytes() for file in tmp_path.iterdir())


def test_a_server_that_dies_in_mid_stream_leaves_what_it_said(tmp_path: Path) -> None:
    with odd_server(ANSWER, 50) as (url, _):
        got, run, notices = _through(url, [b"{}"], tmp_path)
    assert got == [ANSWER]
    assert run.rounds
    assert len(notices) == 1
    assert "broke off" in notices[0]


@pytest.mark.parametrize(("end", "warned"), [(b"0\r\n\r\n", []), (b"", ["cut_short"])], ids=["whole", "cut"])
def test_a_proxy_that_ends_behind_what_its_client_got_keeps_all_of_it(
    tmp_path: Path, end: bytes, warned: list[str]
) -> None:
    sent, notices = ANSWER + end, list[str]()
    with odd_server(sent, 50, stays=True) as (url, _):
        server = EngineServer(url, "llama.cpp", None, None)
        trace = open_trace(server, tmp_path / "p", ServerRequest(""), None)
        with ProxyDoor(server, trace, 0, False, notices.append) as door:
            threading.Thread(target=door.serve_forever, args=(0.01,), daemon=True).start()
            with socket.create_connection(("127.0.0.1", int(door.server_address[1])), 30) as line:
                line.sendall(_request("door", b"{}"))
                assert line.makefile("rb").read(len(sent)) == sent
                door.shutdown()
                door.server_close()
                trace.close()
    run = fold(read_events(trace.path))
    assert _rounds(run) == [(0, 0), (4, 1), (4, 0)]
    assert [warning.code for warning in run.warnings] == warned
    assert not notices


def test_a_server_that_has_gone_is_a_502_and_a_line(tmp_path: Path) -> None:
    got, run, notices = _through("http://127.0.0.1:1", [b"{}"], tmp_path)
    assert got[0].startswith(b"HTTP/1.1 502 ")
    assert not run.rounds
    assert len(notices) == 1
    assert "the client was told 502" in notices[0]


@pytest.mark.parametrize(
    "body", [b"<html>no</html>", b'{"error": {"message": "no"}}', b"data: {bad", b'{"timings": 7, "stop": true}']
)
def test_what_is_no_answer_passes_and_leaves_no_round(tmp_path: Path, body: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with odd_server(answer, 5) as (url, _):
        got, run, notices = _through(url, [b"{}"], tmp_path)
    assert got == [answer]
    assert not run.rounds
    assert not notices


def test_fields_are_added_only_where_that_was_asked(tmp_path: Path) -> None:
    with odd_server(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", 50) as (url, requests):
        got, _, _ = _through(url, [b'{"prompt": "a"}'], tmp_path, ask=True)
    assert got == [b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"]
    body = json.loads(requests[0].partition(b"\r\n\r\n")[2])
    assert body == {"prompt": "a", "stream": True, "timings_per_token": True, "return_tokens": True}


def test_an_answer_without_counts_says_what_the_client_must_send(tmp_path: Path) -> None:
    reply = {"content": "abc", "stop": True, "timings": {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 5}}
    body = json.dumps(reply).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with odd_server(answer, 5) as (url, _):
        got, run, _ = _through(url, [b"{}"], tmp_path)
    assert got == [answer]
    assert not run.rounds
    assert "timings_per_token" in run.warnings[0].message
    assert (run.reported[0].n_drafted, run.reported[0].n_accepted) == (8, 5)


def test_an_answer_of_which_only_sums_are_known_is_no_violation(tmp_path: Path) -> None:
    """Another one beside it has its rounds: those alone are held against what the server counted of them."""
    reply = {"content": "abc", "stop": True, "timings": {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 5}}
    body = json.dumps(reply).encode()
    server = EngineServer("http://x", "llama.cpp", None, None)
    trace = open_trace(server, tmp_path / "p", ServerRequest(""), None)
    for answer in (body, b"".join(STREAM)):
        side = AnswerSide(server, trace, threading.Lock(), print)
        side.take(answer)
        side.end(True)
    trace.close()
    card = measure_file(trace.path).judgement.card
    assert card is not None
    assert dict(card.rows)["identities checked"].startswith("3 totals")
    assert not card.violations


def test_who_leaves_in_the_middle_of_a_round_is_told_of_no_tokens_behind_the_text(tmp_path: Path) -> None:
    server = EngineServer("http://x", "llama.cpp", None, None)
    trace = open_trace(server, tmp_path / "p", ServerRequest(""), None)
    side = AnswerSide(server, trace, threading.Lock(), print)
    side.take(_chunk(1, 0, 0) + _chunk(2, 4, 3))
    side.end(False)
    trace.close()
    assert [warning.code for warning in fold(read_events(trace.path)).warnings] == ["cut_short"]


def _timed(**odd: Any) -> bytes:
    timings = {"prompt_n": 4, "predicted_n": 2, "predicted_ms": 1.0, "draft_n": 4, "draft_n_accepted": 1}
    answer = {"content": "a", "tokens": [7, 8], "timings": {**timings, **odd}, "stop": False}
    return f"data: {json.dumps(answer)}\n\n".encode()


@pytest.mark.parametrize(
    "bad",
    [
        _timed(draft_n=-4, draft_n_accepted=-1),
        _timed(draft_n=10**18),
        _timed(draft_n=1 << 20),
        _timed(draft_n=2, draft_n_accepted=9),
        _timed(predicted_n=float("inf")),
        _timed(predicted_ms="x"),
        b'data: {"content": "\\ud800", "tokens": [7], "timings": {"predicted_n": 1}, "stop": true}\n\n',
        b'data: {"timings": ' + b"[" * 100_000 + b"\n\n",
        b'data: {"timings": {"predicted_n": 3}, "stop": true, "content": {"a": 1}, "tokens": ["x"]}\n\n',
        b"data: {" + b"x" * (17 << 20),
    ],
    ids=range(10),
)
def test_an_odd_answer_takes_no_later_one_with_it(tmp_path: Path, bad: bytes) -> None:
    """Nor one before it, whose records wait to be written; and the trace comes to its end."""
    server = EngineServer("http://x", "llama.cpp", None, None)
    trace = open_trace(server, tmp_path / "p", ServerRequest(""), None)
    turn, good = threading.Lock(), b"".join(STREAM)
    for answer in (good, bad, good, good):
        side = AnswerSide(server, trace, turn, lambda words: None)
        for first in range(0, len(answer), 1 << 16):
            side.take(answer[first : first + (1 << 16)])
        side.end(True)
    trace.close()
    assert trace.path.suffix == ".gz"
    run = fold(read_events(trace.path))
    assert run.end is not None
    whole = [(0, 0), (4, 1), (4, 0)]
    queries: dict[int, list[tuple[int, int]]] = {}
    for record in run.rounds:
        queries.setdefault(record.q, []).extend((end.n_drafted, end.n_accepted) for end in record.every(RoundEnd))
    assert sum(rounds == whole for rounds in queries.values()) == 3


@pytest.mark.parametrize(
    ("head", "refused"),
    [
        ("Host: evil.example:9000", True),
        ("Host: 127.0.0.1\r\nOrigin: https://evil.example", True),
        ("Host: 127.0.0.1\r\nOrigin: null", True),
        ("Host: localhost:9000\r\nOrigin: http://localhost:3000", False),
        ("Host: host.docker.internal", False),
        ("Host: [::1]:9000", False),
    ],
)
def test_a_web_page_of_another_place_asks_nothing(tmp_path: Path, head: str, refused: bool) -> None:
    notices: list[str] = []
    with odd_server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 50) as (url, requests):
        server = EngineServer(url, "llama.cpp", None, None)
        trace = open_trace(server, tmp_path / "p", ServerRequest(""), None)
        with ProxyDoor(server, trace, 0, False, notices.append) as door:
            threading.Thread(target=door.serve_forever, args=(0.01,), daemon=True).start()
            with socket.create_connection(("127.0.0.1", int(door.server_address[1])), 30) as line:
                line.sendall(f"POST /completion HTTP/1.1\r\n{head}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
                got = line.makefile("rb").readline()
            door.shutdown()
        trace.close()
    assert (b" 403 " in got, bool(requests)) == (refused, not refused)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_proxy_that_is_stopped_closes_its_trace(tmp_path: Path, number: signal.Signals) -> None:
    pages = b'HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\n{"default_generation_settings": null}'
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _answering(pages)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"127.0.0.1:{server.server_address[1]}"
        words = [sys.executable, "-m", "specviz", "attach", url, "--proxy", "0", "-o", str(tmp_path / "p")]
        heard = partial(signal.signal, number, signal.SIG_DFL)  # who runs the tests in the background ignores SIGINT
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, **pipes, text=True, preexec_fn=heard) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("http://127.0.0.1:")
            process.send_signal(number)
            try:
                _, err = process.communicate(timeout=60)
            finally:
                process.kill()  # a test that failed must not wait for it
        server.shutdown()
    assert process.returncode == 0
    assert "kept in" in err
    end = fold(read_events(tmp_path / "p")).end
    assert end is not None
    assert end.reason == "stopped"


def _answering(page: bytes) -> type[socketserver.StreamRequestHandler]:
    class Page(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline() not in (b"\r\n", b""):
                pass
            self.wfile.write(page)

    return Page
