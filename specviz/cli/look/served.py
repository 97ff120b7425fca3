"""`specviz tui --serve`: the same screen in a browser of this machine, by textual-serve, a process for every tab.

It listens on this machine alone, and answers only pages that it has sent itself: whoever reaches it can read what the
screen can open. Nothing is loaded from elsewhere.
"""

import importlib.util
import logging
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from specviz.errors import MissingExtra, SpecvizError

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
_TRIES = 50  # ports above one that is in use
_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self' data:; img-src 'self' data:; connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
WORDS = "specviz.words"  # of the command as they were typed


class RememberingCommand(click.Command):
    """A command that can be started again as it was typed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words, then read them."""
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)


def refuse_absent() -> None:
    """Raises MissingExtra where the server is not installed."""
    if importlib.util.find_spec("textual_serve") is None:
        raise MissingExtra("serve", "--serve uses textual-serve, which is not installed; it")


def serve(words: Sequence[str], port: int) -> None:
    """Serve `specviz tui WORDS` until it is interrupted. Raises SpecvizError when no port is free."""
    refuse_absent()
    from textual_serve.server import Server

    free = _free(port)
    here = f"{HOST}:{free}"

    class OwnPages(Server):
        """Refuses what another site, or another name of this machine, asks of it."""

        def initialize_logging(self) -> None:
            logging.basicConfig(level="ERROR")

        async def on_startup(self, app: "web.Application") -> None:
            click.echo(f"http://{here}")
            sys.stdout.flush()
            click.echo("specviz: the screen is at that address, a process for every tab; Ctrl-C ends it", err=True)

        async def _make_app(self) -> "web.Application":
            app = await super()._make_app()
            app.middlewares.append(guard(here))
            return app

    command = shlex.join([sys.executable, "-m", "specviz", "tui", *_without_serve(words)])
    OwnPages(command, host=HOST, port=free, title="specviz").serve()


def guard(here: str) -> Any:
    """A middleware that answers only what was asked of `here` (`127.0.0.1:8000`), by a page from there."""
    from aiohttp import web

    @web.middleware
    async def guarded(request: Any, handler: Any) -> Any:
        origin = request.headers.get("Origin")
        if request.headers.get("Host") != here or origin not in (None, f"http://{here}"):
            return web.Response(status=403, text="this address is for pages of its own\n")
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY.format(host=here)
        return response

    return guarded


def _without_serve(words: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for word in words:
        if skip or word == "--serve" or word.startswith("--port="):
            skip = False
        elif word == "--port":
            skip = True
        else:
            kept.append(word)
    return kept


def _free(port: int) -> int:
    for tried in range(port, min(port + _TRIES, 65536)) if port else (0,):
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind((HOST, tried))
            except OSError:
                continue
            number: int = found.getsockname()[1]
            return number
    raise SpecvizError(f"no port from {port} on is free; name another with --port")
