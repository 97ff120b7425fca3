"""`BasePathMiddleware`: tells Streamlit's page that its server is at the root of the address.

Streamlit's page does not know whether `/stage` is a page of an app at `/` or an app at `/stage`, and asks for the
second first: every link to one of our pages would begin with two requests that are answered by 404, which a browser
writes to its console in red. Its own setting for this is a global that stands in the page before its script runs.

And the page fetches what draws a kind of thing, five megabytes for charts, only when the first of them is there: here
what panels are made of is read ahead and begun, once the page is at rest.
"""

from functools import cache
from pathlib import Path

import streamlit
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEAD = b"<head>"
_TITLE, _NAME = b"<title>Streamlit</title>", b"<title>specviz</title>"  # until the script has said it
_SAID = b"<head>\n    <script>window.__streamlit = { BACKEND_BASE_URL: location.origin };</script>"
PARTS = ("PlotlyChart", "DataFrame", "Metric", "TextInput", "Multiselect", "NumberInput", "ButtonGroup", "PageLink")
_AHEAD = """
    <script>addEventListener("load", () => setTimeout(() => import("/static/js/%s"), 1500));</script>"""


@cache
def _head() -> bytes:
    scripts = Path(streamlit.__file__).parent / "static/static/js"
    return _SAID + b"".join((_AHEAD % path.name).encode() for part in PARTS for path in scripts.glob(f"{part}.*.js"))


class BasePathMiddleware:
    """Around the app: the page it answers with says where its server is. Everything else is passed on as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _navigates(scope):
            await self.app(scope, receive, send)
            return
        plain = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        begun: Message | None = None

        async def send_patched(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = message
                return
            if begun is not None:  # the first piece of the body has the head in it
                body = message.get("body", b"")
                if _is_page(begun) and _HEAD in body:
                    ours = body.replace(_HEAD, _head(), 1).replace(_TITLE, _NAME, 1)
                    message = {**message, "body": ours}
                    _longer(begun, len(ours) - len(body))
                start, begun = begun, None
                await send(start)
            await send(message)

        await self.app({**scope, "headers": plain}, receive, send_patched)


def _navigates(scope: Scope) -> bool:
    """Whether a browser asks for a page, not a script or a picture."""
    return any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])


def _is_page(start: Message) -> bool:
    headers = dict(start["headers"])
    return headers.get(b"content-type", b"").startswith(b"text/html") and b"content-encoding" not in headers


def _longer(start: Message, by: int) -> None:
    start["headers"] = [
        (name, str(int(value) + by).encode() if name == b"content-length" else value)
        for name, value in start["headers"]
    ]
