"""One question to a server: its counters as text, or one line that says why not."""

import http.client
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from specviz.errors import SpecvizError

MOST_BYTES = 16 << 20
_SECONDS = 5.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key is for the server that was named, not for one it points to."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def metrics_address(given: str) -> str:
    """Where the counters are: `host:port`, with or without scheme, path and /v1. Raises SpecvizError."""
    address = given.strip()
    whole = address if "://" in address else f"http://{address}"
    try:
        parts = urllib.parse.urlsplit(whole)
        port = parts.port
    except ValueError as error:
        raise SpecvizError(f"'{given}' is no address: {error}; write it like localhost:8000") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or any(c.isspace() for c in address):
        raise SpecvizError(f"'{given}' is no address of a server; write it like localhost:8000")
    path = parts.path.rstrip("/").removesuffix("/v1")
    path = path if path.endswith("/metrics") else f"{path}/metrics"
    return urllib.parse.urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def fetch(address: str, key: str | None = None, seconds: float = _SECONDS) -> str:
    """The text at that address. `key`: sent as a bearer token. Raises SpecvizError with what to do."""
    request = urllib.request.Request(address, headers={"Accept": "text/plain"})
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with _opener.open(request, timeout=seconds) as answer:
            body: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise SpecvizError(_refused(address, error, key)) from None
    except urllib.error.URLError as error:
        raise SpecvizError(
            f"{address} cannot be reached: {error.reason}; is the server up, is the port right?"
        ) from None
    except (TimeoutError, OSError) as error:
        raise SpecvizError(f"{address} does not answer: {error}; is it a web server?") from None
    except http.client.IncompleteRead:
        raise SpecvizError(f"{address}: the answer broke off") from None
    except http.client.HTTPException as error:
        raise SpecvizError(f"{address} does not speak HTTP ({type(error).__name__}); check the port") from None
    if len(body) > MOST_BYTES:
        raise SpecvizError(f"{address} answers with more than {MOST_BYTES >> 20} MB: those are no counters")
    return body.decode("utf-8", "replace")


def _refused(address: str, error: urllib.error.HTTPError, key: str | None) -> str:
    with error:
        if error.code in (401, 403):
            return (
                f"{address} wants another key than the one given ({error.code})"
                if key
                else (f"{address} wants a key ({error.code}): name the variable that holds it with --key-env NAME")
            )
        if 300 <= error.code < 400:
            to = error.headers.get("Location", "elsewhere")
            return f"{address} points to {to[:200]}: give that address, if it is yours"
        if error.code in (404, 501):
            return (
                f"{address} has no counters ({error.code}): llama.cpp shows them with --metrics, SGLang with "
                "--enable-metrics, vLLM unless --disable-log-stats is set"
            )
        return f"{address} answers {error.code} {error.reason}; try again when it is well"
