"""What `make docs` adds to the documents: recordings that play, made while the site is built."""

from html import escape
from pathlib import Path

import pytest
import yaml

pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra docs)")
from docs.pages import DOCS, ROOT
from specviz.sources.gallery import gallery_card
from specviz.sources.lessons import bundled_lessons
from specviz.view.stage.chromium import chromium, executable
from support.recordings import RECORDINGS
from tools import site_pages

_SHOWN = tuple(RECORDINGS)[:2]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The files that are added, by their address, of a package with two recordings and two planted faults."""
    monkeypatch.setattr(site_pages, "bundled_traces", lambda: {name: RECORDINGS[name] for name in _SHOWN})
    monkeypatch.setattr(site_pages, "_ill", lambda number: RECORDINGS[_SHOWN[0]])
    planted = site_pages._planted()
    assert len(planted) == 16, "every fault of the clinic's page"
    monkeypatch.setattr(site_pages, "_planted", lambda: planted[:2])
    return site_pages.made_pages()


def test_every_recording_and_every_fault_is_a_page_that_plays_without_a_request(site: dict[str, str]) -> None:
    played = {f"play/{name}.html" for name in _SHOWN} | {"play/fault-01.html", "play/fault-02.html"}
    played |= {f"play/lesson-{lesson.number}.html" for lesson in bundled_lessons().values()}
    assert set(site) == played | {"play/index.md", "play/faults.md", "play/lessons.md"}
    for address in played:
        assert "default-src 'none'" in site[address]
        assert 'id="run"' in site[address]


def test_every_list_leads_to_what_it_names(site: dict[str, str]) -> None:
    for lesson in bundled_lessons().values():
        assert f'href="lesson-{lesson.number}.html" target="lesson"' in site["play/lessons.md"]
    assert 'name="lesson"' in site["play/lessons.md"]
    for name in _SHOWN:
        card = gallery_card(RECORDINGS[name])
        assert card is not None
        assert card.pays in site["play/index.md"]
        assert f'src="{name}.html"' in site["play/index.md"]
    for number, posted, planted in site_pages._planted():
        assert f'src="fault-{number}.html"' in site["play/faults.md"]
        hidden = site["play/faults.md"].partition(escape(posted))[2]
        assert hidden.index("What is it?") < hidden.index(escape(planted)), "the answer is folded away"


@pytest.mark.skipif(executable() is None, reason="no chromium on this machine: apt-get install chromium")
def test_a_folded_run_is_loaded_when_it_is_opened(site: dict[str, str], tmp_path: Path) -> None:
    for name, text in site.items():
        (tmp_path / Path(name).name).write_text(text, "utf-8")
    listed = tmp_path / "faults.html"
    listed.write_text("<!doctype html>" + site["play/faults.md"].split("---", 2)[2], "utf-8")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(listed.as_uri())
        page.frame_locator("iframe[name=fault-01]").locator(".stage .node").first.wait_for()
        assert len(page.frames) == 2, "the page, and the run that is open"
        page.locator(".sv-fold > summary").nth(1).click()
        page.frame_locator("iframe[name=fault-02]").locator(".stage .node").first.wait_for()


def test_the_front_page_plays_a_recording_where_others_see_a_picture(site: dict[str, str]) -> None:
    front = (DOCS / "index.md").read_text("utf-8")
    page = site_pages.on_page_markdown(front, None, None, None)  # type: ignore[arg-type]
    assert 'src="play/explain-draft.html"' in page
    assert "![" in front
    assert "![" not in page
    assert "tools/site_pages.py" in yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["hooks"]
