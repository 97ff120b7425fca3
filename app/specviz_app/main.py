"""The script of the dashboard: navigation, the bar with the run, and the chosen page. Nothing else happens here."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from specviz_app.server.server import current
from specviz_app.ui import address, guard, owner
from specviz_app.ui.pages import all_pages, moved
from specviz_app.ui.parts import style
from specviz_app.ui.run_bar import run_bar, unknown

if TYPE_CHECKING:
    from streamlit.navigation.page import StreamlitPage


def main() -> None:
    st.set_page_config(page_title="specviz", page_icon="◆", layout="wide")
    owner.take_key()
    server = current()
    pages = {
        page.path: st.Page(
            guard.guarded(page.show),
            title=page.title,
            icon=f":material/{page.icon}:",
            url_path=page.path,
            help=page.help,
        )
        for page in all_pages()
    }
    st.session_state["pages"] = pages  # for links to them
    begin = st.Page(_lead(pages["stage"], {}), title="specviz", url_path="home", default=True, visibility="hidden")
    ways = [begin] + [
        st.Page(_lead(pages[page], more, path), title=path, url_path=path, visibility="hidden")
        for path, (page, more) in moved().items()
    ]
    chosen = st.navigation([*ways, *pages.values()], position="top")
    if chosen in ways:
        chosen.run()
    if shown := unknown(server):  # the address names what is shown, so that it can be handed on
        st.switch_page(chosen, query_params={**address.everything(), address.SRC: shown})
    style()
    guard.guarded(run_bar)(server)
    guard.tell()
    chosen.run()


def _lead(page: "StreamlitPage", more: dict[str, str], path: str = "") -> Callable[[], None]:
    """What the address without a path, or one of a page that has moved, leads to; with all that was asked there.

    On the browser's way back the widgets of this tab are there already: Streamlit lets nobody else write what
    they hold.
    """

    def lead() -> None:
        asked = {
            f"{path}.show" if path and name == "show" else name: values for name, values in address.everything().items()
        }
        asked |= {name: [value] for name, value in more.items()}
        if address.SRC in asked and address.SRC in st.session_state:
            st.session_state[address.SRC] = asked[address.SRC][0]
        free = {name: values for name, values in asked.items() if name not in st.session_state}
        st.switch_page(page, query_params=free)

    return lead


if __name__ == "__main__":
    main()
