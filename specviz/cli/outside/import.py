"""`specviz import`: what people have of another engine, as traces."""  # noqa: N999 -- the name of the command

from pathlib import Path

import click

from specviz.cli.flags import OWN_LINE, flag
from specviz.cli.printing import narrate
from specviz.errors import SpecvizError
from specviz.text import running
from specviz.trace.files import PLAIN
from specviz.trace.recorder import existing


@click.command("import")
@click.argument("sources", metavar="PATH|-|URL..", nargs=-1, required=True)
@click.option(
    "-o", "--out", metavar="TRACE", type=click.Path(path_type=Path), help="Trace to write [default: by PATH]."
)
@click.option(
    "--rule", metavar="NAME", help="The rule that decided there, where PATH does not say: see the page of the guide."
)
@OWN_LINE
@flag("--force", "Record over an older trace.")
def command(sources: tuple[str, ...], out: Path | None, rule: str | None, pattern: str | None, force: bool) -> None:
    """Turn what you have of another engine into traces, which every other command opens.

    PATH is a log, a table, a saved answer, stream or scrape, or a whole issue's text; - is standard input. What it is,
    is told from what stands in it; several kinds in one file give several traces. Where no single rounds are told the
    trace is a history of counts, or totals: `specviz stats` says what is known, `specviz compare` holds two of them
    against each other.

    \b
      specviz import server.log
      specviz import before.json after.json
      xclip -o | specviz import -
      specviz import engine.log --line 'steps={rounds} proposed={drafted} accepted={kept}'
    """
    from specviz.engines.texts.door import import_source, name_of, shown_source
    from specviz.engines.texts.own_line import own_lines

    if out is not None and len(sources) > 1:
        raise SpecvizError("-o names one trace; leave it out, or give one PATH")
    more = own_lines(pattern)
    for source in sources:
        where = out or Path(name_of(source) + PLAIN)
        older = existing(where)
        if older is not None and not force:
            raise SpecvizError(f"{older} is there already; give --force to record over it, or another -o")
        for imported in import_source(source, where, rule, more):
            for message in imported.warnings:
                narrate(f"specviz: {running(message)}")
            narrate(f"specviz: {running(shown_source(source))}: {running(imported.words)}")
            click.echo(imported.path)
