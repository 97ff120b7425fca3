"""axe-core over every page, on both grounds: what is ours may hinder nobody.

Pages are found in their registry, so a page that is added is looked at. What axe finds in Streamlit's own elements is
not ours to mend; it is listed in `_THEIRS` by rule and place, and anything else in them fails as well.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed (extra dev)")
from axe_playwright_python.sync_playwright import Axe

import specviz
from app.served import Served, served
from specviz.view.stage.chromium import executable
from specviz_app.ui.pages import all_pages
from support.recordings import RECORDINGS

pytestmark = [
    pytest.mark.audit,
    pytest.mark.skipif(
        executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
    ),
]
Open = Callable[..., Any]
GROUNDS = {"light": False, "dark": True}
_THEIRS: dict[str, tuple[str, ...]] = {
    "empty-table-header": (
        'th[role="columnheader"]',
        '<th role="columnheader"',
    ),  # of the column of row numbers in `st.dataframe`
}
_WITH = {"early-exit": "code-specbound", "lanes": "code-specbranch", "ranks": "code-specblock"}
_USUAL = "code-tree"


@pytest.fixture(scope="module")
def bundled() -> Iterator[Served]:
    """Recordings of the tests, one of every method."""
    with served(RECORDINGS[_USUAL], 0, "open") as server:
        yield server


def found(page: Any) -> list[str]:
    """What axe finds, a line each, but for what is Streamlit's own."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {_path(node)} {node['html'][:160]} {' '.join(node['failureSummary'].split())}"
        for rule in violations
        for node in rule["nodes"]
        if not any(part in f"{_path(node)} {node['html']}" for part in _THEIRS.get(rule["id"], ()))
    ]


def _path(node: Any) -> str:
    return " > ".join(
        " ".join(selector) if isinstance(selector, list) else str(selector) for selector in node["target"]
    )


def _settled(page: Any) -> None:
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.wait_for_timeout(1200)  # plots draw themselves, the camera comes to rest


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("path", [page.path for page in all_pages()])
def test_a_page_hinders_nobody(path: str, ground: str, bundled: Served, open_at: Open) -> None:
    page = open_at(f"{bundled.url}/{path}?src={_WITH.get(path, _USUAL)}&at=r2", 1440, 900, GROUNDS[ground])
    page.locator("[data-testid=stMain]").wait_for()
    if path == "stage":
        page.locator(".stage .node").first.wait_for()
    _settled(page)
    assert found(page) == []


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("key", ["ArrowLeft", "}", "?"])
def test_the_stage_hinders_nobody_in_the_middle_of_a_round(
    key: str, ground: str, bundled: Served, open_at: Open
) -> None:
    """What if asked; at a test that failed, with the menu open; below the list of keys."""
    page = open_at(f"{bundled.url}/stage?src={_USUAL}&at=r2", 1440, 900, GROUNDS[ground])
    page.locator(".stage .node").first.wait_for()
    _settled(page)
    page.keyboard.press(key)
    if key == "ArrowLeft":
        page.locator(".whatif input").first.focus()
        page.keyboard.press("Home")
        page.locator(".stage.asks").wait_for()
    if key == "}":
        page.get_by_role("button", name="save or share").click()
    page.wait_for_timeout(1200)
    assert found(page) == []


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_conversation_on_the_stage_hinders_nobody(ground: str, talking: Served, open_at: Open) -> None:
    page = open_at(f"{talking.url}/stage", 1440, 900, GROUNDS[ground])
    page.get_by_role("button", name="explain").click()
    page.locator(".stage .node").first.wait_for()
    page.locator(".buttons .main").click()
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    _settled(page)
    assert found(page) == []


@pytest.mark.parametrize("ground", GROUNDS)
def test_the_saved_page_hinders_nobody(ground: str, open_at: Open, tmp_path: Path) -> None:
    saved = specviz.show(RECORDINGS[_USUAL]).save(tmp_path / "run.html")
    page = open_at(f"file://{saved}#at=r2", 1440, 900, GROUNDS[ground])
    page.locator(".node").first.wait_for()
    page.keyboard.press("}")
    page.wait_for_timeout(800)
    assert found(page) == []


def test_axe_sees_a_button_without_a_name(open_at: Open, tmp_path: Path) -> None:
    """The control: one thing that hinders somebody is found."""
    saved = specviz.show(RECORDINGS[_USUAL]).save(tmp_path / "run.html")
    page = open_at(f"file://{saved}#at=r2")
    page.locator(".node").first.wait_for()
    page.evaluate("() => { const one = document.querySelector('[data-do=play]'); one.ariaLabel = ''; one.title = ''; }")
    assert any(line.startswith("button-name") for line in found(page))
