"""`specviz lab papers`: the tables of the papers' pages, recomputed."""

from pathlib import Path

import click

from specviz.cli.flags import JSON, flag
from specviz.cli.printing import echo_json, narrate, table_of
from specviz.console import standard_output
from specviz.errors import SpecvizError
from specviz.registry import pick
from specviz_lab.papers.table import ComputedTable, filled, papers

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("papers")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@flag("--quick", "Leave out tables that take more than a second.")
@click.option(
    "--page", "to", type=_FOLDER, metavar="FOLDER", help="Write them into NAME.md there, between its markers."
)
@flag("--measure", "First decode anew what is kept in benchmarks/papers as counts; takes an hour.")
@click.option(
    "--prompts", type=_FILE, metavar="FILE", help="With --measure: the prompts, as a file of lines or JSON lines."
)
@JSON
def command(
    names: tuple[str, ...], quick: bool, to: Path | None, measure: bool, prompts: Path | None, as_json: bool
) -> None:
    """Recompute what stands beside the published numbers of a paper; all papers without a NAME.

    By enumeration, by the modelled clock, by replay of recorded rounds, and out of counts and times that are kept in
    benchmarks/papers: nothing is timed here, and the same numbers come out on any machine.

    \b
      specviz lab papers hsd
      specviz lab papers --page docs/papers
    """
    known = papers()
    chosen = [pick("paper", name, known) for name in dict.fromkeys(names or known)]
    if to is not None:
        for paper in chosen:
            _page(to, paper.name)
    if measure:
        for paper in chosen:
            if paper.measure is not None:
                paper.measure(prompts)
    computed = {paper.name: paper.compute(quick) for paper in chosen}
    if to is not None:
        for name, tables in computed.items():
            path = _page(to, name)
            path.write_text(filled(path.read_text("utf-8"), tables), "utf-8")
            narrate(f"specviz: {path}")
    elif as_json:
        echo_json({name: {key: _object(table) for key, table in tables.items()} for name, tables in computed.items()})
    else:
        for paper in chosen:
            for key, table in computed[paper.name].items():
                _print(f"{paper.title}: {key}", table)


def _page(folder: Path, name: str) -> Path:
    path = folder / f"{name}.md"
    if not path.is_file():
        raise SpecvizError(f"{folder} has no page {name}.md; the pages lie in docs/papers of a checkout")
    return path


def _object(table: ComputedTable) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def _print(title: str, table: ComputedTable) -> None:
    shown = table_of(*table.columns)
    for row in table.rows:
        shown.add_row(*row)
    with standard_output(160) as console:
        console.print(title, style="bold")
        console.print(shown)
        if table.note:
            console.print(table.note)
        console.print()
