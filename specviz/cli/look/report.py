"""`specviz report`: a recorded run as one HTML file that plays, for whoever has a browser and nothing else."""

from pathlib import Path

import click

from specviz.cli.flags import flag, max_mb_option, quiet
from specviz.cli.printing import narrate
from specviz.text import running


@click.command("report")
@click.argument("trace")
@click.option("--out", "-o", type=click.Path(path_type=Path), help="File to write [default: TRACE's name, .html].")
@flag("--force", "Write over a file that is there.")
@quiet()
@max_mb_option
def command(trace: str, out: Path | None, force: bool, quiet: bool) -> None:
    """Save a recorded run as one HTML page that plays: no server, no network, nothing to install.

    TRACE is a recorded trace, or the name of one that comes with the package. The page holds every round of it with
    the reason of every node, and opens from disk. It holds the text of the run as well, prompt included.

    \b
      specviz report run.sv.jsonl.gz
      specviz report run.sv.jsonl.gz -o report.html
    """
    from specviz.cli.look.written import refuse_place, unwritten
    from specviz.trace import resolve
    from specviz.view.stage.notebook import saved, trace_title

    path = resolve(trace)
    written = out or Path(f"{trace_title(path)}.html")
    refuse_place(written, path, force)
    page = saved(path)
    try:
        page.save(written)
    except OSError as error:
        raise unwritten(written, error) from None
    click.echo(running(str(written)))
    if not quiet:
        size = written.stat().st_size / 1e3
        narrate(f"specviz: {page.n_rounds:,} rounds, {size:,.0f} kB; open it in a browser")
