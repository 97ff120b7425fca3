"""Asking a server: its address as it is at hand, one way to ask, and every way that fails as one line.

A key is for the server that was named: no redirect is followed, and it comes from the environment, not from a command
line that every user of the machine can read. Nobody is waited for without end: not before an answer begins, and not for
an answer that comes a byte a second.
"""

import base64
import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from specviz.errors import SpecvizError
from specviz.text import running

KEY_VARIABLE = "SPECVIZ_SERVER_KEY"
_TOLD = 2000  # bytes of an answer that says what is wrong
_PIECE = 1 << 16  # bytes that are read at once
_BASIC = "Basic "  # begins a key that stands for user and password
_USER = re.compile(r"((?:^|//))[^/@]*@")
T = TypeVar("T")
# What code that reads somebody else's JSON raises where that is of another form than it should be.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ServerError(SpecvizError):
    """A server cannot be asked, or its answer not be read."""


class AnswerRefused(ServerError):
    """It answers with the HTTP status `code`, which who asked may understand better."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def server_address(raw: str) -> str:
    """`host:port`, with or without scheme, user and password, path and /v1, as the address below which pages are asked
    for; it never holds the password (`signed_in`).

    Raises ServerError.
    """
    address = raw.strip()
    shown = running(_USER.sub(r"\1", raw))
    try:
        parts = _split(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ServerError(f"'{shown}' is no address: {error}; write it like localhost:8000") from None
    if not known or any(c.isspace() for c in address):
        raise ServerError(f"'{shown}' is no address of a server; write it like localhost:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))


def signed_in(raw: str, key: str | None) -> str | None:
    """The key to ask with: user and password where the address has them (`http://user:password@host`)."""
    parts = _split(raw.strip())
    if parts.username is None:
        return key
    pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return _BASIC + base64.b64encode(pair.encode()).decode()


def _split(address: str) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(address if "://" in address else f"http://{address}")


def key_of(variable: str | None) -> str | None:
    """The key that a variable of the environment holds; None: the usual one, which need not be set. Raises ServerError
    for a named one that is not."""
    key = os.environ.get(variable or KEY_VARIABLE, "").strip()
    if variable is not None and not key:
        raise ServerError(f"the variable {variable} is not set: export {variable}=... and ask again")
    return key or None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def within(seconds: float, address: str, call: Callable[[], T]) -> T:
    """What `call` gives, on a thread of its own. Raises what it raises, and ServerError where it takes longer.

    A time-out of a socket begins anew with every byte, and names are looked up without any.
    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            failed.append(error)

    asking = threading.Thread(target=run, name="ask", daemon=True)
    asking.start()
    asking.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise ServerError(f"{address} has not answered within {seconds:g} s: is it the right server, is it busy?")
    return done[0]


def ask(address: str, key: str | None, seconds: float, body: Mapping[str, Any] | None = None) -> Any:
    """The open answer, to be closed by who reads it. `key`: a bearer token, or what `signed_in` made; `body`: sent as
    JSON; `seconds`: for its head, and between two pieces of the rest.

    Raises ServerError.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"} if data else {})
    if key:
        request.add_header("Authorization", key if key.startswith(_BASIC) else f"Bearer {key}")
    try:
        return within(seconds, address, lambda: _opener.open(request, timeout=seconds))
    except urllib.error.HTTPError as error:
        with error:
            raise AnswerRefused(_refused(address, error, key), error.code) from None
    except urllib.error.URLError as error:
        raise ServerError(
            f"nothing answers at {address}: {running(str(error.reason))}; is the server up, is the port right?"
        ) from None
    except http.client.HTTPException as error:
        raise ServerError(f"{address} does not speak HTTP ({type(error).__name__}); check the port") from None
    except (OSError, ValueError) as error:
        raise ServerError(f"{address} does not answer: {running(str(error) or type(error).__name__)}") from None


def read_whole(answer: Any, address: str, most: int, seconds: float) -> bytes:
    """All of an answer, no more than one byte above `most`. Raises ServerError where it takes longer than that."""
    pieces, size, end = [], 0, time.monotonic() + seconds
    try:
        while size <= most and (piece := answer.read1(min(_PIECE, most + 1 - size))):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > end:
                raise ServerError(f"{address}: the answer is not whole after {seconds:g} s")
    except (OSError, http.client.HTTPException):
        raise ServerError(f"{address}: the answer broke off") from None
    return b"".join(pieces)


def parsed(data: bytes) -> Any:
    """JSON. Raises ValueError, also for what is nested without end."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested without end") from None


def as_count(value: Any, most: int = (1 << 31) - 1, least: int = 0) -> int:
    """A count in somebody's answer. Raises ValueError for anything else, and for one beyond reason."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{str(value)[:40]!r} is no whole number from {least} to {most}")
    return value


def _refused(address: str, error: urllib.error.HTTPError, key: str | None) -> str:
    if error.code in (401, 403):
        if key:
            return f"{address} wants another key than the one given ({error.code})"
        named = f"name the variable that holds it with --key-env, or set {KEY_VARIABLE}"
        return f"{address} wants a key ({error.code}): {named}"
    if 300 <= error.code < 400:
        to = running(error.headers.get("Location", "elsewhere"))[:200]
        return f"{address} points to {to}: give that address, if it is yours"
    return f"{address} answers HTTP {error.code}: {_said(error)}"


def _said(error: urllib.error.HTTPError) -> str:
    """What is wrong, in the server's own words where it has some."""
    try:
        text = error.read(_TOLD).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return error.reason
    try:
        answer = json.loads(text)
        message = answer.get("error", answer)
        text = message.get("message", text) if isinstance(message, Mapping) else str(message)
    except (ValueError, AttributeError):
        text = error.reason if not text.strip() or text.lstrip().startswith("<") else text
    return running(" ".join(text.split()))[:200]
