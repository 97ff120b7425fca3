"""What a server is, and its answer as it comes."""

import http.client
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from specviz.engines.asking import (
    UNREADABLE,
    AnswerRefused,
    ServerError,
    ask,
    parsed,
    read_whole,
    server_address,
    signed_in,
)
from specviz.text import running

Kind = Literal["llama.cpp", "vLLM", "SGLang"]
LONGEST = 16 << 20  # bytes of an answer that is read in one piece, and of a line of a stream
_FIND_S = 8.0  # for each question about what it is
_QUIET_S = 120.0  # for the first token, and between two lines of a stream
_PAGE = object()  # a web page where JSON was asked for


@dataclass(frozen=True, slots=True)
class EngineServer:
    """A server that was recognised. `model`: as it names it."""

    url: str
    kind: Kind
    version: str | None
    model: str | None
    key: str | None = None
    facts: Mapping[str, Any] | None = None  # what it says of its settings


def find_server(url: str, key: str | None = None) -> EngineServer:
    """What runs at an address, which may hold user and password. Raises ServerError."""
    address = server_address(url)
    try:
        return _found(address, signed_in(url, key))
    except UNREADABLE as error:
        raise ServerError(
            f"what {address} says of itself cannot be read ({type(error).__name__}): is it the right server?"
        ) from None


def _found(url: str, key: str | None) -> EngineServer:
    props = _asked(url, "/props", key)
    if isinstance(props, Mapping) and "default_generation_settings" in props:
        file = str(props.get("model_alias") or props.get("model_path") or "").rpartition("/")[2]
        return EngineServer(url, "llama.cpp", _text(props.get("build_info")), file or None, key, props)
    info = _asked(url, "/server_info", key) or _asked(url, "/get_server_info", key)
    if isinstance(info, Mapping) and ("speculative_algorithm" in info or "internal_states" in info):
        model = _text(info.get("served_model_name") or info.get("model_path"))
        return EngineServer(url, "SGLang", _text(info.get("version")), model, key, info)
    version = _asked(url, "/version", key)
    if isinstance(version, Mapping) and "version" in version:
        models = _asked(url, "/v1/models", key)
        listed = models.get("data") if isinstance(models, Mapping) else None
        first = listed[0] if isinstance(listed, list) and listed else None
        name = _text(first.get("id")) if isinstance(first, Mapping) else None
        return EngineServer(url, "vLLM", _text(version["version"]), name, key)
    ollama = _asked(url, "/api/version", key)
    if isinstance(ollama, Mapping) and "version" in ollama:
        raise ServerError(f"{url} is Ollama, whose answers say nothing of speculation: nothing can be read there")
    page = any(answer is _PAGE for answer in (props, info, version))
    what = "answers with web pages (HTML)" if page else "answers"
    raise ServerError(f"{url} {what}, but is no server of llama.cpp, vLLM or SGLang that is known here; check the port")


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)[:200]


def _asked(url: str, path: str, key: str | None) -> Any:
    """The JSON of a path; None where the server has no such path, `_PAGE` for a web page. Raises ServerError."""
    try:
        with ask(url + path, key, _FIND_S) as answer:
            body = read_whole(answer, url + path, LONGEST, _FIND_S)
            return _PAGE if body.lstrip()[:1] == b"<" else parsed(body)
    except AnswerRefused as error:
        if error.code not in (404, 405, 501):
            raise
        return None
    except ValueError:
        return None


def stream(server: EngineServer, path: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The chunks of a streamed answer; ends early where the connection does. Raises ServerError."""
    with ask(server.url + path, server.key, _QUIET_S, body) as answer:
        kind = str(answer.headers.get("Content-Type", ""))
        if "html" in kind:
            raise ServerError(f"{server.url}{path} answers with a page (HTML) and no stream: a proxy in between?")
        yield from chunks(_lines(answer, server.url + path))


def _lines(answer: Any, address: str) -> Iterator[bytes]:
    """Raises ServerError for a line that does not come to its end."""
    pieces: list[bytes] = []
    size, begun = 0, time.monotonic()
    try:
        while data := answer.read1(1 << 16):
            *ends, rest = data.split(b"\n")
            for end in ends:
                yield b"".join((*pieces, end))
                pieces, size, begun = [], 0, time.monotonic()
            pieces.append(rest)
            size += len(rest)
            if size > LONGEST or time.monotonic() - begun > _QUIET_S:
                what = f"{LONGEST >> 20} MB" if size > LONGEST else f"{_QUIET_S:g} s"
                raise ServerError(f"{address} has not ended a line of its answer after {what}")
    except (OSError, http.client.HTTPException):
        return  # half a stream: who reads it says so
    yield b"".join(pieces)


def chunks(lines: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """The objects of a server-sent stream. Raises ServerError for an error that the server sends in it."""
    for line in lines:
        name, _, data = line.strip().partition(b":")
        if name not in (b"data", b"error") or data.strip() in (b"", b"[DONE]"):
            continue
        try:
            chunk = parsed(data)
        except ValueError:
            return
        if not isinstance(chunk, Mapping):
            continue
        problem = chunk.get("error")
        if problem:
            message = problem.get("message", problem) if isinstance(problem, Mapping) else problem
            raise ServerError(f"the server ended the answer: {running(str(message))[:200]}")
        yield chunk
