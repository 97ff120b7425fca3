"""The recordings as a gallery: of each a picture of its rounds, its method, what it kept, and whether it paid."""

from collections.abc import Mapping
from html import escape
from pathlib import Path

import streamlit as st

from specviz.sources.gallery import GalleryCard, gallery_card
from specviz.view.words.palette import colour
from specviz_app.ui import guard, state

_OPEN = "gallery-open"  # in the session's state
_ACROSS = 3


def button() -> None:
    """Opens it."""
    about = "All recordings at a glance"
    st.button("Gallery", icon=":material/grid_view:", key="gallery", help=about, on_click=guard.obeyed(_open))


def _open() -> None:
    st.session_state[_OPEN] = True


def show(runs: Mapping[str, Path | None]) -> None:
    """The gallery over the page, once it was asked for. `runs`: everything by name, None what is no file."""
    if st.session_state.pop(_OPEN, False):
        st.dialog("Recordings", width="large")(guard.guarded(_cards))(runs)


def _cards(runs: Mapping[str, Path | None]) -> None:
    cards = {name: card for name, path in runs.items() if path is not None and (card := gallery_card(path)) is not None}
    columns = st.columns(_ACROSS)
    for place, (name, card) in enumerate(cards.items()):
        with columns[place % _ACROSS], st.container(border=True):
            st.html(_card(name, card))
            args = (name,)
            if st.button(
                "Play", key=f"play-{name}", width="stretch", on_click=guard.obeyed(state.open_next), args=args
            ):
                st.rerun()  # the whole page, without the gallery


def _card(name: str, card: GalleryCard) -> str:
    """HTML of escaped texts: a bar a round, as high as what it wrote; what its draft brought in another colour."""
    most = max((written for _, written in card.bars), default=1)
    shares = ((100 * written / most, 100 * kept / max(1, written)) for kept, written in card.bars)
    bars = "".join(f'<i style="height: {high:.0f}%"><b style="height: {kept:.0f}%"></b></i>' for high, kept in shares)
    numbers = "".join(f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" for label, value in card.numbers)
    asked = f"<q>{escape(card.summary.question)}</q>" if card.summary.question else ""
    about = card.summary.about
    title = f"<p><b>{escape(about.title)}</b></p>" if about is not None else ""
    look = f'<p class="sv-dim">{escape(about.words)}</p>' if about is not None else ""
    run_setting = f"{card.summary.how} · {card.summary.sampling}"
    dark = state.dark()
    style = f"--kept: {colour('accepted', dark)}; --closed: {colour('recovered', dark)}"
    return (
        f'<div class="sv-gallery" style="{style}"><h4>{escape(name)}</h4>{title}'
        f'<p class="sv-dim">{escape(run_setting)}</p>{asked}'
        f'<div class="bars" aria-hidden="true">{bars}</div><dl>{numbers}</dl>'
        f'<p class="pays">{escape(card.pays)}</p>{look}</div>'
    )
