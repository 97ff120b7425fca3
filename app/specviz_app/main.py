"""The script of the dashboard: navigation, the sidebar, and the chosen page. Nothing else happens here."""

import streamlit as st

from specviz_app.parts import style
from specviz_app.screens import early_exit, lanes, live, overview, ranks, rounds, trace, verification
from specviz_app.server import current
from specviz_app.sidebar import sidebar


def main() -> None:
    """One run of the script."""
    st.set_page_config(page_title="specviz", page_icon="◆", layout="wide")
    server = current()
    wants_live = server.settings.live
    explorer = st.Page(
        rounds.page, title="Round explorer", icon=":material/account_tree:", url_path="rounds",
        help="one round, and why every token of it lived or died",
    )  # fmt: skip
    st.session_state["page_rounds"] = explorer  # for links to it
    chosen = st.navigation(
        [
            st.Page(live.page, title="Live", icon=":material/play_circle:", url_path="live", default=wants_live,
                    help="decode a prompt and watch it happen"),
            st.Page(overview.page, title="Overview", icon=":material/bar_chart:", url_path="overview",
                    default=not wants_live, help="a run in numbers"),
            explorer,
            st.Page(verification.page, title="Verification", icon=":material/rule:", url_path="verification",
                    help="the verdict on a draft, scanned backward, and other rules on it"),
            st.Page(early_exit.page, title="Early exit", icon=":material/exit_to_app:", url_path="early-exit",
                    help="where rows stopped in the layers, what it cost, and other settings on the same text"),
            st.Page(lanes.page, title="Lanes", icon=":material/view_timeline:", url_path="lanes",
                    help="who worked when, who waited, what was drafted for nothing, and what that costs"),
            st.Page(ranks.page, title="Ranks", icon=":material/stairs:", url_path="ranks",
                    help="why a drafted tree has its shape: predicted ranks, widths, blocks; learning while serving"),
            st.Page(trace.page, title="Trace", icon=":material/list_alt:", url_path="trace",
                    help="the records, their schema, the file"),
        ],
        position="top",
    )  # fmt: skip
    style()
    sidebar(server)
    chosen.run()


if __name__ == "__main__":
    main()
