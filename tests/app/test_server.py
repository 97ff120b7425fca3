"""The routes of the live stream over real sockets: tokens, frames, commands, resuming, and how it ends."""

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.types import Message

from app.served import Served, served
from specviz.errors import SpecvizError
from specviz_app.launcher import free_port, url
from specviz_app.server.server import MOST_STREAMS, Guards


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with served() as server:
        yield server


def _ask(live: Served, method: str, path: str, body: str = "", **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    reply = json.loads(answer.read())
    connection.close()
    return answer.status, reply


def _frames(live: Served, n: int, last: str | None = None) -> list[tuple[int, dict[str, Any]]]:
    """The next `n` frames of the stream."""
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    connection.request("GET", f"/api/events?token={live.token}", headers={"Last-Event-ID": last} if last else {})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    frames: list[tuple[int, dict[str, Any]]] = []
    number = -1
    while len(frames) < n:
        line = answer.readline().decode()
        if line.startswith("id: "):
            number = int(line[4:])
        if line.startswith("data: "):
            frames.append((number, json.loads(line[6:])))
    connection.close()
    return frames


def test_a_stream_begins_with_a_whole_frame_and_numbers_grow(live: Served) -> None:
    (first, frame), *_ = _frames(live, 1)
    assert frame["seq"] == first
    assert {"state", "now", "core", "refusals", "notices"} <= set(frame)
    assert {"run", "points", "metrics", "knobs", "facts"} <= set(frame["now"])


def test_a_client_that_comes_back_gets_the_newest_frame_or_waits(live: Served) -> None:
    (number, _), *_ = _frames(live, 1)
    (again, _), *_ = _frames(live, 1, last=str(number - 1))
    assert again >= number


@pytest.mark.parametrize("token", ["", "wrong"])
def test_without_the_token_there_is_no_stream_and_no_command(token: str, live: Served) -> None:
    assert _ask(live, "GET", f"/api/events?token={token}")[0] == 403
    status, reply = _ask(live, "POST", "/api/command", '{"cmd":"stop"}', **{"X-Specviz-Token": token})
    assert status == 403
    assert "token" in reply["message"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ('{"cmd":"pause"}', 200, ""),
        ("nonsense", 400, "bad command"),
        ('{"cmd":"fly"}', 400, "bad command"),
        ('{"cmd":"step","n":-1}', 409, "1 to 1,000 rounds"),
        ('{"cmd":"knob","name":"x","value":' + "[" * 30_000 + "]" * 30_000 + "}", 400, "bad command"),
        ('{"cmd":"start","prompt":"x"}', 409, "started from the page"),
        ('{"cmd":"stop","x":"' + "y" * 70_000 + '"}', 413, "one short line"),
    ],
)
def test_commands_are_taken_or_refused_in_words(body: str, status: int, words: str, live: Served) -> None:
    got, reply = _ask(live, "POST", "/api/command", body, **{"X-Specviz-Token": live.token})
    assert got == status
    assert words in reply.get("message", "")


@pytest.mark.parametrize("message", ["300000000", "99999999999999999999", "-1", "x"])
def test_a_long_body_is_refused_before_any_of_it_is_read(message: str, live: Served) -> None:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    connection.putrequest("POST", "/api/command")
    connection.putheader("X-Specviz-Token", live.token)
    connection.putheader("Content-Length", message)
    connection.endheaders()  # and not one byte of a body
    assert connection.getresponse().status in (400, 413)  # what is no number is refused by the server itself
    connection.close()


def test_a_body_without_a_length_is_read_no_further_than_a_command_goes(live: Served) -> None:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    pieces = (b"x" * 1024 for _ in range(200))
    connection.request("POST", "/api/command", pieces, {"X-Specviz-Token": live.token}, encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize("path", ["/", "/overview", "/api/events", "/_stcore/health"])
def test_no_other_site_may_frame_a_page_or_learn_its_address(path: str, live: Served) -> None:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    connection.request("GET", path)
    headers = connection.getresponse().headers
    connection.close()
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_streams_are_limited(live: Served) -> None:
    host = urlsplit(live.url).netloc
    held = []
    try:
        for _ in range(MOST_STREAMS):
            held.append(http.client.HTTPConnection(host, timeout=20))
            held[-1].request("GET", f"/api/events?token={live.token}")
            answer = held[-1].getresponse()
            assert answer.status == 200
            answer.readline()  # it runs
        status, reply = _ask(live, "GET", f"/api/events?token={live.token}")
        assert status == 503
        assert "close some" in reply["message"]
    finally:
        for connection in held:
            connection.close()


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 101), ("localhost:8501", 101), ("evil.example", 403)])
def test_a_foreign_name_for_this_machine_gets_no_session(host: str, status: int, live: Served) -> None:
    connection = http.client.HTTPConnection(urlsplit(live.url).netloc, timeout=20)
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Host": host,
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    connection.request("GET", "/_stcore/stream", headers=headers)
    assert connection.getresponse().status == status
    connection.close()


@pytest.mark.parametrize(
    ("origin", "passes"),
    [
        (None, True),
        ("http://127.0.0.1:8501", True),
        ("http://box:8501", True),
        ("https://evil.example", False),
        ("null", False),
        ("http://[", False),
    ],
)
async def test_a_session_for_a_page_of_another_site_never_reaches_the_framework(
    origin: str | None, passes: bool
) -> None:
    """It would ask the internet for the address of this machine before it refuses."""
    reached: list[str] = []
    sent: list[str] = []

    async def framework(*_: object) -> None:
        reached.append("it")

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    headers = [(b"host", b"box:8501"), *([(b"origin", origin.encode())] if origin is not None else [])]
    await Guards(framework)({"type": "websocket", "headers": headers}, receive, send)
    assert (bool(reached), sent) == (passes, [] if passes else ["websocket.close"])


def test_ctrl_c_ends_a_server_with_an_open_stream() -> None:
    with served() as own:
        connection = http.client.HTTPConnection(urlsplit(own.url).netloc, timeout=20)
        connection.request("GET", f"/api/events?token={own.token}")
        assert connection.getresponse().status == 200
        assert own.interrupt() in (0, 130, -2)
        connection.close()


def test_a_port_in_use_is_passed_over() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port("127.0.0.1", port) > port
        taken.close()
        assert free_port("127.0.0.1", port) == port


def test_a_host_that_is_not_here_is_told() -> None:
    with pytest.raises(SpecvizError, match="try 127"):
        free_port("no-such-host.invalid", 8501)
    with pytest.raises(SpecvizError, match="try 127"):
        free_port("192.0.2.1", 8501)
    assert (url("0.0.0.0", 1), url("::1", 2)) == ("http://localhost:1", "http://[::1]:2")
