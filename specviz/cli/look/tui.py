"""`specviz tui`: replay a trace, decode live, or pick one of the bundled traces.

Everything that is wrong with what was asked for is said in one line before the terminal is taken over.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from specviz.cli import options
from specviz.cli.limits import max_mb_option
from specviz.cli.recording import check_place
from specviz.cli.request import check_models, checked_lanes, prompt_text
from specviz.commands import Start
from specviz.errors import MissingExtra, SpecvizError

if TYPE_CHECKING:
    from specviz_tui.common.feed import RunFeed
    from specviz_tui.screens.library import Core, Library

_ARGV = ("target", "draft", "device", "dtype", "threads")
_CORE = (
    "method",
    "verifier",
    "prompt",
    "prompt_file",
    "example",
    "target",
    "draft",
    "device",
    "dtype",
    "threads",
    "record",
    "lanes",
)

_FLAGS = ("chat", "paused", "full_speed", "redact")


@click.command("tui")
@click.option("--replay", metavar="FILE", help="Show a recorded trace; one that still grows is followed.")
@click.option("--at", metavar="PLACE", help="Open there: r37, r37/n14 or q1/r3/n14.")
@click.option("--prompt", metavar="TEXT", help="Decode this prompt live.")
@click.option("--prompt-file", metavar="FILE", help="Decode the prompt of a UTF-8 file live.")
@click.option("--example", metavar="NAME", help="Decode a bundled prompt live: code, prose, sums.")
@click.option("--method", metavar="NAME", help=f"{options.method_help()} [default: draft]")
@click.option("--verifier", metavar="NAME", help=options.verifier_help())
@options.model_options
@click.option(
    "--lanes",
    metavar="NAME",
    help="Where methods that overlap run: auto (probed), serial, threads, streams or two_device; never other tokens.",
)
@click.option("--chat", is_flag=True, help="Apply the tokenizer's chat template to the prompt.")
@click.option("--paused", is_flag=True, help="Hold the core before the first round; ] runs one round, H goes on.")
@click.option(
    "--full-speed", is_flag=True, help="Do not hold the core until each round was seen; F switches while it runs."
)
@click.option("--record", metavar="FILE", help=f"Write a trace of the live run; R does so later. {options.RECORD_HELP}")
@options.redact_option
@click.option("--force", is_flag=True, help="With --record: over a trace that is there.")
@click.option("--ascii", "ascii_only", is_flag=True, help="ASCII characters only.")
@max_mb_option
@options.knob_options
def command(**given: Any) -> int:
    """Watch a run live, or replay a trace.

    With nothing named, a list of bundled traces opens: no model is needed. With a prompt or a method, the core starts
    in a process of its own and the run is shown while it happens.

    \b
      specviz tui
      specviz tui --replay run.sv.jsonl.gz --at r37/n14
      specviz tui --example code --method draft --gamma 6 --temperature 0.8
    """
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("tui", "the terminal front-end uses textual, which is not installed; it")
    from specviz_tui.screens.library import Core, Library

    live = any(given[name] is not None for name in _CORE) or any(given[flag] for flag in _FLAGS) or bool(_typed(given))
    if given["replay"] is not None and live:
        raise SpecvizError("--replay shows a recording: leave out the prompt, the method, the models and the knobs")
    from specviz_tui.app import SpecvizApp, leave_with_terminal, terminal_driver, wants_animation

    library = Library(wants_animation(), given["ascii_only"], _core(given) if live else Core())
    feed = _opened(library, given["replay"], live)
    app = SpecvizApp(library, feed, given["at"], driver_class=terminal_driver())
    leave_with_terminal(app)
    try:
        app.run()
    finally:
        app.feed.close()
    if app.feed.never_ready:
        raise SpecvizError(app.feed.failed or "the core did not start")
    return app.return_code or 0


def _typed(given: Mapping[str, Any]) -> list[str]:
    """The knobs that were named on the command line."""
    return [name for name in options.knob_specs() if given.get(name) not in (None, ())]


def _opened(library: "Library", replay: str | None, live: bool) -> "RunFeed | None":
    """The feed that was asked for; None asks on the screen. A bad trace is told before a missing terminal."""
    feed = library.trace(replay) if replay is not None else None
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)) or os.environ.get("TERM") == "dumb":
        if feed is not None:
            feed.close()
        raise SpecvizError("no terminal: specviz tui needs one; 'specviz stats FILE' and 'specviz run' work without")
    return library.live() if live else feed


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; one that was closed before the program began is None."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _core(given: Mapping[str, Any]) -> "Core":
    """The worker and its first prompt, checked as far as that goes without a model."""
    from specviz_tui.screens.library import Core

    method = options.chosen_method(given["method"] or "draft", given["verifier"])
    start = Start(
        prompt=_prompt(given),
        method=method.name,
        verifier=given["verifier"],
        knobs=options.given_knobs(method, given),
        chat=given["chat"],
        paused=given["paused"],
        lanes=checked_lanes(given["lanes"] or "auto"),
    )
    check_models(given["target"], given["draft"], method.needs_draft)
    record = Path(given["record"]) if given["record"] else None
    if record is not None:
        check_place(record, given["force"])
    argv = [word for name in _ARGV if given[name] is not None for word in (f"--{name}", str(given[name]))]
    return Core(
        tuple(argv),
        record,
        start if start.prompt else None,
        start,
        redact=given["redact"],
        paced=not given["full_speed"],
    )


def _prompt(given: Mapping[str, Any]) -> str:
    """The prompt, or nothing: then the screen asks for one. Standard input is the keyboard here."""
    if given["prompt_file"] == "-":
        raise SpecvizError(
            "standard input is the keyboard of the screen, the prompt cannot come from it; use --prompt-file FILE"
        )
    if all(given[name] is None for name in ("prompt", "prompt_file", "example")):
        return ""
    return prompt_text({**given, "stdin": None})
