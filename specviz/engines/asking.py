"""Asking a server: its address as it is at hand, one way to ask, and every way that fails as one line.

A key is for the server that was named: no redirect is followed, and it comes from the environment, not from a command
line that every user of the machine can read.
"""

import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from specviz.errors import SpecvizError
from specviz.text import running

KEY_VARIABLE = "SPECVIZ_SERVER_KEY"
_TOLD = 2000  # bytes of an answer that says what is wrong


class ServerError(SpecvizError):
    """A server cannot be asked, or its answer not be read."""


class AnswerRefused(ServerError):
    """It answers with the HTTP status `code`, which who asked may understand better."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def server_address(given: str) -> str:
    """`host:port`, with or without scheme, path and /v1, as the address below which pages are asked for.

    Raises ServerError.
    """
    address = given.strip()
    try:
        parts = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError as error:
        raise ServerError(f"'{running(given)}' is no address: {error}; write it like localhost:8000") from None
    if not known or any(c.isspace() for c in address):
        raise ServerError(f"'{running(given)}' is no address of a server; write it like localhost:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


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


def ask(address: str, key: str | None, seconds: float, body: Mapping[str, Any] | None = None) -> Any:
    """The open answer, to be closed by who reads it. `key`: a bearer token; `body`: sent as JSON.

    Raises ServerError.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"Content-Type": "application/json"} if data else {})
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        return _opener.open(request, timeout=seconds)
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
        found = json.loads(text)
        message = found.get("error", found)
        text = message.get("message", text) if isinstance(message, Mapping) else str(message)
    except (ValueError, AttributeError):
        text = error.reason if not text.strip() or text.lstrip().startswith("<") else text
    return running(" ".join(text.split()))[:200]
