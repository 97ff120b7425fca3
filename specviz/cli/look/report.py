"""`specviz report`: a recorded run as one HTML file that plays, for whoever has a browser and nothing else."""

from pathlib import Path

import click

from specviz.cli.flags import flag, max_mb_option, quiet
from specviz.cli.printing import narrate
from specviz.errors import SpecvizError
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
    from specviz.view.stage.notebook import saved, trace_title

    path = _found(trace)
    written = out or Path(f"{trace_title(path)}.html")
    _refuse_place(written, path, force)
    page = saved(path)
    try:
        page.save(written)
    except OSError as error:
        raise SpecvizError(f"cannot write '{written}': {error.strerror or error}; name another file") from None
    click.echo(running(str(written)))
    if not quiet:
        size = written.stat().st_size / 1e3
        narrate(f"specviz: {page.n_rounds:,} rounds, {size:,.0f} kB; open it in a browser")


def _found(trace: str) -> Path:
    """The trace that is meant: a file, else one that comes with the package. Raises TraceError for neither."""
    from specviz.errors import TraceError
    from specviz.sources.bundled import bundled_traces
    from specviz.trace import resolve

    try:
        return resolve(trace)
    except TraceError:
        if trace in bundled_traces():
            return bundled_traces()[trace]
        raise


def _refuse_place(written: Path, trace: Path, force: bool) -> None:
    """Raises SpecvizError for a file that cannot be made, or must not be written over."""
    if written.is_dir():
        raise SpecvizError(f"--out {written}: it is a folder; name a file in it")
    if not written.parent.is_dir():
        raise SpecvizError(f"--out {written}: there is no folder {written.parent}; make it or name another")
    if written.exists() and written.samefile(trace):
        raise SpecvizError(f"--out {written} is the trace itself; name another file")
    if written.exists() and not written.is_file():
        raise SpecvizError(f"--out {written}: it is no plain file; name another")
    if written.exists() and not force:
        raise SpecvizError(f"{written} is there already; give --force to write over it, or another --out")
