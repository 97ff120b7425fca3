"""The script of the dashboard: navigation, the sidebar, and the chosen page. Nothing else happens here."""

import streamlit as st

from specviz_app.screens import exits, lanes, live, overview, ranks, rounds, trace, verification
from specviz_app.server.server import current
from specviz_app.ui import guard, state
from specviz_app.ui.parts import style
from specviz_app.ui.sidebar import sidebar, unknown

_PAGES = (  # path, title, icon, what it is for, what it does
    ("live", "Live", "play_circle", "decode a prompt and watch it happen", live.page),
    ("overview", "Overview", "bar_chart", "a run in numbers", overview.page),
    ("rounds", "Round explorer", "account_tree", "one round, and why every token of it lived or died", rounds.page),
    ("verification", "Verification", "rule", "the verdict on a draft, scanned backward, and other rules on it",
     verification.page),
    ("early-exit", "Early exit", "exit_to_app",
     "where rows stopped in the layers, what it cost, and other settings on the same text", exits.page),
    ("lanes", "Lanes", "view_timeline",
     "who worked when, who waited, what was drafted for nothing, and what that costs", lanes.page),
    ("ranks", "Ranks", "stairs",
     "why a drafted tree has its shape: predicted ranks, widths, blocks; learning while serving", ranks.page),
    ("trace", "Trace", "list_alt", "the records, their schema, the file", trace.page),
)  # fmt: skip


def main() -> None:
    """One run of the script."""
    st.set_page_config(page_title="specviz", page_icon="◆", layout="wide")
    server = current()
    pages = {
        path: st.Page(guard.guarded(work), title=title, icon=f":material/{icon}:", url_path=path, help=words)
        for path, title, icon, words, work in _PAGES
    }
    st.session_state["page_rounds"] = pages["rounds"]  # for links to it
    first = pages["live" if server.settings.live else "overview"]

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
    guard.guarded(sidebar)(server)
    guard.tell()
    chosen.run()


if __name__ == "__main__":
    main()
