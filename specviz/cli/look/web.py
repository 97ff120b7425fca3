"""`specviz web`: the dashboard in a browser, over a recorded trace, the bundled ones, or a run of its own.

Everything that is wrong with what was asked for is said in one line before a server starts. It listens on this machine
only unless told otherwise.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import options
from specviz.cli.limits import max_mb_option
from specviz.cli.recording import check_place
from specviz.cli.request import check_models, prompt_text
from specviz.commands import Start
from specviz.errors import MissingExtra, SpecvizError
from specviz.trace import Trace, resolve

if TYPE_CHECKING:
    from specviz_app.server.settings import Settings

_ARGV = ("target", "draft", "device", "dtype", "threads")
_LIVE = (*_ARGV, "method", "verifier", "prompt", "prompt_file", "example", "record")


@click.command("web")
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True, metavar="N",
              help="Port to listen on; the next free one when it is in use, 0 for any.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="NAME",
              help="Address to listen on; anything but the default lets other machines in.")  # fmt: skip
@click.option(
    "--open/--no-open",
    "open_browser",
    default=None,
    help="Open the address in a browser [default: where there is a desktop].",
)
@click.option("--replay", metavar="FILE", help="Show a recorded trace; one that still grows is followed.")
@click.option("--prompt", metavar="TEXT", help="Decode this prompt live.")
@click.option("--prompt-file", metavar="FILE", help="Decode the prompt of a UTF-8 file live.")
@click.option("--example", metavar="NAME", help="Decode a bundled prompt live: code, prose, sums.")
@click.option("--method", metavar="NAME", help=f"{options.method_help()} [default: draft]")
@click.option("--verifier", metavar="NAME", help=options.verifier_help())
@options.model_options
@click.option("--chat", is_flag=True, help="Apply the tokenizer's chat template to the prompt.")
@click.option("--paused", is_flag=True, help="Hold the core before the first round.")
@click.option("--record", metavar="FILE", help=f"Write a trace of the live runs. {options.RECORD_HELP}")
@options.redact_option
@click.option("--force", is_flag=True, help="With --record: over a trace that is there.")
@max_mb_option
@options.knob_options
def command(**given: Any) -> int:
    """Watch a run live, or look at a trace, in the browser.

    With nothing named, the bundled traces are shown and models are loaded when asked for on the page Live. With a
    prompt, a method or models, the core starts at once.

    \b
      specviz web
      specviz web --replay run.sv.jsonl.gz
      specviz web --example code --method draft --gamma 6 --temperature 0.8
    """
    for module in ("streamlit", "plotly"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra("web", f"the dashboard uses {module}, which is not installed; it")
    from specviz_app.launcher import LOOPBACK, free_port, serve
    from specviz_app.server.server import Server

    settings = _settings(given)
    host, port = given["host"], given["port"]
    free = free_port(host, port)
    if port and free != port:
        click.echo(f"specviz: port {port} is in use, using {free}", err=True)
    if host not in LOOPBACK:
        click.echo(f"specviz: listening on {host}: whoever reaches it can start runs and read traces here", err=True)
    wants = given["open_browser"]
    serve(Server(settings), host, free, _has_desktop() if wants is None else wants, _ready)
    return 0


def _ready(address: str) -> None:
    """The address is what a program reads; everything else is narration."""
    click.echo(address)
    sys.stdout.flush()
    click.echo("specviz: the dashboard is at that address; Ctrl-C ends it", err=True)


def _has_desktop() -> bool:
    return sys.stdout.isatty() and (sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS)))


_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def _settings(given: Mapping[str, Any]) -> "Settings":
    """What to show or run, checked as far as that goes without a model. Raises SpecvizError."""
    from specviz_app.server.settings import Settings

    typed = [name for name in options.knob_specs() if given.get(name) not in (None, ())]
    live = (
        any(given[name] is not None for name in _LIVE)
        or given["chat"]
        or given["paused"]
        or given["redact"]
        or bool(typed)
    )
    if given["replay"] is not None:
        if live:
            raise SpecvizError("--replay shows a recording: leave out the prompt, the method, the models and the knobs")
        path = resolve(given["replay"])
        Trace(path).close()
        return Settings(replay=path.absolute())
    return _live(given) if live else Settings()


def _live(given: Mapping[str, Any]) -> "Settings":
    from specviz_app.server.settings import Settings

    method = options.chosen_method(given["method"] or "draft", given["verifier"])
    asked = any(given[name] is not None for name in ("prompt", "prompt_file", "example"))
    start = Start(
        prompt=prompt_text({**given, "stdin": None}) if asked else "",
        method=method.name,
        verifier=given["verifier"],
        knobs=options.given_knobs(method, given),
        chat=given["chat"],
        paused=given["paused"],
    )
    check_models(given["target"], given["draft"], method.needs_draft)
    record = Path(given["record"]).absolute() if given["record"] else None
    if record is None and given["redact"]:
        raise SpecvizError("--redact leaves the text out of a recording: name its file with --record, or drop it")
    if record is not None:
        check_place(record, given["force"])
    argv = [word for name in _ARGV if given[name] is not None for word in (f"--{name}", str(given[name]))]
    return Settings(argv=tuple(argv), start=start, live=True, record=record, redact=given["redact"])
