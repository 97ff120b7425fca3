"""`serve(..)`: the Streamlit application with our routes, on a port that is free, until somebody ends it."""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Literal
from urllib.parse import urlsplit

from specviz.collecting import seldom
from specviz.errors import SpecvizError
from specviz.runlog.run import Mark
from specviz.view.words.palette import colour
from specviz_app.server.core import UPLOAD_MB
from specviz_app.server.index_page import BasePathMiddleware
from specviz_app.server.server import LOOPBACK, Guards, Server, install, routes

SCRIPT = Path(__file__).with_name("main.py")
_TRIES = 32  # ports after the wanted one


def free_port(host: str, port: int) -> int:
    """The wanted port, or the next one that is free. Raises SpecvizError when the host is not ours or all are taken."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise SpecvizError(f"no host '{host}' here ({error.strerror or error}); try 127.0.0.1") from None
    for candidate in range(port, min(port + _TRIES, 65536)):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address[0], candidate, *address[2:]))
                return int(probe.getsockname()[1])
        except PermissionError:
            raise SpecvizError(f"port {candidate} is not allowed to you; ports from 1024 on are: --port 8501") from None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise SpecvizError(f"cannot listen on {host}: {error.strerror or error}; try 127.0.0.1") from None
    raise SpecvizError(f"ports {port} to {port + _TRIES - 1} are all in use; name another with --port")


def url(host: str, port: int) -> str:
    shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def config(host: str, port: int) -> dict[str, Any]:
    """Streamlit's options: ours alone, whatever folder we are started from."""
    return {
        "server.address": host,
        "server.port": port,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.maxUploadSize": UPLOAD_MB,
        "browser.gatherUsageStats": False,
        "browser.serverAddress": urlsplit(url(host, port)).hostname,  # else it asks the internet for one
        "logger.hideWelcomeMessage": True,
        "client.toolbarMode": "minimal",
        # A request waits for the script to come to a point where it can be left, and is taken together with what came
        # before it. At once, two threads would make one tab's page, and what was pressed just before could be lost.
        "runner.fastReruns": False,
        "client.showErrorDetails": "none",  # what we did not foresee is said by `guard`, and logged
        **theme(),
        # A page of another site may have its name resolved to this machine; it must not get a page of ours.
        "server.allowedHosts": list(LOOPBACK) if host in LOOPBACK else [],
    }


def serve(server: Server, host: str, port: int, open_browser: bool, ready: Callable[[str], None]) -> None:
    """Serve until interrupted. `ready` is told the address once pages can be fetched."""
    import streamlit as st
    from starlette.middleware import Middleware

    # A knob's widget has its default and, at times, a value that was asked for elsewhere: that is meant so.
    logging.getLogger("streamlit.elements.lib.policies").addFilter(lambda record: record.levelno > logging.WARNING)
    install(server)
    server.streams = True
    address = url(host, port) + ("" if host in LOOPBACK else f"/?key={server.share()}")

    @contextlib.asynccontextmanager
    async def lifespan(_: st.App) -> AsyncIterator[None]:
        restore = _end_streams_on_signals(server)
        if server.settings.live:
            with contextlib.suppress(SpecvizError):  # the page says what is missing
                server.core.load(server.settings.models.target, server.settings.models.draft)
        task = asyncio.create_task(_tell(address, open_browser, ready))
        try:
            yield
        finally:
            task.cancel()
            restore()
            await asyncio.to_thread(server.close)

    app = st.App(
        SCRIPT,
        routes=routes(server),
        middleware=[Middleware(Guards), Middleware(BasePathMiddleware)],
        lifespan=lifespan,
    )
    import specviz_app.main  # noqa: F401 (all that a page needs, before what is there is set aside)

    with seldom():  # Streamlit collects behind every script, a tenth of a second where it goes through all modules
        app.run(config=config(host, port))


async def _tell(address: str, open_browser: bool, ready: Callable[[str], None]) -> None:
    await asyncio.sleep(0.1)  # the socket listens already; the loop serves it from now on
    ready(address)
    if open_browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _end_streams_on_signals(server: Server) -> Callable[[], None]:
    """End the streams when a signal comes: a server waits for its open answers before it goes."""
    before: Mapping[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def chained(number: int, frame: FrameType | None) -> None:
        server.closing.set()
        handler = before[number]
        if callable(handler):
            handler(number, frame)

    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    for number in before:
        signal.signal(number, chained)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore


Ground = Literal["dark", "light"]
_ORDER: tuple[Mark, ...] = ("accepted", "rejected", "recovered", "bonus", "exit", "drafted", "untested")
GROUNDS: dict[Ground, dict[str, str]] = {
    "light": {
        "backgroundColor": "#FFFFFF",
        "secondaryBackgroundColor": "#F3F5F7",
        "textColor": "#1A1A1A",
        "borderColor": "#D5DADF",
    },
    "dark": {
        "backgroundColor": "#10141A",
        "secondaryBackgroundColor": "#1A212A",
        "textColor": "#E6E6E6",
        "borderColor": "#2E3843",
    },
}


_BUTTON: dict[Ground, str] = {"dark": "#2B78B5"}  # white stands on it; on the lighter blue of marks that is 2.3:1


def theme() -> dict[str, Any]:
    """Streamlit's theme options; both grounds are given, so that the person may switch."""
    options: dict[str, Any] = {
        "theme.baseRadius": "6px",
        "theme.showWidgetBorder": True,
        "theme.metricValueFontSize": "1.35rem",
        "theme.headingFontSizes": ["1.7rem", "1.4rem", "1.15rem", "1.05rem", "1rem", "1rem"],
        "theme.paddingTop": "1.5rem",
    }
    for ground, plain in GROUNDS.items():
        colours = [colour(mark, ground == "dark") for mark in _ORDER]
        button = _BUTTON.get(ground, colours[0])
        values = {**plain, "primaryColor": button, "linkColor": colours[0], "chartCategoricalColors": colours}
        options |= {f"theme.{ground}.{name}": value for name, value in values.items()}
    return options
