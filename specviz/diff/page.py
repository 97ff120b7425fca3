"""The report as one HTML file: no script, no network; it follows the browser's light or dark theme."""

from collections.abc import Iterable, Sequence
from html import escape

from specviz.diff.measure import WHOLE, DiffReport
from specviz.metrics import METRICS, Estimate
from specviz.metrics.sets import NumberChange
from specviz.text import running
from specviz.view.compare.texts import NOT_ON_RECORD
from specviz.view.words.numbers import uncertainty

_NEITHER = {"drafting_share"}  # more of it is neither good nor bad
_STYLE = """
:root{color-scheme:light dark;--ink:#1c2330;--dim:#5d6779;--paper:#fbfbfc;--line:#d9dee7;--a:#3565c9;--b:#c2570c;
--good:#1a7f4b;--bad:#b42318}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ef;--dim:#9aa4b5;--paper:#12161d;--line:#2c3442;--a:#7aa2f7;
--b:#f0a35e;--good:#6cc993;--bad:#f58a80}}
body{margin:0 auto;padding:2rem 1.2rem;max-width:58rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.dim{color:var(--dim)}
.a{color:var(--a)}.b{color:var(--b)}.good{color:var(--good)}.bad{color:var(--bad)}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--dim);font-weight:500}th:first-child,td:first-child{text-align:left;white-space:normal}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:3px solid var(--line);padding:.2rem .8rem;margin:.5rem 0}
svg{max-width:100%;height:auto}svg text{fill:var(--dim);font:12px system-ui,sans-serif}
.verdict{border:1px solid var(--line);border-left-width:4px;padding:.5rem .9rem;margin:1rem 0;border-radius:4px}
.verdict.good{border-left-color:var(--good)}.verdict.bad{border-left-color:var(--bad)}
"""


def report_page(report: DiffReport, gates: Sequence[tuple[str, str | None]]) -> str:
    """The page. `gates`: every condition as it was written, and why it was broken, None where it was not."""
    parts = [
        f"<h1><span class=a>A</span> {_text(report.a)} → <span class=b>B</span> {_text(report.b)}</h1>",
        f"<p class=dim>{report.n_rounds[0]:,} and {report.n_rounds[1]:,} rounds of {report.n_requests[0]:,} and "
        f"{report.n_requests[1]:,} {'prompt' if max(report.n_requests) == 1 else 'prompts'}. "
        f"Intervals: 95 % over {_text(report.units)}.</p>",
        *(_verdict(text, why) for text, why in gates),
        "<h2>Whole runs</h2>",
        _table(report.whole, "", WHOLE),
        *_placed(report),
        *(part for name, rows in report.domain.items() for part in (f"<h2>{_text(name)}</h2>", _table(rows, ""))),
        *_texts(report),
        *_settings(report),
    ]
    title = escape(running(f"{report.a} → {report.b}"))
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _text(text: str) -> str:
    return escape(running(text))


def _verdict(text: str, why: str | None) -> str:
    kind, word = ("good", "passes") if why is None else ("bad", "fails")
    return f"<div class='verdict {kind}'><b class={kind}>{word}</b> {_text(text + (f': {why}' if why else ''))}</div>"


def _table(rows: Iterable[NumberChange], drop: str, words: "dict[str, str] | None" = None) -> str:
    head = "<tr><th></th><th class=a>A</th><th class=b>B</th><th>change</th><th>95 %</th></tr>"
    body = "".join(_row(each, drop, (words or {}).get(each.metric, "")) for each in rows)
    return f"<div class=scroll><table>{head}{body}</table></div>"


def _row(change: NumberChange, drop: str, words: str) -> str:
    ends = change.ratio.interval if change.ratio is not None else None
    sure = ends is not None and (ends[0] > 0 or ends[1] < 0) and change.metric not in _NEITHER
    kind = "" if not sure or change.ratio is None else "good" if change.ratio.value > 0 else "bad"
    name = _text(change.metric.removeprefix(drop)) + (f"<br><span class=dim>{_text(words)}</span>" if words else "")
    a, b, moved, spread = cells(change)
    told = "".join(f"<td>{cell}</td>" for cell in (a, b, f"<b class='{kind}'>{moved}</b>", spread))
    return f"<tr><td>{name}</td>{told}</tr>"


def cells(change: NumberChange) -> tuple[str, str, str, str]:
    """A, B, the change in percent of A (absolute where A is 0), its interval or why there is none."""
    found, show = (change.difference, "{:+.3f}") if change.ratio is None else (change.ratio, "{:+.1%}")
    if found is None:
        return _value(change.a), _value(change.b), "–", ""
    low_high = found.interval
    spread = uncertainty(found) if low_high is None else " .. ".join(map(show.format, low_high))
    return _value(change.a), _value(change.b), show.format(found.value), spread


def _value(found: Estimate | None) -> str:
    """Three digits that count."""
    return "–" if found is None else f"{found.value:.3f}" if abs(found.value) < 10 else f"{found.value:,.1f}"


def placed(report: DiffReport) -> dict[str, list[NumberChange]]:
    """By place; on chains acceptance by depth is that by position, and told once."""
    found, seen = {}, []
    for name, rows in report.by_place.items():
        numbers = [(change.a, change.b) for change in rows]
        if numbers not in seen:
            found[name] = rows
        seen.append(numbers)
    return found


def _placed(report: DiffReport) -> Iterable[str]:
    for name, rows in placed(report).items():
        yield f"<h2>{name}: {METRICS[name].help}</h2>"
        yield _chart(rows)
        yield _table(rows, f"{name}@")


def _chart(rows: Sequence[NumberChange]) -> str:
    """Both sets as lines over the positions, 0 to 1."""
    width, height, left, bottom = 640, 220, 36, 26
    step = (width - left - 16) / max(len(rows) - 1, 1)

    def place(k: int, value: float) -> tuple[float, float]:
        return left + k * step, 10 + (1 - value) * (height - bottom - 10)

    marks = [
        f'<line x1={left} x2={width - 16} y1={place(0, y)[1]:.1f} y2={place(0, y)[1]:.1f} stroke="var(--line)"/>'
        f"<text x={left - 6} y={place(0, y)[1] + 4:.1f} text-anchor=end>{y:g}</text>"
        for y in (0, 0.5, 1)
    ]
    every = max(1, len(rows) // 16)
    marks += [
        f"<text x={place(k, 0)[0]:.1f} y={height - 6} text-anchor=middle>{k + 1}</text>"
        for k in range(0, len(rows), every)
    ]
    for which, values in (("a", [row.a for row in rows]), ("b", [row.b for row in rows])):
        points = [place(k, found.value) for k, found in enumerate(values) if found is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        marks.append(f'<polyline points="{line}" fill="none" stroke="var(--{which})" stroke-width="2"/>')
        marks += [f'<circle cx={x:.1f} cy={y:.1f} r=3.5 fill="var(--{which})"/>' for x, y in points]
    label = "acceptance of A and B by place; the table below has the numbers"
    return f'<svg viewBox="0 0 {width} {height}" width={width} role=img aria-label="{label}">{"".join(marks)}</svg>'


def text_lines(report: DiffReport) -> list[str]:
    """How many texts are equal, and of how many that cannot be told."""
    unknown = f"Of {report.n_unknown} the {NOT_ON_RECORD}, or their prompts." if report.n_unknown else ""
    n = report.n_same_text + len(report.partings)
    equal = (
        f"{report.n_same_text} of {n} texts are equal."
        if n
        else ""
        if unknown
        else "No prompt in common: texts are not compared."
    )
    return [line for line in (equal, unknown) if line]


def _texts(report: DiffReport) -> Iterable[str]:
    yield "<h2>Texts</h2>"
    yield from (f"<p>{line}</p>" for line in text_lines(report))
    for each in report.partings[:20]:
        yield f"<p class=dim>{_text(each.a_request)}: alike for {each.at:,} tokens</p>"
        yield (
            f"<pre>…{_text(each.before)}\n<b class=a>A</b> {_text(each.a_text) or '(ends)'}\n"
            f"<b class=b>B</b> {_text(each.b_text) or '(ends)'}</pre>"
        )


def _settings(report: DiffReport) -> Iterable[str]:
    if report.settings:
        rows = "".join(
            f"<tr><td>{_text(name)}</td><td>{_text(', '.join(a)) or '–'}</td><td>{_text(', '.join(b)) or '–'}</td></tr>"
            for name, (a, b) in report.settings.items()
        )
        yield "<h2>Set otherwise</h2><div class=scroll><table><tr><th></th><th class=a>A</th><th class=b>B</th></tr>"
        yield f"{rows}</table></div>"
