"""Every panel below the stage, every part of it, and every page: it opens on a recording that has something for it.

Nothing is listed here: a panel or a page that is added is tested by being there. One that no recording of the tests has
anything for fails: it wants a recording.
"""

from functools import cache
from typing import Any

import pytest

from app.conftest import Open
from app.tab import Tab
from specviz.sources import TraceFile, offers
from specviz.sources.bundled import bundled_traces
from specviz_app.server.core import Settings
from specviz_app.ui import below, guard
from specviz_app.ui.pages import PanelBelow, all_below, all_pages
from specviz_app.ui.viewer import Viewer
from support.recordings import RECORDINGS

PANELS = [page.id for page in all_below()]
PAGES = [page.path for page in all_pages()]
_PART = ("show", ".show")  # ends the key of the control that says which part of a page is shown


@cache
def _told(name: str) -> dict[str, str]:
    """Why a recording has nothing for a panel, by the panel's id; "" where it has."""
    return {id: reason for id, _, reason in below._row(Viewer.of(name, TraceFile(RECORDINGS[name])))}


def _with(panel: str) -> str:
    """A recording that has something for it."""
    fallback = next((name for name in RECORDINGS if not _told(name)[panel]), None)
    assert fallback is not None, f"no recording of the tests has anything for the panel {panel}: add one"
    return fallback


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a page caught and put into one line."""
    problems: list[str] = []
    monkeypatch.setattr(guard, "log", lambda error, where: problems.append(f"{where}: {error!r}"))
    return problems


def _fine(at: Any, faults: list[str], where: str) -> None:
    wrong = [*faults, *(page.message for page in at.exception), *(page.value for page in at.error)]
    assert wrong == [], where


def _shown(at: Any) -> int:
    """Plots, tables, numbers, texts of ours, reasons why there is none of them."""
    kinds = ("plotly_chart", "arrow_data_frame", "dataframe", "metric", "html", "caption", "info")
    return sum(len(at.get(kind)) for kind in kinds)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_opens_with_all_of_its_parts_below_the_stage(panel: str, open_page: Open, faults: list[str]) -> None:
    tab = Tab(open_page(Settings(replay=RECORDINGS[_with(panel)]), "stage", at="r3", panel=panel))
    bare = _shown(open_page(Settings(replay=RECORDINGS[_with(panel)]), "stage", at="r3"))
    _fine(tab.app, faults, panel)
    assert _shown(tab.app) > bare, "there is nothing in it"
    boxes = [box for box in tab.app.get("button_group") if box.key and box.key.endswith(_PART)]
    for label in [label for box in boxes for label in box.options]:
        (box,) = [box for box in tab.app.get("button_group") if box.key and box.key.endswith(_PART)]
        tab.choose(box, label)
        _fine(tab.app, faults, f"{panel}: {label}")
        assert _shown(tab.app) > bare, f"there is nothing in {label}"


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_without_anything_says_why(panel: str, open_page: Open, faults: list[str]) -> None:
    name = next((name for name in RECORDINGS if _told(name)[panel]), None)
    if name is None:  # every run has something for it
        assert all(not _told(recording)[panel] for recording in RECORDINGS)
        return
    at = open_page(Settings(replay=RECORDINGS[name]), "stage", at="r1", panel=panel)
    _fine(at, faults, panel)
    notices = " ".join(recording.value.replace("\\", "") for recording in at.info)
    assert _told(name)[panel].split(".")[0] in " ".join(notices.split())
    Tab(at).press(next(recording.key for recording in at.button if str(recording.key).startswith("fill-")))
    _fine(at, faults, panel)
    assert not _told(at.selectbox(key="src").value)[panel], "the recording that is offered has nothing for it either"
    assert _shown(at), [recording.value for recording in at.info]


@pytest.mark.parametrize("page", [page for page in all_below() if page.panel is not None], ids=lambda page: page.id)
def test_what_ships_fills_every_panel_that_offers_a_recording(
    page: PanelBelow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "bundled_traces", bundled_traces)
    monkeypatch.setattr(offers, "_found", {})
    assert page.panel is not None
    offered = offers.recording_for(page.panel)
    assert offered is not None
    reasons = {id: reason for id, _, reason in below._row(Viewer.of(offered.name, TraceFile(offered.path)))}
    assert not reasons[page.id], f"{offered.name} is offered"


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_on_a_recording(path: str, open_page: Open, faults: list[str]) -> None:
    at = open_page(Settings(replay=RECORDINGS["code-draft"]), at="r2")
    tab = Tab(at)
    tab.open(path)
    _fine(at, faults, path)
