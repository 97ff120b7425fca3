"""`specviz tui`: replay a trace, decode live, or pick one of the bundled traces.

Everything that is wrong with what was asked for is said in one line before the terminal is taken over.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import options
from specviz.errors import MissingExtra, SpecvizError

if TYPE_CHECKING:
    pass

_CORE = ("method", "verifier", "prompt", "prompt_file", "example", "target", "draft", "device", "dtype", "threads", "record")


@click.command("tui")
@click.option("--replay", metavar="FILE", help="Show a recorded trace; one that still grows is followed.")
@click.option("--at", metavar="PLACE", help="Open there: r37, r37/n14 or q1/r3/n14.")
@click.option("--prompt", metavar="TEXT", help="Decode this prompt live.")
@click.option("--prompt-file", metavar="FILE", help="Decode the prompt of a UTF-8 file live.")
@click.option("--example", metavar="NAME", help="Decode a bundled prompt live: code, prose, sums.")
@click.option("--method", metavar="NAME", help=f"{options.method_help()} [default: draft]")
@click.option("--verifier", metavar="NAME", help=options.verifier_help())
@options.model_options
@click.option("--chat", is_flag=True, help="Apply the tokenizer's chat template to the prompt.")
@click.option("--paused", is_flag=True, help="Hold the core before the first round; ] runs one round, H goes on.")
@click.option("--record", metavar="FILE", help="Write a trace of the live run; R does so later.")
@click.option("--ascii", "ascii_only", is_flag=True, help="ASCII characters only.")
@options.knob_options
def command(**given: Any) -> int:
    """Watch a run live, or replay a trace.

    With nothing named, a list of bundled traces opens: no model is needed. With a prompt or a method, the core starts in a
    process of its own and the run is shown while it happens.

    \b
      specviz tui
      specviz tui --replay run.sv.jsonl.gz --at r37/n14
      specviz tui --example code --method draft --gamma 6 --temperature 0.8
    """
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("tui", "the terminal front-end uses textual, which is not installed; it")
    from specviz_tui.library import Library

    live = any(given[name] is not None for name in _CORE) or bool(_knobs(given)) or given["chat"] or given["paused"]
    if given["replay"] is not None and live:
        raise SpecvizError("--replay shows a recording: leave out the prompt, the method, the models and the knobs")
    from specviz_tui.app import SpecvizApp, wants_animation

    library = Library(wants_animation(), given["ascii_only"], _core(given, live))
    feed = _open(library, given, live)
    try:
        _need_terminal()
        return SpecvizApp(feed=feed, library=library, at=given["at"]).run() or _verdict(feed)
    finally:
        if feed is not None:
            feed.close()
