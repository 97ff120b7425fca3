"""Each page with a recorded run: it shows what the view says, moves, keeps its place in the address, and survives bad
input.
"""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import specviz_app
from app import barred, onstage
from app.conftest import Open
from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.sources.bundled import FIRST, bundled_traces
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.panels.overview.build import overview
from specviz_app.launcher import SCRIPT
from specviz_app.server.core import Settings
from specviz_app.server.server import current
from specviz_app.ui.pages import PanelBelow, all_below, all_pages, moved, register_below, unregister_below
from support.traces import make_events, write_trace


def _spec(chart) -> dict:  # type: ignore[no-untyped-def,type-arg]
    return json.loads(chart.proto.spec)


def _at(app: AppTest) -> str:
    place = app.query_params["at"]
    return place if isinstance(place, str) else place[0]


def test_overview_prints_the_metrics_of_the_view(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "overview")
    assert not at.exception
    overview_blocks = overview(fold(read_events(chain_trace)))
    assert [(m.label, m.value) for m in at.metric] == [
        (row.label, row.value) for row in overview_blocks.blocks.numbers.rows
    ]
    labels = {m.label for m in at.metric}
    assert {"accepted / drafted", "accepted / tested"} <= labels
    assert len(barred.charts(at)) == 7


def test_every_plot_says_in_words_what_it_shows(chain_trace: Path, open_page: Open) -> None:
    for page in ("overview", "rounds"):
        words = barred.charts(open_page(Settings(replay=chain_trace), page))
        assert words
        assert all(words)


def test_the_panel_of_a_round_opens_at_the_first_and_goes_with_the_picture(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "rounds", at="r1")
    assert not at.exception
    for place in ("r2", "r1"):
        onstage.go(at, place)
        assert _at(at) == place
        player = Player(fold(read_events(chain_trace)), animate=False)
        player.seek(place)
        tested = [node for node in player.frame().tree.nodes if node.id >= 0 and node.values.u is not None]
        assert at.get("plotly_chart")[0].proto.alt.startswith(f"{len(tested)} tests")


def test_the_address_names_round_and_node(chain_trace: Path, open_page: Open) -> None:
    player = Player(fold(read_events(chain_trace)), animate=False)
    player.seek("r3")
    node = next(n for n in player.frame().tree.nodes if n.id >= 0)
    at = open_page(Settings(replay=chain_trace), "rounds", at=f"r3/n{node.id}")
    assert not at.exception
    assert onstage.handed(at)["at"] == _at(at) == f"r3/n{node.id}"


@pytest.mark.parametrize(
    ("place", "words"), [("r999", "no round 999"), ("x", "no place 'x'"), ("r2/n99999", "no node 99999")]
)
def test_a_bad_place_is_told_and_the_page_lives(place: str, words: str, chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "rounds", at=place)
    assert not at.exception
    assert words in at.warning[0].value.replace("\\", "")
    assert at.get("plotly_chart")


def test_the_trace_page_filters_records_by_kind_and_round(chain_trace: Path, open_page: Open) -> None:
    events = read_events(chain_trace)
    at = open_page(Settings(replay=chain_trace), "trace", ev="verify", r="2")
    assert not at.exception
    wanted = [e for e in events if type(e).__name__ == "Verify" and e.r == 2]
    assert list(at.dataframe[0].value["i"]) == [e.i for e in wanted]


def test_an_uploaded_trace_becomes_the_run_to_look_at(chain_trace: Path, tree_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "rounds")
    at.file_uploader(key="upload").upload("mine.sv.jsonl.gz", tree_trace.read_bytes())
    at.run()
    assert not at.exception
    assert at.selectbox(key="src").value == "mine.sv.jsonl.gz (upload)"
    head = json.loads(current().stages.run(onstage.handed(at)["run"]).head())
    assert "draft · tree" in head["title"]


def test_a_broken_upload_is_told_with_line_and_reason(chain_trace: Path, open_page: Open) -> None:
    import gzip

    lines = gzip.decompress(chain_trace.read_bytes()).split(b"\n")
    lines[4] = b'{"ev":"node","node":"seven"}'
    at = open_page(Settings(replay=chain_trace), "overview")
    at.file_uploader(key="upload").upload("bad.sv.jsonl", b"\n".join(lines))
    at.run()
    assert not at.exception
    message = at.error[0].value.replace("\\", "")
    assert "bad.sv.jsonl line 5" in message
    assert "/tmp" not in message
    assert at.metric  # the run that was open stays


def test_the_bundled_traces_are_offered_and_every_one_opens(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz_app.ui.library.bundled_traces", bundled_traces)
    names = list(bundled_traces())
    assert names
    at = open_page(Settings())
    first, *rest = at.selectbox(key="src").options[: len(names)]
    assert first == FIRST, "what is meant for the first minute comes first"
    assert [first, *rest] == sorted(names, key=lambda name: name != FIRST)
    for name in names:
        at = open_page(Settings(), "rounds", src=name)
        assert not at.exception
        assert not at.error
        assert at.selectbox(key="src").value == name


def test_without_any_run_the_pages_say_what_to_do(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz_app.ui.library.bundled_traces", dict)
    for page in ("overview", "rounds", "trace"):
        at = open_page(Settings(), page)
        assert not at.exception
        assert not at.error
        assert "view=stage" in onstage.handed(at)["events"], "the stage, to write to, is where a first run begins"


def test_a_trace_that_went_away_is_told_and_the_app_lives(tmp_path: Path, chain_trace: Path, open_page: Open) -> None:
    gone = tmp_path / "gone.sv.jsonl.gz"
    at = open_page(Settings(replay=gone), "overview")
    assert not at.exception
    assert "no trace" in at.error[0].value.replace("\\", "")


@pytest.mark.parametrize("name", ["nope", "mine.sv.jsonl (upload)"])
def test_a_link_to_a_run_that_is_not_here_says_so_until_another_is_chosen(name: str, open_page: Open) -> None:
    at = open_page(Settings(), "rounds", src=name)
    warnings = [w.value.replace("\\", "") for w in at.warning]
    assert any(f"no run '{name}'" in words for words in warnings)
    assert any("upload" in words for words in warnings) is name.endswith("(upload)")
    assert not at.exception
    onstage.go(at, "r2")
    assert at.warning
    at.selectbox(key="src").set_value("sums-draft").run()
    assert not at.warning


@pytest.mark.parametrize("query", [{}, {"src": "nope"}])
def test_the_list_and_the_address_name_the_run_that_is_shown(query: dict[str, str], open_page: Open) -> None:
    at = open_page(Settings(), **query)
    assert at.selectbox(key="src").value == "code-draft"
    assert at.query_params["src"] == "code-draft"
    assert bool(at.warning) is bool(query)


def test_the_first_page_has_a_path_and_keeps_what_the_address_asks(open_page: Open) -> None:
    at = open_page(Settings(), src="code-tree", at="r3")
    assert not at.exception
    (picture,) = at.get("bidi_component")
    assert picture.proto.component_name == "specviz_stage"
    assert '"at": "r3"' in str(picture.proto).replace("\\", "")
    assert at.selectbox(key="src").value == "code-tree"


def test_without_a_recording_the_first_page_is_a_stage_that_one_writes_to(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("specviz_app.ui.library", "specviz_app.main"):
        monkeypatch.setattr(f"{module}.bundled_traces", dict, raising=False)
    at = open_page(Settings())
    assert not at.exception
    assert "view=stage" in str(at.get("bidi_component")[0].proto)


def test_a_token_without_end_is_cut_wherever_it_is_shown(tmp_path: Path, open_page: Open) -> None:
    events = make_events(shape="tree", temperature=0.7, new_tokens=8)
    for event in events:
        if isinstance(event, ev.Node):
            event.text = "w" * 100_000
    path = write_trace(tmp_path / "long", events)
    for page in [panel.id for panel in all_below()]:
        at = open_page(Settings(replay=path), page, at="r2")
        assert not at.exception
        shown = [str(h.value) for h in at.get("html")] + [o for b in at.selectbox for o in b.options]
        shown += barred.charts(at)
        assert not any("w" * 300 in words for words in shown), page


def test_a_panel_from_elsewhere_is_found_and_stands_in_its_place(open_page: Open) -> None:
    toy = PanelBelow("toy", "Toy", 35, lambda held, dark: st.caption("of a test"))
    register_below(toy)
    try:
        panels = [panel.id for panel in all_below()]
        assert panels[panels.index("rounds") + 1] == "toy"
        at = open_page(Settings(), "toy")
        assert not at.exception
        assert "of a test" in [caption.value for caption in at.caption]
        assert ["toy", "Toy", ""] in onstage.handed(at)["panels"]
    finally:
        unregister_below("toy")
    assert "toy" not in [panel.id for panel in all_below()]


def test_there_are_three_pages_and_none_opens_empty(open_page: Open) -> None:
    assert [page.title for page in all_pages()] == ["Stage", "Compare", "Servers"]


@pytest.mark.parametrize("path", list(moved()))
def test_a_former_address_leads_to_what_it_showed_with_all_that_was_asked(path: str, open_page: Open) -> None:
    page, more = moved()[path]
    open_page(Settings())
    at = AppTest.from_file(str(SCRIPT))  # a tab that begins at this address
    at.default_timeout = 60
    at._page_hash = calc_hash(path)
    for name, value in (("src", "code-specblock"), ("at", "r3"), ("show", "the run")):
        at.query_params[name] = value
    at.run()
    assert not at.exception
    assert not at.error
    asked = {name: value if isinstance(value, str) else value[0] for name, value in at.query_params.items()}
    assert more.items() <= asked.items()
    assert at.session_state["pages"][page]
    assert asked["src"] == more.get("src", "code-specblock")
    assert asked["at"] == "r3"
    assert (asked.get("ranks.show") == "the run") is (path == "ranks")
    if "panel" in more:
        assert onstage.handed(at)["panel"] == more["panel"]
    at._page_hash = calc_hash(path)  # the browser's way back
    at.run()
    assert not at.exception
    assert not at.error


_WRITES = re.compile(r"history\.(push|replace)State")


def test_the_address_has_one_owner() -> None:
    """Who reads or writes it beside the module that does so for all would be told of no step, or of one twice."""
    home = Path(specviz_app.__file__).parent
    others = [
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        if re.search(r"\bst\.query_params", path.read_text("utf-8"))
    ]
    assert others == ["ui/address.py"]
    scripts = Path(str(files("specviz_assets"))).rglob("*.js")
    writers = [path.name for path in scripts if _WRITES.search(path.read_text("utf-8"))]
    assert writers == ["file.js"], "but for a saved page, which has an address without a server"
