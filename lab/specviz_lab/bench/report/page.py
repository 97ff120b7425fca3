"""A report as one HTML file, and what all reports of measurements say."""

import html
from collections.abc import Sequence
from pathlib import Path

from specviz.comparison.machine import Machine
from specviz.comparison.sheets import LEFT, Column, Sheet, sheet
from specviz.errors import SpecvizError
from specviz.metrics.estimate import Estimate
from specviz.view.words.numbers import UNKNOWN, number, percent
from specviz_lab.bench.statistics import Equality


def share(found: Estimate | None) -> str:
    return percent(None if found is None else found.value)


def value(found: Estimate | None) -> str:
    return number(None if found is None else found.value)


def interval(found: tuple[float, float] | None, form: str = ".3f") -> str:
    """From one end to the other."""
    return UNKNOWN if found is None else " .. ".join(format(end, form) for end in found)


def plain(found: float | None, form: str = "g") -> str:
    """A number in a form of its own."""
    return UNKNOWN if found is None else format(found, form)


def machine_line(machine: Machine) -> str:
    """What was measured on, and how busy it was."""
    load = f"load {plain(machine.load_before)} before, {plain(machine.load_after)} after"
    return f"{machine.processor}, {machine.cores} cores, {machine.device}, {machine.threads} threads, {load}"


def equality_sheet(found: Sequence[Equality]) -> Sheet:
    """Whether texts were equal where that was promised."""

    def parting(each: Equality) -> str:
        at = each.worst
        return UNKNOWN if at is None else f"prompt {at.prompt}, token {at.position}, margin {at.margin:.2g}"

    columns: Sequence[Column[Equality]] = (
        ("method", lambda each: each.arm),
        ("as", lambda each: each.reference),
        ("equal", lambda each: f"{each.n_equal} of {each.n}"),
        ("first divergence", parting),
    )
    note = "texts equal token for token; margin: highest minus second highest logit where the worst pair parts"
    return sheet("Equality", found, columns, note)


_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid } .words { text-align: left }
p, footer { opacity: .75 }
"""


def write_page(path: Path, text: str) -> None:
    """Write the file. Raises SpecvizError when it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecvizError(f"--html: cannot write '{path}': {error.strerror or error}") from None


def page(title: str, heading: Sequence[str], sheets: Sequence[Sheet], foot: str, charts: str = "") -> str:
    """The report as one HTML file that needs nothing else."""
    head = "".join(f"<p>{html.escape(line)}</p>" for line in heading)
    body = "".join(_section(each) for each in sheets)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"{head}{charts}{body}<footer><code>{html.escape(foot)}</code></footer></body></html>\n"
    )


def _section(found: Sheet) -> str:
    classes = ["words" if name in LEFT else "" for name in found.head]

    def row(tag: str, cells: Sequence[str]) -> str:
        inside = (f'<{tag} class="{c}">{html.escape(v)}</{tag}>' for c, v in zip(classes, cells, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    rows = "".join(row("td", cells) for cells in found.rows)
    table = f"<table><thead>{row('th', found.head)}</thead><tbody>{rows}</tbody></table>"
    return f"<h2>{html.escape(found.title)}</h2>{table}<p>{html.escape(found.note)}</p>"
