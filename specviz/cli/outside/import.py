"""`specviz import`: a file of another engine as a trace."""  # noqa: N999 -- the name of the command

from pathlib import Path

import click

from specviz.cli.flags import flag
from specviz.cli.outside.warned import warned
from specviz.cli.printing import narrate
from specviz.errors import SpecvizError
from specviz.text import running
from specviz.trace.files import PLAIN
from specviz.trace.recorder import existing


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", metavar="TRACE", type=click.Path(path_type=Path), help="Trace to write [default: FILE.sv.jsonl.gz]."
)
@click.option(
    "--rule", metavar="NAME", help="The rule that decided there, where FILE does not say: see the page of the guide."
)
@flag("--force", "Record over an older trace.")
def command(file: Path, out: Path | None, rule: str | None, force: bool) -> None:
    """Turn a file of another engine into a trace, which every other command opens.

    What FILE is is told from what stands in it: a debug log of llama.cpp's server or of its llama-speculative, answers
    or a benchmark report of vLLM. What is not known there stays unknown; `specviz stats` shows the card.

    \b
      llama-server -m target.gguf -md draft.gguf -lv 10 2> server.log
      specviz import server.log
    """
    from specviz.engines.rounds.files import import_file

    where = out or Path(file.name).with_suffix(PLAIN)
    older = existing(where)
    if older is not None and not force:
        raise SpecvizError(f"{older} is there already; give --force to record over it, or another -o")
    made = import_file(file, where, rule)
    made.trace.close()
    if made.trace.problem is not None:
        raise SpecvizError(f"cannot write {made.trace.path}: {made.trace.problem}")
    warned(made.trace)
    narrate(f"specviz: {running(str(file))}: to see it, specviz tui {running(str(made.trace.path))}")
    click.echo(made.trace.path)
