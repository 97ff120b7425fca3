"""`specviz web`: the dashboard in a browser, over a recorded trace, the bundled ones, or a run of its own.

Everything that is wrong with what was asked for is said in one line before a server starts. It listens on this machine
only unless told otherwise.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import options
from specviz.cli.flags import flag, max_mb_option, text, value
from specviz.cli.look import live
from specviz.errors import MissingExtra, SpecvizError
from specviz.trace import Trace, resolve

if TYPE_CHECKING:
    from specviz_app.server.core import Settings

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command("web")
@click.argument("trace", required=False)
@value(
    "--port",
    click.IntRange(0, 65535),
    8501,
    "Port to listen on; the next free one when it is in use, 0 for any.",
    metavar="N",
)
@text(
    "--host",
    "NAME",
    "Address to listen on; anything but the default lets other machines in.",
    default="127.0.0.1",
    show_default=True,
)
@click.option(
    "--open/--no-open",
    "open_browser",
    default=None,
    help="Open the address in a browser [default: where there is a desktop].",
)
@live.REPLAY
@live.PROMPT_AND_MODELS
@options.CHAT
@options.AUTO
@flag("--paused", "Hold the core before the first round.")
@options.recording_options("Write a trace of the live runs.")
@max_mb_option
@options.knob_options
def command(**arguments: Any) -> int:
    """Watch a run live, or look at a trace, in the browser: TRACE is a file, or the name of one that comes with it.

    With nothing named, the bundled traces are shown and models are loaded when asked for on the live stage. With a
    prompt, a method or models, the core starts at once.

    \b
      specviz web
      specviz web run.sv.jsonl.gz
      specviz web --example code --method draft --gamma 6 --temperature 0.8
    """
    for module in ("streamlit", "plotly"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra("web", f"the dashboard uses {module}, which is not installed; it")
    from specviz_app.launcher import free_port, serve
    from specviz_app.server.server import LOOPBACK, Server

    settings = _settings(arguments)
    host, port = arguments["host"], arguments["port"]
    free = free_port(host, port)
    if port and free != port:
        click.echo(f"specviz: port {port} is in use, using {free}", err=True)
    if host not in LOOPBACK:
        click.echo(
            f"specviz: listening on {host}: whoever reaches it can watch runs and read traces here; "
            "commands are for who opens the address with the key",
            err=True,
        )
    wants = arguments["open_browser"]
    serve(Server(settings), host, free, _has_desktop() if wants is None else wants, _ready)
    return 0


def _ready(address: str) -> None:
    """The address is what a program reads; everything else is narration."""
    click.echo(address)
    sys.stdout.flush()
    click.echo("specviz: the dashboard is at that address; Ctrl-C ends it", err=True)


def _has_desktop() -> bool:
    return sys.stdout.isatty() and (sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS)))


def _settings(arguments: dict[str, Any]) -> "Settings":
    """What to show or run, checked as far as that goes without a model. Raises SpecvizError."""
    from specviz_app.server.core import Settings

    live.name_trace(arguments)
    wanted = live.wants_run(arguments)
    if arguments["replay"] is not None:
        path = resolve(arguments["replay"])
        Trace(path).close()
        return Settings(replay=path.absolute())
    if not wanted:
        return Settings()
    first = live.first_run(arguments, Path(arguments["record"]).absolute() if arguments["record"] else None)
    if first.record is None and arguments["redact"]:
        raise SpecvizError("--redact leaves the text out of a recording: name its file with --record, or drop it")
    return Settings(argv=first.argv, start=first.start, live=True, record=first.record, redact=arguments["redact"])
