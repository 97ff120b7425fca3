"""The server behind the pages: settings, the core, and the routes of the live stream.

`GET /api/events` sends frames as server-sent events, `POST /api/command` takes one command of the wire (pause, resume,
step, stop, knob, pace), `GET /api/stage` gives the head of a run, or some of its rounds, `POST /api/whatif` decides a
recorded round again with something changed, `POST /api/room` takes where the page that presents stands
it. All want the token that only pages of this server are given: another site open in the same browser can reach a
loopback port, but cannot read the token. Where other machines reach the server, commands, and to present, want the
owner's token instead.
"""

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specviz.view import Frame
from specviz_app.server.answers import HEADERS, forbidden, played, post_command, post_presence, post_whatif, refused
from specviz_app.server.core import TICK_S, ServedRun, Settings
from specviz_app.server.live_rounds import LIVE_RUN, LiveRounds, now
from specviz_app.server.room import PresenterSession
from specviz_app.server.stages import RecordedRun, RunStore

EVENTS, COMMAND, STAGE, WHAT_IF = "/api/events", "/api/command", "/api/stage", "/api/whatif"
ROOM = "/api/room"
ALONE = "room"  # the view of a stream for a page that shows a recording: where the page that presents stands, no frames
ONLY_OWNER = "only who started this server steers its core: open it by the address that it printed, with the key"
HEARTBEAT_S = 10.0
MOST_STREAMS = 64  # open at once; a browser holds at most six
_LONGEST = 64 << 10  # bytes of a command
LOOPBACK = ("127.0.0.1", "::1", "localhost")


_GUARDS = {
    # Streamlit writes styles and scripts into its page, and compiles schemas and plots; nothing comes from elsewhere.
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guards:
    """Headers of every answer: no other site may frame a page, learn its address, or put anything into it; and no page
    of another site gets a session: the framework would ask the internet for this machine's address before it says so.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_GUARDS)
            await send(message)

        if scope["type"] == "websocket" and _is_foreign(Headers(scope=scope)):
            await send({"type": "websocket.close", "code": 1008})
            return
        await self.app(scope, receive, guarded if scope["type"] == "http" else send)


def _is_foreign(headers: Headers) -> bool:
    origin, host = headers.get("origin"), headers.get("host", "")
    try:
        named = urlsplit(origin or "").hostname
        return origin is not None and named not in (*LOOPBACK, urlsplit(f"//{host}").hostname)
    except ValueError:
        return True


class Server:
    """One per process. `streams`: whether the routes are served (not under a bare `streamlit run`)."""

    def __init__(self, settings: Settings, streams: bool = False, animate: bool = True) -> None:
        self.settings, self.streams = settings, streams
        self.core = ServedRun(settings, animate)
        self.stages = RunStore()
        self.room = PresenterSession()
        self.token = self.owner = secrets.token_urlsafe(24)
        self.closing = threading.Event()
        self.n_streams = 0
        self._lock = threading.Lock()
        self._held: dict[str, tuple[int, bytes]] = {}
        self._live: tuple[str, LiveRounds] = ("", LiveRounds(self.core, ""))

    @property
    def shared(self) -> bool:
        """Whether there are pages that only watch."""
        return self.owner != self.token

    def share(self) -> str:
        """Other machines reach it: from now on commands want a key of their own, which is returned."""
        self.owner = secrets.token_urlsafe(24)
        return self.owner

    def frame(self, view: str = "stage") -> tuple[int, bytes]:
        """The newest frame and its number, for the stage; made once however many tabs look."""
        with self._lock:
            if view not in self._held or self._held[view][0] != self.core.version:
                self._held[view] = self.core.look(_VIEWS[view])
            return self._held[view]

    def played(self, key: str) -> RecordedRun | LiveRounds:
        """The run of a key: a recording, or the newest of the core. Raises SpecvizError for what no page offered."""
        if not key.startswith(LIVE_RUN):
            return self.stages.run(key)
        with self._lock:
            if self._live[0] != key:
                self._live = (key, LiveRounds(self.core, key))
            return self._live[1]

    def close(self) -> None:
        self.closing.set()
        self.core.close()


def _staged(frame: Frame, core: ServedRun) -> tuple[int, bytes]:
    return core.version, now(frame, core)


_VIEWS = {"stage": _staged}


_server: Server | None = None
_making = threading.Lock()


def current() -> Server:
    """The server of this process; one without routes when the script runs by itself."""
    global _server
    with _making:
        if _server is None:
            _server = Server(Settings())
        return _server


def install(server: Server) -> Server:
    """Make it the server of this process."""
    global _server
    with _making:
        _server = server
    return server


def routes(server: Server) -> list[Route]:
    async def events(request: Request) -> Response:
        if not _allowed(server, request.query_params.get("token", "")):
            return forbidden("this stream needs the token of a page of this server")
        if server.n_streams >= MOST_STREAMS:
            return refused(f"{MOST_STREAMS} pages follow the run already; close some", 503)
        view = request.query_params.get("view", "stage")
        if view not in _VIEWS and view != ALONE:
            return refused("no such view of the run", 404)
        return StreamingResponse(_stream(server, request, view), media_type="text/event-stream", headers=HEADERS)

    async def command(request: Request) -> Response:
        if not _same(request.headers.get("x-specviz-token", ""), server.owner):
            return forbidden(ONLY_OWNER if server.shared else "commands need the token of a page of this server")
        return await _answered(request, "command", partial(post_command, server))

    async def stage(request: Request) -> Response:
        if not _allowed(server, request.headers.get("x-specviz-token", "")):
            return forbidden("a run is handed to pages of this server only")
        return await asyncio.to_thread(played, server, request.query_params)

    async def what_if(request: Request) -> Response:
        if not _allowed(server, request.headers.get("x-specviz-token", "")):
            return forbidden("a run is handed to pages of this server only")
        return await _answered(request, "question", partial(post_whatif, server))

    async def room(request: Request) -> Response:
        token = request.headers.get("x-specviz-token", "")
        leads = _same(token, server.owner)
        if not leads and not _allowed(server, token):
            return forbidden("pages of this server only look at a run together")
        return await _answered(request, "word", partial(post_presence, server, leads))

    return [
        Route(EVENTS, events, methods=["GET"]),
        Route(COMMAND, command, methods=["POST"]),
        Route(STAGE, stage, methods=["GET"]),
        Route(WHAT_IF, what_if, methods=["POST"]),
        Route(ROOM, room, methods=["POST"]),
    ]


async def _stream(server: Server, request: Request, view: str) -> AsyncIterator[bytes]:
    """The newest frame whenever there is another one, and for who asks (`room`) where the page that presents stands.

    A frame is whole, so a client that comes back misses nothing.
    """
    seen, room_version, quiet = _last_seen(request), -1, 0.0
    together = view == ALONE or "room" in request.query_params
    server.n_streams += 1
    try:
        yield b"retry: 500\n\n"
        while not server.closing.is_set() and not await request.is_disconnected():
            standing, words = server.room.state()
            if together and standing != room_version:
                room_version, quiet = standing, 0.0
                yield b"event: room\ndata: %s\n\n" % words
            if view in _VIEWS and server.core.version != seen:
                seen, body = await asyncio.to_thread(server.frame, view)
                quiet = 0.0
                yield b"id: %d\ndata: %s\n\n" % (seen, body)
            elif quiet >= HEARTBEAT_S:
                quiet = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(TICK_S)
            quiet += TICK_S
    finally:
        server.n_streams -= 1


async def _answered(request: Request, what: str, answer: Callable[[bytes], Response]) -> Response:
    """The answer to what a page sent, worked out beside the loop; a refusal of what came in part or is too long."""
    try:
        body = await _short(request)
    except ClientDisconnect:
        return refused(f"the {what} came only in part", 400)
    if body is None:
        return refused(f"a {what} is one short line of JSON", 413)
    return await asyncio.to_thread(answer, body)


async def _short(request: Request) -> bytes | None:
    """The body, as far as a command may go; None for a longer one, of which no more is read than that."""
    length = request.headers.get("content-length", "0")
    if not (length.isdecimal() and length.isascii()) or len(length) > 9 or int(length) > _LONGEST:
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST:
            return None
    return body


def _last_seen(request: Request) -> int:
    known = request.headers.get("last-event-id", "")
    return int(known) if known.isdecimal() and known.isascii() else -1


def _allowed(server: Server, token: str) -> bool:
    return _same(token, server.token)


def _same(presented: str, wanted: str) -> bool:
    return secrets.compare_digest(presented.encode(), wanted.encode())
