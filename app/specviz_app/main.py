"""The script of the dashboard: navigation, the bar with the run, and the chosen page. Nothing else happens here."""

import streamlit as st

from specviz_app.server.server import current
from specviz_app.ui import guard, owner, state
from specviz_app.ui.pages import all_pages
from specviz_app.ui.parts import style
from specviz_app.ui.run_bar import run_bar, unknown


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
    first = pages["live" if server.settings.live else "stage"]

    def home() -> None:
        """The address without a path: on to the first page, which has one of its own like all others."""
        st.switch_page(first, query_params=dict(state.asked()))

    begin = st.Page(home, title="specviz", url_path="home", default=True, visibility="hidden")
    chosen = st.navigation([begin, *pages.values()], position="top")
    if chosen is begin:
        chosen.run()
    if shown := unknown(server):  # the address names what is shown, so that it can be handed on
        st.switch_page(chosen, query_params={**state.asked(), state.SRC: shown})
    style()
    guard.guarded(run_bar)(server)
    guard.tell()
    chosen.run()


if __name__ == "__main__":
    main()
