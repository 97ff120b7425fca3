"""Pieces that several pages show. Token text reaches the page escaped (`specviz.text.html`) or as plain text only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from hashlib import blake2b
from html import escape
from pathlib import Path
from typing import Any

import streamlit as st

from specviz.runlog.run import Mark
from specviz.view.frame.judgement import RunCard
from specviz.view.frame.parts import Why, WhyRow
from specviz.view.words.palette import Tone, colour
from specviz_app.figures.tree import fig_residual

_CSS = (Path(__file__).parents[1] / "static" / "page.css").read_text(encoding="utf-8")
_CONFIG = {"displayModeBar": False, "scrollZoom": False}


Rows = Sequence[Mapping[str, Any]]


def plot(figure: Any, key: str, alt: str, rows: Rows | None = None, pick: bool | Callable[[], None] = False) -> Any:
    """A figure with the words that stand for it, and its table for people who read rather than look.

    `pick`: points can be clicked, which makes the page again, or calls that.
    """
    more: dict[str, Any] = {"on_select": "rerun" if pick is True else pick, "selection_mode": "points"} if pick else {}
    event = st.plotly_chart(figure, key=key, alt=alt, config=_CONFIG, **more)
    if rows is not None:
        table(rows, key)
    return event


def table(rows: Rows, key: str) -> None:
    """What a picture shows, for people who read rather than look."""
    with st.expander("Show table", key=f"{key}-table", on_change="rerun") as box:
        if box.open:
            st.dataframe(list(rows), hide_index=True)


def say(words: str) -> None:
    """A caption of words that are no markdown."""
    st.caption(plain(words))


def lead(words: str, below: str = "") -> None:
    """The sentence that a part of a page begins with; what stands below it in grey."""
    st.html(f'<p class="sv-said">{escape(words)}</p>' + (f'<p class="sv-dim">{escape(below)}</p>' if below else ""))


def metrics(numbers: Iterable[tuple[str, str, str | None]], key: str) -> None:
    """Numbers in boxes of one width, as many in a row as there is room for: label, value, what it is."""
    with st.container(key=f"numbers-{key}", gap="small"):
        for label, value, help_ in numbers:
            st.metric(label, value, help=help_, border=True)


def unlike(labels: Sequence[str]) -> list[str]:
    """The labels, told apart: a second one that reads the same gets a number. A list goes by its labels alone."""
    n: dict[str, int] = {}
    distinct = []
    for label in labels:
        n[label] = n.get(label, 0) + 1
        distinct.append(label if n[label] == 1 else f"{label} ({n[label]})")
    return distinct


def key_of(key: str, place: str, labels: Sequence[str]) -> str:
    """The key of a list whose options belong to a place of the run.

    A browser keeps the *label* that was chosen, and sends it back under the same key when the options have long been
    others. With the place and the labels in the key, other options are another list, and nothing of the old one counts.
    """
    return f"{key}@{blake2b(chr(0).join((place, *labels)).encode('utf-8', 'replace'), digest_size=6).hexdigest()}"


def wide(needed: bool = True) -> Any:
    """Where a plot of many labels goes: on a narrow page it keeps its width and is moved sideways."""
    return st.container(key="wide-plot") if needed else nullcontext()


def plain(text: str) -> str:
    """Words as they are: nothing of a file's name or content is markdown."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]()#+-.!|<>$~:&" else c for c in text)


def dim(words: str) -> None:
    """A line in grey."""
    st.html(f'<p class="sv-dim">{escape(words)}</p>')


def _badge(tone: Tone, words: str) -> str:
    """HTML of a promise, in its colour."""
    return f'<span class="sv-badge {tone}">{escape(words)}</span>'


def run_card(card: RunCard) -> None:
    """Who made a run that is not ours, by what rule, and what does not add up."""
    rows = [(label, _badge(card.tone, words) if label == "promise" else escape(words)) for label, words in card.rows]
    wrong = "".join(f"<p>{_badge('broken', words)}</p>" for words in card.violations)
    _card(card.title, rows, wrong)


def server_card(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """What a server is and what is not known of it."""
    _card(title, [(label, escape(words)) for label, words in rows])


def _card(title: str, rows: Iterable[tuple[str, str]], below: str = "") -> None:
    """Label, and HTML of what is said; `below`: HTML."""
    rows_html = "".join(
        f"<tr><th scope=row>{escape(label)}</th><td>{value_html}</td></tr>" for label, value_html in rows
    )
    st.html(f'<div class="sv-why sv-card"><h4>{escape(title)}</h4><table>{rows_html}</table>{below}</div>')


def why_panel(why: Why | None, dark: bool, key: str) -> None:
    """Why a node is what it is: the sentence, the numbers it rests on, what was left to draw from."""
    if why is None:
        st.html('<div class="sv-why">Choose a node.</div>')
        return
    rows = "".join(
        f"<tr><th scope=row>{escape(row.label)}</th><td>{escape(row.value)}</td>"
        f"<td>{_gauge(row.bar, colour(why.mark, dark))}</td><td>{escape(row.note)}</td></tr>"
        for row in why.rows
    )
    small = [("Cost", why.cost), ("Rank", why.rank), ("What would flip it", why.what_flips)]
    notes = "".join(f"<p><b>{name}</b> {escape(text)}</p>" for name, text in small if text)
    st.html(
        f'<div class="sv-why" style="border-color:{colour(why.mark, dark)}"><h4>{escape(why.title)}</h4>'
        f"<p><b>{escape(f'{why.glyph} {why.headline}')}</b></p>"
        f'<p class="sv-dim">{escape(why.rule)}</p><table>{rows}</table>'
        f'<p class="sv-words">{escape(why.words)}</p>{notes}</div>'
    )
    if why.residual is not None:
        residual = why.residual
        dim(residual.title)
        table = [
            {"token": e.shown, "share of the draw": e.prob, "p": e.p, "q": e.q, "drawn": e.drawn, "drafted": e.drafted}
            for e in residual.entries
        ]
        drawn = next((e for e in residual.entries if e.drawn), None)
        taken = f" {drawn.shown} was drawn, share {drawn.text}." if drawn is not None else ""
        plot(fig_residual(residual, dark), f"{key}-residual", f"{residual.title}.{taken}", table)
        if residual.note:
            dim(residual.note)


def facts(title: str, words: str, rows: Sequence[WhyRow], mark: Mark, dark: bool) -> None:
    """Something that was chosen, in words and numbers."""
    table = "".join(
        f"<tr><th scope=row>{escape(r.label)}</th><td>{escape(r.value)}</td>{_rest(r, mark, dark)}</tr>" for r in rows
    )
    st.html(
        f'<div class="sv-why" style="border-color:{colour(mark, dark)}"><h4>{escape(title)}</h4><table>{table}</table>'
        f'<p class="sv-words">{escape(words)}</p></div>'
    )


def _rest(row: WhyRow, mark: Mark, dark: bool) -> str:
    note = escape(row.note)
    if row.bar is None:
        return f"<td colspan=2>{note}</td>"
    return f"<td>{_gauge(row.bar, colour(mark, dark))}</td><td>{note}</td>"


def _gauge(value: float | None, hex_colour: str) -> str:
    if value is None:
        return ""
    style = f"--share:{value:.4f};--mark:{hex_colour}"
    return f'<span class="sv-gauge" style="{style}"><i></i></span>'


def style() -> None:
    """The page's own style sheet."""
    st.html(f"<style>{_CSS}</style>")
