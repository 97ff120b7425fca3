"""A proxy of this machine: bytes of a server's answers go to the client the moment they come, and unchanged.

Of a request only `Host` is another, which names the server; with `ask`, the fields that make rounds visible are added
to its body. Framing of answers is read by the standard library from a copy: it decides only where one ends.
"""

import http.client
import io
import ipaddress
import json
import re
import select
import socket
import socketserver
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from specviz.engines.asking import ServerError
from specviz.engines.proxy.sides import ANSWERING, ASKED, AnswerSide
from specviz.engines.rounds.server import EngineServer
from specviz.trace import Writer

_HEAD = 1 << 16  # bytes of a line of a request's head
_BODY = 64 << 20  # of a request that fields are added to
_SECONDS = 600.0
_CLOSING_S = 5.0  # what came of answers is read in milliseconds, unless a client takes nothing more


class _Tee(io.RawIOBase):
    """What the server sends, passed on to the client as it is read."""

    def __init__(self, server: socket.socket, client: socket.socket) -> None:
        self._server, self._client = server, client

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._server.recv_into(buffer)
        if n:
            try:
                self._client.sendall(memoryview(buffer)[:n])
            except OSError:
                raise ClientGone from None
        return n


class ClientGone(ServerError):
    """Who asked has gone before the answer was over."""


class _Read:
    """As a socket for `HTTPResponse`, which wants a file of it."""

    def __init__(self, file: "io.BufferedReader[Any]") -> None:
        self._file = file

    def makefile(self, *_: Any) -> "io.BufferedReader[Any]":
        return self._file


class ProxyDoor(socketserver.ThreadingTCPServer):
    """Listens at 127.0.0.1 until it is closed. `say`: one line about something that went wrong.

    Raises ServerError where the port is taken.
    """

    daemon_threads, allow_reuse_address = True, True

    def __init__(
        self, server: EngineServer, trace: Writer, port: int = 0, ask: bool = False, say: Callable[[str], None] = print
    ) -> None:
        self.engine, self.trace, self.ask, self.say = server, trace, ask, say
        self.turn = threading.Lock()
        self.closing = False
        self._connections: set[socket.socket] = set()  # to the server, of those whose answers may still be read
        self._changed = threading.Condition()
        try:
            super().__init__(("127.0.0.1", port), _Client)
        except OSError as error:
            raise ServerError(f"port {port} cannot be used: {error.strerror}; give another, or 0") from None
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.say("a connection ended in an error that is not known here; other requests go on")

    def server_close(self) -> None:
        """Nothing more is accepted, and what came of answers is read to its end; what has not come is not waited for.

        A client has its answer before that is read here, and may be the one who ends this.
        """
        super().server_close()
        with self._changed:
            self.closing = True
            for connection in self._connections:
                with suppress(OSError):  # the server closed it already
                    socket.socket.shutdown(connection, socket.SHUT_RD)  # an SSLSocket's own would end decryption too
            self._changed.wait_for(lambda: not self._connections, _CLOSING_S)

    @contextmanager
    def read_from(self, connection: socket.socket) -> Iterator[None]:
        """While answers of this connection are read: closing waits for that."""
        with self._changed:
            if self.closing:
                raise ConnectionAbortedError
            self._connections.add(connection)
        try:
            yield
        finally:
            with self._changed:
                self._connections.remove(connection)
                self._changed.notify()

    def connected(self) -> socket.socket:
        """A connection to the server. Raises OSError."""
        parts = urllib.parse.urlsplit(self.engine.url)
        assert parts.hostname is not None
        port = parts.port or (443 if parts.scheme == "https" else 80)
        connection = socket.create_connection((parts.hostname, port), _SECONDS)
        if parts.scheme == "https":
            return ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname)
        return connection


def _is_local(address: str) -> bool:
    """A name that nobody can have in the world outside: without a dot, or of an end that is kept for private use."""
    try:
        name = urllib.parse.urlsplit(address).hostname or ""
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return bool(re.fullmatch(r"[\w-]+|[\w.-]+\.(localhost|internal|local)", name))


class _Client(socketserver.StreamRequestHandler):
    """One connection of a client: its requests one after another."""

    server: ProxyDoor
    rfile: "io.BufferedReader[Any]"

    def handle(self) -> None:
        with suppress(ConnectionError):
            head = self._head()
            if not head or not self._is_ours(head):
                return
            try:
                upstream = self.server.connected()
            except OSError as error:
                self.server.say(f"{self.server.engine.url} does not answer: {error}; the client was told 502")
                self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with upstream, self.server.read_from(upstream):
                answers = io.BufferedReader(_Tee(upstream, self.connection))
                while head and self._is_ours(head) and self._passed(head, upstream, answers):
                    head = self._head() if self._goes_on(upstream) else []

    def _is_ours(self, head: list[bytes]) -> bool:
        """Whether a request is of this machine; another is answered 403. Any page in a browser here can post to this
        port, and one whose name was made to lead here can read the answers."""
        named = http.client.parse_headers(io.BytesIO(b"".join(head[1:])))
        host, origin = named["Host"], named["Origin"]
        if (not host or _is_local(f"//{host}")) and (not origin or _is_local(origin)):
            return True
        self.server.say("a request of a web page was refused (403): its Origin or Host is not of this machine")
        self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        return False

    def _goes_on(self, upstream: socket.socket) -> bool:
        """Whether the client asks again, before the server closes the connection: then it is closed here as well."""
        self.connection.setblocking(False)
        waiting = self.rfile.peek(1)  # asked already, behind the request before
        self.connection.setblocking(True)
        if waiting:
            return True
        asks, _, _ = select.select([self.connection, upstream], [], [])
        return self.connection in asks

    def _head(self) -> list[bytes]:
        """The lines of a request's head, with the empty one; nothing at the end of the connection."""
        lines: list[bytes] = []
        while line := self.rfile.readline(_HEAD):
            lines.append(line)
            if line in (b"\r\n", b"\n"):
                return lines
        return []

    def _passed(self, head: list[bytes], upstream: socket.socket, answers: "io.BufferedReader[Any]") -> bool:
        """One request and its answer; whether another may follow."""
        method, _, rest = head[0].partition(b" ")
        path = rest.split(b" ")[0].partition(b"?")[0].decode("latin-1")
        named = http.client.parse_headers(io.BytesIO(b"".join(head[1:])))
        host = urllib.parse.urlsplit(self.server.engine.url).netloc.rpartition("@")[2].encode()
        head = [re.sub(rb"(?i)^(host:[ \t]*)[^\r\n]*", lambda m: m[1] + host, line) for line in head]
        reads = method == b"POST" and path.endswith(ANSWERING)
        try:
            self._send(head, named, upstream, reads and self.server.ask)
            return self._answer(method.decode("latin-1"), answers, reads)
        except ClientGone:
            self.server.say("the client left before its answer was over; what was read stays")
        except (OSError, http.client.HTTPException) as error:
            if not self.server.closing:
                self.server.say(
                    f"the server broke off ({type(error).__name__}); the client saw the same, what was read stays"
                )
        return False

    def _send(self, head: list[bytes], named: Any, upstream: socket.socket, ask: bool) -> None:
        n = int(named.get("Content-Length") or 0)
        if ask and 0 < n <= _BODY:
            body = self._added(self.rfile.read(n))
            length = b"Content-Length: %d\r\n" % len(body)
            head = [length if line.lower().startswith(b"content-length:") else line for line in head]
            upstream.sendall(b"".join(head) + body)
            return
        upstream.sendall(b"".join(head))
        if "chunked" in (named.get("Transfer-Encoding") or "").lower():
            self._pass_chunks(upstream)
        while n and (data := self.rfile.read1(min(n, _HEAD))):
            upstream.sendall(data)
            n -= len(data)

    def _pass_chunks(self, upstream: socket.socket) -> None:
        while line := self.rfile.readline(_HEAD):
            upstream.sendall(line)
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            upstream.sendall(self.rfile.read(size + 2))
        while line := self.rfile.readline(_HEAD):  # trailers
            upstream.sendall(line)
            if line in (b"\r\n", b"\n"):
                return

    def _added(self, body: bytes) -> bytes:
        try:
            request = json.loads(body)
        except ValueError:
            return body
        return json.dumps({**request, **ASKED[self.server.engine.kind]}).encode() if isinstance(request, dict) else body

    def _answer(self, method: str, answers: "io.BufferedReader[Any]", reads: bool) -> bool:
        answer = http.client.HTTPResponse(_Read(answers), method=method)  # type: ignore[arg-type]
        answer.begin()
        plain = answer.headers.get("Content-Encoding", "identity") == "identity"
        side = None
        if reads and answer.status == 200 and plain:
            side = AnswerSide(self.server.engine, self.server.trace, self.server.turn, self.server.say)
        elif reads and not plain:
            self.server.say("a packed answer was passed on unread: let the client send Accept-Encoding: identity")
        whole = False
        try:
            while data := answer.read1(_HEAD):
                if side is not None:
                    side.take(data)
            whole = not answer.length
        finally:
            if side is not None:
                side.end(whole)
        if not whole:
            raise http.client.IncompleteRead(b"")
        return not answer.will_close
