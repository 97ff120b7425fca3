"""`specviz export`: a run as a page that plays, a round as a picture or a film, a whole trace as tables."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from specviz.cli.flags import flag, max_mb_option, quiet, text, value
from specviz.cli.printing import narrate
from specviz.errors import SpecvizError
from specviz.text import running

if TYPE_CHECKING:
    from specviz.view.play.build import FrameBuilder

_PHASES = ("root", "draft", "verify", "accept", "close", "commit")
_PLACE = re.compile(r"(?:q(?P<q>\d{1,6})[/.]?)?r?(?P<r>\d{1,9})(?:[/.]n(?P<n>\d{1,9}))?", re.IGNORECASE)
_MOST_ROUNDS = 12  # of a GIF: some 1 MB and ten seconds of work each
_PAGES, _PICTURES, _FOLDERS = ("html",), ("gif", "svg", "png"), ("csv", "parquet")
_DIR = click.Path(path_type=Path, file_okay=False)


@click.command("export")
@click.argument("trace")
@flag("--html", "The whole run as one page that plays: no server, no network, nothing to install.")
@text("--gif", "rN[-rM]", "A round as it goes, or several, as an animated GIF.")
@text("--svg", "rN[/nID]", "The stage at a round, with a node chosen if one is named, as SVG.")
@text("--png", "rN[/nID]", "The same as PNG.")
@click.option("--chrome", hidden=True)
@click.option("--csv", type=_DIR, metavar="DIR", help="Tables of rounds, nodes and tests as CSV, in a folder.")
@click.option(
    "--parquet", type=_DIR, metavar="DIR", help="The same as Parquet, with tables of the run and its prompts."
)
@flag("--narrow", "With --parquet: only what was decided, some 13 bytes a round; no text, no times, p and q rounded.")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), help="File to write [default: TRACE's name, and the round]."
)
@click.option(
    "--phase", type=click.Choice(_PHASES), help="With --svg and --png: the end of this phase [default: the last]."
)
@value("--theme", click.Choice(("light", "dark")), "light", "Ground of a picture.")
@value("--width", click.IntRange(480, 2400), 800, "Of a picture, in pixels; a PNG has twice as many.")
@value("--speed", click.FloatRange(0.25, 8), 1.0, "Of a GIF.")
@flag("--force", "Write over what is there.")
@quiet()
@max_mb_option
def command(trace: str, **arguments: Any) -> None:
    """Save a run as a page that plays, a round as SVG, PNG or GIF, or the tables of a trace as CSV or Parquet.

    TRACE is a recorded trace, or the name of one that comes with the package. A round is written as r37, q2/r5 of
    another query, r37/n14 with a node. The page holds every round with the reason of every node, and opens from disk.
    It draws the pictures too, in Chromium or Chrome, which must be on this machine. Both show the text of the run,
    prompt included.

    \b
      specviz export run.sv.jsonl.gz --html -o run.html
      specviz export run.sv.jsonl.gz --gif r4 -o round.gif
      specviz export run.sv.jsonl.gz --svg r4/n14 --theme dark
      specviz export run.sv.jsonl.gz --csv tables
    """
    if arguments["chrome"] is not None:
        raise SpecvizError(
            "--chrome: Chrome traces are not written any more; --parquet DIR writes rounds, nodes and tests, and "
            "'specviz stats --sql' asks them"
        )
    asked = [kind for kind in (*_PAGES, *_PICTURES, *_FOLDERS) if arguments[kind] not in (None, False)]
    if len(asked) != 1:
        seen = f" together: {', '.join(f'--{kind}' for kind in asked)}" if asked else ""
        raise SpecvizError(
            f"name one thing to export{seen}; one of --html, --gif r4, --svg r4, --png r4, --csv DIR, --parquet DIR"
        )
    kind = asked[0]
    _refuse_unused(kind, arguments)
    if kind in _PAGES:
        _page(trace, arguments)
    elif kind in _FOLDERS:
        _tables(trace, kind, arguments)
    else:
        _picture(trace, kind, arguments)


def _refuse_unused(kind: str, arguments: dict[str, Any]) -> None:
    """Raises SpecvizError for an option that this kind has no use for: it would be ignored without a word."""
    source = click.get_current_context().get_parameter_source
    uses = {"phase": ("svg", "png"), "speed": ("gif",), "out": (*_PAGES, *_PICTURES)}
    uses |= {"narrow": ("parquet",), "theme": _PICTURES, "width": _PICTURES}
    for name, kinds in uses.items():
        if kind not in kinds and source(name) is click.core.ParameterSource.COMMANDLINE:
            raise SpecvizError(f"--{name} says nothing of --{kind}; leave it out, or export with {_or(kinds)}")


def _or(kinds: Sequence[str]) -> str:
    return " or ".join(f"--{kind}" for kind in kinds)


def _page(trace: str, arguments: dict[str, Any]) -> None:
    from specviz.cli.look.written import refuse_place, unwritten
    from specviz.trace import resolve
    from specviz.view.stage.notebook import saved, trace_title

    path = resolve(trace)
    written = arguments["out"] or Path(f"{trace_title(path)}.html")
    refuse_place(written, path, arguments["force"])
    page = saved(path)
    try:
        page.save(written)
    except OSError as error:
        raise unwritten(written, error) from None
    click.echo(running(str(written)))
    if not arguments["quiet"]:
        size = written.stat().st_size / 1e3
        narrate(f"specviz: {page.n_rounds:,} rounds, {size:,.0f} kB; open it in a browser")


def _tables(trace: str, kind: str, arguments: dict[str, Any]) -> None:
    from specviz.cli.look.written import read_run
    from specviz.tables import ENDINGS, TABLES, WHOLE, write_tables
    from specviz.trace import resolve

    folder, narrow = arguments[kind], bool(arguments["narrow"])
    asked = [table for table in (WHOLE if kind == "parquet" else TABLES) if table.narrow or not narrow]
    there = [folder / f"{table.name}.{kind}" for table in asked]
    taken = next((path for path in there if path.exists()), None)
    if taken is not None and not arguments["force"]:
        raise SpecvizError(f"{taken} is there already; give --force to write over it, or another folder")
    path = resolve(trace)
    builder = read_run(path)
    try:
        ending = next(known for known in ENDINGS if known == kind)
        written = write_tables(builder.run, ending, folder, asked, narrow, [path])
    except OSError as error:
        raise SpecvizError(f"cannot write into '{folder}': {error.strerror or error}; name another folder") from None
    for file in written:
        click.echo(running(str(file)))


def _picture(trace: str, kind: str, arguments: dict[str, Any]) -> None:
    from specviz.cli.look.written import read_run, refuse_place, unwritten
    from specviz.trace import resolve
    from specviz.trace.private import open_like
    from specviz.view.stage.notebook import trace_title

    path, place = resolve(trace), str(arguments[kind]).strip()
    _check_place(kind, place)
    named = re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")
    written = arguments["out"] or Path(f"{trace_title(path)}-{named}.{kind}")
    refuse_place(written, path, arguments["force"])
    builder = read_run(path)
    picture = (
        _film(builder, place, arguments)
        if kind == "gif"
        else _still(builder, "svg" if kind == "svg" else "png", place, arguments)
    )
    try:
        with open_like(written, [path]) as file:
            file.write(picture)
    except OSError as error:
        raise unwritten(written, error) from None
    click.echo(running(str(written)))
    if not arguments["quiet"]:
        narrate(f"specviz: {len(picture) / 1e3:,.0f} kB")


def _check_place(kind: str, place: str) -> None:
    """Raises SpecvizError for what is no place, before anything is read."""
    several = kind == "gif"
    ends = place.split("-") if several else [place]
    if len(ends) > 2 or not all(_PLACE.fullmatch(end) for end in ends):
        example = "r4, or r3-r7 for several rounds" if several else "r4, or r4/n14 with a node"
        raise SpecvizError(f"--{kind} {place}: write a round as {example}")


def _index(builder: "FrameBuilder", kind: str, place: str) -> tuple[int, int | None]:
    """Index of a round, and a node of it. Raises SpecvizError with those that there are."""
    match, run = _PLACE.fullmatch(place), builder.run
    assert match is not None
    q = int(match["q"]) if match["q"] else run.queries[0].number
    query = next((query for query in run.queries if query.number == q), None)
    if query is None:
        numbers = ", ".join(f"q{known.number}" for known in run.queries[:20])
        raise SpecvizError(f"--{kind} {place}: no query {q}; there are {numbers}")
    index = run.find(q, int(match["r"]))
    if index is None:
        last = run.rounds.place(query.first + query.n_rounds - 1)[1] if query.n_rounds else 0
        raise SpecvizError(f"--{kind} {place}: no such round; there are r1 to r{last}")
    return index, int(match["n"]) if match["n"] else None


def _indexes(builder: "FrameBuilder", kind: str, place: str) -> range:
    """Indexes of the rounds from one to the other. Raises SpecvizError."""
    ends = [_index(builder, kind, end)[0] for end in place.split("-")]
    if ends[-1] < ends[0]:
        raise SpecvizError(f"--{kind} {place}: the second round comes before the first; turn them round")
    return range(ends[0], ends[-1] + 1)


def _film(builder: "FrameBuilder", place: str, arguments: dict[str, Any]) -> bytes:
    from specviz.view.stage.page import posed_page
    from specviz.view.stage.pictures import film

    indexes = _indexes(builder, "gif", place)
    if len(indexes) > _MOST_ROUNDS:
        raise SpecvizError(
            f"--gif {place}: {len(indexes)} rounds are too many for one GIF, {_MOST_ROUNDS} at most; "
            "'--html' saves a whole run that plays"
        )
    return film(posed_page(builder, indexes, arguments["theme"], arguments["width"]), indexes, arguments["speed"])


def _still(builder: "FrameBuilder", kind: Literal["svg", "png"], place: str, arguments: dict[str, Any]) -> bytes:
    from specviz.view.stage.document import one_round
    from specviz.view.stage.page import posed_page
    from specviz.view.stage.pictures import still

    index, node = _index(builder, kind, place)
    page = one_round(builder, index)
    seen = dict.fromkeys(look.id for look in page.looks)
    if node is not None and node not in seen:
        known = [id for id in seen if id >= 0]
        there = f"there are n{known[0]} to n{known[-1]}" if known else "nothing was drafted in it"
        raise SpecvizError(f"--{kind} {place}: round {page.place} has no node {node}; {there}")
    phases = [_PHASES[moment.phase - 1] for moment in page.moments]
    k = _last_of(phases, arguments["phase"], place)
    return still(posed_page(builder, [index], arguments["theme"], arguments["width"]), kind, index, k, node)


def _last_of(phases: Sequence[str], phase: str | None, place: str) -> int:
    """The last moment of a phase. Raises SpecvizError where the round has none, with those it has."""
    if phase is None:
        return -1
    if phase not in phases:
        there = ", ".join(dict.fromkeys(phases))
        raise SpecvizError(f"--phase {phase}: round {place} has no such phase; it has {there}")
    return len(phases) - 1 - phases[::-1].index(phase)
