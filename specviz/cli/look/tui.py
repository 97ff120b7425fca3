"""`specviz tui`: replay a trace, decode live, or pick one of the bundled traces.

Everything that is wrong with what was asked for is said in one line before the terminal is taken over.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from specviz.cli import flags, options
from specviz.cli.flags import flag, max_mb_option, text
from specviz.cli.look import live
from specviz.cli.printing import narrate
from specviz.errors import MissingExtra, SpecvizError, suggestion
from specviz.local_models.choices import EMBEDDED
from specviz.local_models.found import embedded_pair
from specviz.local_models.named import path_of
from specviz.local_models.shipped import shipped_folder
from specviz.methods import Method, all_methods

if TYPE_CHECKING:
    from specviz_tui.common.feed import RunFeed
    from specviz_tui.screens.library import Library, WorkerStart


def methods_for(target: str) -> str:
    """`16 of 18 methods work with it; not trained for it yet: eagle3, medusa`. The core has the last word."""
    methods = all_methods()
    lacking = [name for name, method in methods.items() if not _has_part(target, method)]
    sentence = f"{len(methods) - len(lacking)} of {len(methods)} methods work with it"
    return sentence + (f"; not trained for it yet: {', '.join(lacking)}" if lacking else "")


def _has_part(target: str, method: Method) -> bool:
    part = method.part
    return part is None or any(part.lies_in(folder) for folder in _places(target))


def _places(target: str) -> list[Path]:
    """Folders in which parts of a target lie."""
    if target == EMBEDDED:
        return [embedded_pair()]
    own = path_of(target) or Path(target)
    return [folder for folder in (shipped_folder(target), own) if folder is not None]


@click.command("tui")
@click.argument("trace", required=False)
@live.REPLAY
@text("--at", "PLACE", "Open there: r37, r37/n14 or q1/r3/n14.")
@live.PROMPT_AND_MODELS
@flags.LANE
@options.AUTO
@options.CHAT
@flag("--paused", "Hold the core before the first round; ] runs one round, H goes on.")
@flag("--full-speed", "Do not hold the core until each round was seen; F switches while it runs.")
@options.recording_options("Write a trace of the live run; R does so later.")
@flag("--ascii ascii_only", "ASCII characters only.")
@text(
    "--theme", "NAME", "Colours: textual-dark, textual-light, nord or solarized-light [default: chosen last, with T]."
)
@click.option("--serve", is_flag=True, hidden=True)
@max_mb_option
@options.knob_options
def command(**arguments: Any) -> int:
    """Watch a run live, or replay a trace: TRACE is a file, or the name of one that comes with the package.

    With nothing named, a list of bundled traces and lessons opens: no model is needed. With a prompt or a method, the
    core starts in a process of its own and the run is shown while it happens.

    \b
      specviz tui
      specviz tui run.sv.jsonl.gz --at r37/n14
      specviz tui --example code --method draft --gamma 6 --temperature 0.8
    """
    if arguments.pop("serve"):
        raise SpecvizError(
            "--serve is gone: textual-serve shows this screen in a browser: pip install textual-serve, then python -c "
            "\"from textual_serve.server import Server; Server('specviz tui').serve()\"; 'specviz web' is the dashboard"
        )
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("tui", "the terminal front-end uses textual, which is not installed; it")
    from specviz_tui.screens.library import Library, WorkerStart

    live.name_trace(arguments)
    wanted = live.wants_run(arguments)
    from specviz.cli.look.watch import show_history
    from specviz.engines.watch.history import is_history
    from specviz_tui.app import wants_animation
    from specviz_tui.common.paint import THEMES
    from specviz_tui.common.remapped import own_keys

    core = _core(arguments) if wanted else WorkerStart()
    if arguments["replay"] is not None and is_history(arguments["replay"]):
        return show_history(arguments["replay"])
    theme = arguments["theme"] or ""
    if theme and theme not in THEMES:
        raise SpecvizError(f"no theme '{theme}'{suggestion(theme, THEMES)}")
    library = Library(
        wants_animation(), arguments["ascii_only"], core, keys=own_keys(), methods=methods_for, theme=theme
    )
    return show_app(lambda: _opened(library, arguments["replay"], wanted), library, arguments["at"])


def show_app(opened: "Callable[[], RunFeed | None]", library: "Library", at: str | None = None) -> int:
    """The screen until it is left, and the exit code. `opened`: gives what it begins with, None: a list to choose from.

    Raises SpecvizError without a terminal, and for a core that did not start.
    """
    from specviz_tui.app import SpecvizApp, leave_with_terminal, terminal_driver

    feed, in_browser = opened(), _in_browser()
    app = SpecvizApp(library, feed, at, driver_class=None if in_browser else terminal_driver())
    if not in_browser:
        leave_with_terminal(app)
    try:
        app.run()
    finally:
        app.feed.close()
        for path in app.feed.recorded:
            narrate(f"specviz: recorded {path}")
    if app.feed.never_ready:
        raise SpecvizError(app.feed.failed or "the core did not start")
    return app.return_code or 0


def _opened(library: "Library", replay: str | None, wanted: bool) -> "RunFeed | None":
    """The recording or live run named on the command line; None: the start screen asks. Refuses a bad trace."""
    feed = library.trace(replay) if replay is not None else None
    if not has_screen():
        if feed is not None:
            feed.close()
        raise SpecvizError("no terminal: specviz tui needs one; 'specviz stats FILE' and 'specviz run' work without")
    return library.live() if wanted else feed


def has_screen() -> bool:
    """Whether there is a terminal that can be drawn on, or a browser in its place."""
    terminal = _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    return terminal or _in_browser()


def _in_browser() -> bool:
    """Whether a server of textual-serve has started this."""
    return "web_driver" in os.environ.get("TEXTUAL_DRIVER", "")


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; one that was closed before the program began is None."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _core(arguments: Mapping[str, Any]) -> "WorkerStart":
    """The worker and its first prompt. Standard input is the keyboard here."""
    from specviz_tui.screens.library import WorkerStart

    if arguments["prompt_file"] == "-":
        raise SpecvizError(
            "standard input is the keyboard of the screen, the prompt cannot come from it; use --prompt-file FILE"
        )
    first = live.first_run(arguments, Path(arguments["record"]) if arguments["record"] else None)
    begins = first.start if first.start.prompt else None
    return WorkerStart(
        first.argv, first.record, begins, first.start, redact=arguments["redact"], paced=not arguments["full_speed"]
    )
