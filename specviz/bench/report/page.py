"""The report as one HTML file that needs nothing else: tables always, charts when plotly is installed."""

import html
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from specviz.bench.report.sheet import Sheet
from specviz.bench.report.text import STAGES, lines, sheets
from specviz.bench.results import Report
from specviz.errors import SpecvizError

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { margin: 2rem auto; max-width: 68rem; padding: 0 1rem }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap }
th { border-bottom: 1px solid } .words { text-align: left }
p, footer { opacity: .75 }
"""
# Okabe and Ito's colours, told apart without red and green; a grey that reads on light and dark ground.
_COLOURS = {
    "draft": "#E69F00", "target": "#56B4E9", "verdict": "#009E73", "commit": "#CC79A7", "other": "#999999",
    "probe": "#D55E00",
}  # fmt: skip
_LAYOUT = {
    "height": 320, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#808080"},
    "margin": {"l": 40, "r": 10, "t": 40, "b": 30},
}  # fmt: skip
_WORDS = frozenset({"method", "over", "as", "promise", "first divergence", ""})


def write_page(report: Report, path: Path) -> None:
    """Write the file. Raises SpecvizError when it cannot be written."""
    _write(page(report), path)


def write_sheets(title: str, heading: Sequence[str], tables: Sequence[Sheet], foot: str, path: Path) -> None:
    """The same of other reports: tables alone."""
    _write(_page(title, heading, "", tables, foot), path)


def _write(text: str, path: Path) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecvizError(f"--html: cannot write '{path}': {error.strerror or error}") from None


def page(report: Report) -> str:
    """The page's text."""
    return _page("specviz bench", lines(report), _charts(report), sheets(report), f"{report.command} · {report.wall}")


def _page(title: str, heading: Sequence[str], charts: str, tables: Sequence[Sheet], foot: str) -> str:
    head = "".join(f"<p>{html.escape(line)}</p>" for line in heading)
    body = "".join(_section(sheet) for sheet in tables)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"{head}{charts}{body}<footer><code>{html.escape(foot)}</code></footer></body></html>\n"
    )


def _section(sheet: Sheet) -> str:
    classes = ["words" if name in _WORDS else "" for name in sheet.head]

    def row(tag: str, cells: "list[str] | tuple[str, ...]") -> str:
        inside = (f'<{tag} class="{c}">{html.escape(v)}</{tag}>' for c, v in zip(classes, cells, strict=True))
        return f"<tr>{''.join(inside)}</tr>"

    rows = "".join(row("td", cells) for cells in sheet.rows)
    table = f"<table><thead>{row('th', sheet.head)}</thead><tbody>{rows}</tbody></table>"
    return f"<h2>{html.escape(sheet.title)}</h2>{table}<p>{html.escape(sheet.note)}</p>"


def _charts(report: Report) -> str:
    """Speeds with quartiles, and where a round's time goes; nothing without plotly."""
    if find_spec("plotly") is None:
        return ""
    import plotly.graph_objects as go

    names = [arm.name for arm in report.arms]
    speeds = [arm.tokens_per_second for arm in report.arms]
    error = {
        "type": "data", "symmetric": False, "array": [s.high - s.median for s in speeds],
        "arrayminus": [s.median - s.low for s in speeds],
    }  # fmt: skip
    speed = go.Figure(
        go.Bar(x=names, y=[s.median for s in speeds], error_y=error, marker={"color": _COLOURS["target"]})
    )
    speed.update_layout(title="Tokens per second, median and quartiles", **_LAYOUT)
    stacks = [
        go.Bar(
            name=stage, x=names, y=[arm.stage_ms.get(stage, 0.0) for arm in report.arms],
            marker={"color": _COLOURS[stage]},
        )
        for stage in STAGES
    ]  # fmt: skip
    rounds = go.Figure(stacks)
    rounds.update_layout(title="Milliseconds of a round", barmode="stack", **_LAYOUT)
    quiet = {"displayModeBar": False}
    first: str = speed.to_html(full_html=False, include_plotlyjs=True, config=quiet)
    second: str = rounds.to_html(full_html=False, include_plotlyjs=False, config=quiet)
    return first + second
