"""Below the stage: a row of tabs that knows the run, and the body of a page about the same round."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("streamlit", reason="streamlit is not installed (extra web)")
from app import barred
from app.conftest import PAGE
from app.fakes import until
from specviz.commands import Start, StepRounds
from specviz.sources import TraceFile
from specviz.view.frame.run_header import warning_groups
from specviz_app.server.core import ServedRun, Settings
from specviz_app.ui import below
from specviz_app.ui.library import LIVE
from specviz_app.ui.pages import all_below
from specviz_app.ui.viewer import Viewer
from support.recordings import RECORDINGS

Open = Callable[..., Any]
IDS = ["overview", "verification", "early-exit", "lanes", "compare", "ranks", "learning", "trace"]


def _handed(at: Any) -> dict[str, Any]:
    """What the picture is mounted with."""
    handed: list[dict[str, Any]] = [json.loads(picture.proto.json) for picture in at.get("bidi_component")]
    (data,) = [mount for mount in handed if "panels" in mount]
    return data


def _reasons(name: str) -> dict[str, str]:
    viewer = Viewer.of(name, TraceFile(RECORDINGS[name]))
    return {id: reason for id, _, reason in below._row(viewer)}


def test_every_page_about_a_run_has_its_tab() -> None:
    assert [page_below.id for page_below in all_below() if page_below.id in IDS] == IDS


def test_a_tab_is_grey_where_the_run_has_nothing_of_it() -> None:
    chain, exits, blocks = _reasons("code-draft"), _reasons("code-specbound"), _reasons("code-specblock")
    assert [chain[id] for id in ("overview", "verification", "trace")] == ["", "", ""]
    assert "target's own layers" in chain["early-exit"]
    assert "predicts no ranks" in chain["ranks"]
    assert "does not learn" in chain["learning"]
    assert "target's own layers" in _reasons("code-specbranch")["early-exit"]  # its confidences stand on Lanes
    assert not exits["early-exit"]
    assert not blocks["ranks"]
    assert all("\n" not in reason for reason in (chain | exits | blocks).values())


@pytest.mark.parametrize("panel", IDS)
def test_the_address_opens_a_panel_at_the_place_of_the_picture(panel: str, open_page: Open) -> None:
    name = {"early-exit": "code-specbound", "ranks": "code-specblock"}.get(panel, "code-draft")
    at = open_page(Settings(replay=RECORDINGS[name]), "stage", at="r3", panel=panel)
    assert not at.exception
    assert [error.value for error in at.error] == []
    handed = _handed(at)
    assert (handed["at"], handed["panel"]) == ("r3", panel)
    reason = next(reason for id, _, reason in handed["panels"] if id == panel)
    assert bool(reason) == (panel == "learning")
    assert barred.charts(at) or at.dataframe or reason
    assert at.query_params["at"] in ("r3", ["r3"])


def test_no_panel_is_open_unless_one_is_asked_for(chain_trace: Path, open_page: Open) -> None:
    for more in ({}, {"panel": "nope"}):
        at = open_page(Settings(replay=chain_trace), "stage", at="r2", **more)
        assert not at.exception
        assert _handed(at)["panel"] == ""
        assert not barred.charts(at)


def test_a_click_in_a_panel_moves_the_picture(chain_trace: Path, open_page: Open) -> None:
    at = open_page(Settings(replay=chain_trace), "stage", at="r2", panel="verification")
    position = next(page_below for page_below in at.selectbox if page_below.label == "Position")
    position.select_index(1).run()
    assert not at.exception
    place = at.query_params["at"]
    place = place[0] if isinstance(place, list) else place
    assert place.startswith("r2/n")
    assert _handed(at)["at"] == place


def _rounds(core: ServedRun, n: int) -> None:
    missing = n - sum(record.complete for record in core.run.rounds)
    if missing > 0:
        core.command(StepRounds(n=missing))
    until(lambda: len(core.run.rounds) >= n and core.run.rounds[n - 1].complete, "no round")


def test_a_panel_of_the_newest_run_goes_on_with_it_until_somebody_looks_back(core: ServedRun) -> None:
    from streamlit.testing.v1 import AppTest

    core.start(Start(prompt="x", paused=True))
    until(lambda: core.running, "no run")
    _rounds(core, 2)
    at = AppTest.from_string(PAGE.format(page="stage"))
    at.default_timeout = 60
    at.query_params["src"], at.query_params["panel"] = LIVE, "verification"
    at.run()
    for n in (2, 4):
        _rounds(core, n)
        at.run()
        assert not at.exception
        handed = _handed(at)
        assert (handed["at"], handed["panel"]) == ("", "verification")
        assert "at" not in at.query_params
        assert any(f"Round {n}" in str(page_below.value) for page_below in at.get("html")), n
    next(page_below for page_below in at.selectbox if page_below.label == "Position").select_index(1).run()
    _rounds(core, 5)
    at.run()
    assert _handed(at)["at"].startswith("r4/n")


def test_a_panel_that_was_opened_before_the_run_shows_it_once_it_begins(core: ServedRun) -> None:
    from streamlit.testing.v1 import AppTest

    at = AppTest.from_string(PAGE.format(page="stage"))
    at.default_timeout = 60
    at.query_params["src"], at.query_params["panel"] = LIVE, "verification"
    at.run()
    assert not at.exception
    assert _handed(at)["panel"] == "verification"
    assert all(reason == "" for _, _, reason in _handed(at)["panels"]), "a tab cannot be pressed before a run"
    assert any("No round yet" in page_below.value for page_below in at.caption)
    core.start(Start(prompt="x", paused=True))
    until(lambda: core.running, "no run")
    _rounds(core, 2)
    at.run()
    assert not at.exception
    assert any("Round 2" in str(page_below.value) for page_below in at.get("html"))


def test_the_parts_of_a_panel_stand_in_the_address_by_its_name(open_page: Open) -> None:
    at = open_page(
        Settings(replay=RECORDINGS["code-specblock"]), "stage", at="r2", panel="ranks", **{"ranks.show": "the run"}
    )
    assert not at.exception
    assert [warning.value for warning in at.warning] == []
    at = open_page(Settings(replay=RECORDINGS["code-specblock"]), "stage", at="r2", panel="lanes")
    assert [warning.value for warning in at.warning] == []


@pytest.mark.parametrize("name", sorted(RECORDINGS))
def test_some_rounds_of_a_long_run_tell_which_panels_have_something(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = below._row(Viewer.of(name, TraceFile(RECORDINGS[name])))
    monkeypatch.setattr(below, "MANY", 1)
    assert below._row(Viewer.of(name, TraceFile(RECORDINGS[name]))) == whole


def _query(at: Any, name: str) -> str:
    value = at.query_params[name]
    return str(value[0] if isinstance(value, list) else value)


def _score(at: Any) -> dict[str, Any]:
    """What the texts side by side are mounted with."""
    handed: list[dict[str, Any]] = [json.loads(picture.proto.json) for picture in at.get("bidi_component")]
    (data,) = [mount for mount in handed if "score" in mount]
    return data


def test_the_run_on_the_stage_is_laid_beside_others_at_its_place(open_page: Open) -> None:
    settings = Settings(replay=RECORDINGS["code-tree"])
    at = open_page(settings, "stage", at="r2", panel="compare", **{"with": ["code-ar", "code-draft"]})
    assert not at.exception
    assert [error.value for error in at.error] == []
    data, viewer = _score(at), Viewer.of("x", TraceFile(RECORDINGS["code-tree"]))
    assert [lane["letter"] for lane in data["score"]["lanes"]] == ["A", "B", "C"]
    before = viewer.player.run.rounds.point(0).n_emitted
    assert data["at"] == before
    assert "token" not in at.query_params, "the place says it"
    at.query_params["at"] = "r3"
    at.run()
    assert _score(at)["at"] == sum(viewer.player.run.rounds.point(k).n_emitted or 0 for k in (0, 1))


def test_a_position_behind_the_end_of_the_run_on_the_stage_stands_in_the_address(open_page: Open) -> None:
    """`code-ar` is shorter than what is laid beside it; the stage stands at its last round, until it is moved."""
    beside = {"with": ["code-tree"]}
    at = open_page(Settings(replay=RECORDINGS["code-ar"]), "stage", at="r40", panel="compare", token="60", **beside)
    assert _score(at)["at"] == 59
    assert _query(at, "token") == "60"
    at.query_params["at"] = "r3"
    at.run()
    assert _score(at)["at"] == 2
    assert "token" not in at.query_params


def test_a_position_that_no_run_has_is_left_out(open_page: Open) -> None:

    settings = Settings(replay=RECORDINGS["code-draft"])
    at = open_page(settings, "stage", at="r1", panel="compare", token="9999", **{"with": ["code-ar"]})
    assert _score(at)["at"] == 0


def test_no_run_beside_it_is_asked_for(open_page: Open) -> None:
    at = open_page(Settings(replay=RECORDINGS["stream-specblock"]), "stage", at="r2", panel="compare")
    assert not at.exception
    assert any("lay beside this one" in page_below.value for page_below in at.info)


def test_the_layer_under_the_cursor_stands_in_the_address(open_page: Open) -> None:
    settings = Settings(replay=RECORDINGS["code-specbound"])
    at = open_page(settings, "stage", at="r3", panel="early-exit", layer="2")
    assert not at.exception
    box = next(page_below for page_below in at.selectbox if page_below.label == "Layer")
    assert box.value == 2
    box.select_index(2).run()
    assert not at.exception
    assert _query(at, "layer") == "3"
    at.query_params["layer"] = "1"  # the way back
    at.run()
    assert next(page_below for page_below in at.selectbox if page_below.label == "Layer").value == 1


@pytest.mark.parametrize("bad", ["0", "99", "x", "-1", "²"])
def test_a_layer_that_is_not_there_is_said(bad: str, open_page: Open) -> None:
    at = open_page(Settings(replay=RECORDINGS["code-specbound"]), "stage", at="r3", panel="early-exit", layer=bad)
    assert not at.exception
    assert any("no layer" in page_below.value for page_below in at.warning)


def test_a_finding_and_a_warning_lead_to_the_rounds_that_show_them(open_page: Open) -> None:
    for name in ("code-eagle3", "code-specbranch"):
        at = open_page(Settings(replay=RECORDINGS[name]), "stage", panel="overview")
        assert not at.exception
        viewer: Viewer = at.session_state["viewer"]
        judged, warned = viewer.frame.judgement, warning_groups(viewer.player.run)
        places = [place.at for finding in judged.findings for place in finding.places]
        places += [label.replace(" ", "/") for group in warned for _, label in group.places]
        leads = [button for button in at.button if button.key and button.key.startswith("evidence-")]
        assert places
        assert [button.key.rpartition("-")[2] for button in leads] == places
        assert [box.label for box in at.expander if "warning" in box.label] == ["⚠ 1 warning"] * bool(warned)
        leads[0].click().run()
        assert at.query_params["at"] == places[0]
        assert at.query_params["panel"] == "overview"
        assert viewer.place == places[0]


def test_a_filter_leads_to_what_passes_it(open_page: Open) -> None:
    at = open_page(Settings(replay=RECORDINGS["code-tree"]), "stage", panel="overview", find="rejected")
    viewer: Viewer = at.session_state["viewer"]
    rounds = viewer.player.run.rounds
    lost = [f"r{r.r}/n{node}" for r in rounds for node, v in sorted(r.verdicts.items()) if v.status == "rejected"]
    leads = [button.key.removeprefix("evidence-found-") for button in at.button if "evidence-found-" in str(button.key)]
    assert leads
    assert leads == lost[: len(leads)]
    at.button(key=f"evidence-found-{leads[-1]}").click().run()
    assert viewer.place == leads[-1]
    at.text_input(key="find").set_value("n_accepted=0").run()
    idle = [f"r{r.r}" for r in rounds if r.end is not None and not r.end.n_accepted]
    leads = [button.key.removeprefix("evidence-found-") for button in at.button if "evidence-found-" in str(button.key)]
    assert leads == idle[: len(leads)]
    at.text_input(key="find").set_value("nonsense>2").run()
    assert "nonsense" in at.error[0].value
