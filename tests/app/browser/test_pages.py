"""Panels below the stage in a real browser: plots answer to clicks, each has an address, a phone shows them."""

import re
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import STAGE, address, count_runs, panel_of, settled, stage_place, until
from app.served import Served
from specviz.view.stage.chromium import executable
from specviz_app.ui.pages import all_below

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def test_the_tree_of_a_panel_goes_along_with_the_stage_and_a_node_can_be_clicked(
    trees: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{trees.url}/stage?panel=ranks&at=r2")
    tree = page.locator(".st-key-ranks-tree .stage")
    tree.locator(".node").first.wait_for()
    settled(page)
    assert tree.locator("[data-do=play]").is_hidden(), "a second button to play"
    stage = page.locator(STAGE)
    phases = {stage.get_attribute("data-phase")}
    for _ in range(4):
        stage.locator("[data-do=back]").click()
        until(lambda: tree.get_attribute("data-phase") == stage.get_attribute("data-phase"), "it stands still")
        phases.add(tree.get_attribute("data-phase"))
    assert len(phases) > 1
    tree.locator(".node").nth(2).click()
    until(lambda: "at=r2%2Fn" in address(page), "the click chooses nothing")
    page.locator(f"{STAGE} .node.chosen").wait_for()
    settled(page)
    page.go_back()
    until(lambda: "at=r2&" in f"{address(page)}&", "there is no way back")


def test_the_scan_plays_without_a_script_run_and_a_click_chooses_a_position(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/verification?at=r2")
    page.get_by_text("▶ play the scan").wait_for()
    count_runs(page)
    bars = page.locator(".st-key-scan .barlayer .point path")
    before = bars.first.get_attribute("style")
    page.get_by_text("▶ play the scan").click()
    until(lambda: bars.first.get_attribute("style") != before, "the scan does not play")
    assert page.evaluate("window.runs") == 0
    page.wait_for_timeout(6000)  # it comes to its end
    bars.nth(1).click(force=True)
    until(lambda: "at=r2%2Fn" in address(page), "a click on a bar chooses nothing")


def test_a_click_on_a_cell_chooses_it_and_one_on_the_map_moves_the_sliders(
    exits: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{exits.url}/early-exit?at=r7")
    _click(page, ".st-key-layers-heat", 0.02, 0.9)
    page.locator(".sv-why h4", has_text="L1 × ").wait_for()
    page.get_by_role("radio", name="other settings").click()
    _click(page, ".st-key-try-map-alpha", 0.5, 0.3)
    until(lambda: re.search(r"try\.alpha=[12]", address(page)), "the sliders stay")


def test_a_click_on_a_confusion_cell_lists_it_and_a_line_leads_to_its_round(
    trees: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{trees.url}/ranks?show=the+run&at=r1")
    _click(page, ".st-key-ranks-confusion", 0.14, 0.14)
    page.get_by_text("A line leads to its round").wait_for()
    lines = page.locator("[class*='st-key-ranks-entries'] canvas").first
    lines.evaluate("element => element.scrollIntoView({block: 'center'})")
    page.wait_for_timeout(800)
    box = lines.bounding_box()
    page.mouse.click(box["x"] + 16, box["y"] + 52)
    until(lambda: re.search(r"at=r([2-9]|1\d)", address(page)), "the line leads nowhere")


def test_a_click_on_a_bar_tells_about_it(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/lanes?at=r2")
    page.locator(".sv-why h4", has_text="target pass").wait_for()
    bars = page.locator(".st-key-lanes-chart .barlayer .point path")
    bars.first.wait_for()
    settled(page)
    page.wait_for_timeout(800)
    bars.first.click(force=True)
    page.locator(".sv-why h4", has_text="draft").wait_for()


def _click(page: Any, place: str, across: float, down: float) -> None:
    """A click at a share of a plot's width and height."""
    ground = page.locator(f"{place} .nsewdrag").first
    ground.wait_for()
    settled(page)
    page.wait_for_timeout(800)  # the plot takes its size
    ground.scroll_into_view_if_needed()
    box = ground.bounding_box()
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)


def test_a_panel_goes_from_round_to_round_with_the_stage(recorded: Served, open_at: Callable[..., Any]) -> None:
    """Also where it is large, and only what plays is left of the stage."""
    page = open_at(f"{recorded.url}/verification?at=r2")
    panel = panel_of(page)
    assert page.locator(f"{STAGE} svg.tree").is_hidden(), "it is not large"
    until(lambda: stage_place(page).startswith("r2 "), "nothing is there to be walked")
    page.locator(f"{STAGE} [data-do=play]").focus()
    page.keyboard.press("]")
    panel.get_by_text("Round 3").first.wait_for()
    until(lambda: "at=r3" in address(page), "the address does not follow")
    settled(page)
    page.keyboard.press("[")
    panel.get_by_text("Round 2").first.wait_for()


def test_a_panel_is_made_large_and_small_again(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2&panel=overview")
    panel = panel_of(page)
    page.locator(f"{STAGE} .node").first.wait_for()
    low = panel.bounding_box()["y"]
    page.get_by_role("button", name="⤢ large").click()
    until(lambda: "large=1" in address(page), "it is not in the address")
    until(lambda: panel.bounding_box()["y"] < low - 150, "it has no more room")
    assert page.locator(f"{STAGE} [data-do=play]").is_visible(), "nothing plays any more"
    settled(page)
    page.go_back()
    until(lambda: "large=1" not in address(page), "there is no way back")
    page.locator(f"{STAGE} svg.tree").wait_for()


@pytest.mark.parametrize("name", [below.id for below in all_below()])
def test_a_phone_shows_every_panel_without_scrolling_sideways(
    name: str, recorded: Served, open_at: Callable[..., Any]
) -> None:
    """By night, and when the day comes while the page is open."""
    page = open_at(f"{recorded.url}/stage?panel={name}&large=1", 390, 844, dark=True)
    panel_of(page)
    for dark in (True, False):
        page.emulate_media(color_scheme="dark" if dark else "light")
        until(lambda dark=dark: _is_dark(page) is dark, f"its ground is {'light' if dark else 'dark'}")
        settled(page)
        wide = page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)")
        assert wide <= 390
        main = page.locator("[data-testid=stMain]")
        assert main.evaluate("element => element.scrollWidth <= element.clientWidth")


def _is_dark(page: Any) -> bool:
    ground = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    return sum(map(int, re.findall(r"\d+", ground)[:3])) < 384


def test_every_panel_can_be_linked_to_and_the_address_names_the_run(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(recorded.url)
    page.locator(".stage .node").first.wait_for()
    until(lambda: "/stage?src=" in address(page), "the first page has no address of its own")
    page = open_at(f"{recorded.url}/overview?src=chain")
    panel_of(page)
    again = open_at(f"{recorded.url}/overview?src=sum-eagle3")
    again.locator(STAGE, has_text="eagle3").wait_for()
    assert again.get_by_text("Page not found").count() == 0
    assert page.get_by_role("combobox", name="Run to look at").input_value() == "chain"
    lost = open_at(f"{recorded.url}/rounds?src=nope")
    lost.get_by_text("There is no run").wait_for()
    until(lambda: "src=chain" in address(lost), "the address names no run")
    assert lost.get_by_role("combobox", name="Run to look at").input_value() == "chain"


def _unbroken(page: Any, what: str) -> None:
    """No error on the page, nothing of a traceback, and the list of runs is there."""
    assert page.locator("[data-testid=stException]").count() == 0, what
    errors = page.locator("[data-testid=stAlertContentError]").all_inner_texts()
    assert errors == [], (what, errors)
    assert page.get_by_label("Run to look at").count() >= 1, what


@pytest.mark.parametrize(("name", "trace"), [("rounds", "explain-draft"), ("ranks", "sum-specblock")])
def test_real_clicks_walk_a_bundled_recording(
    name: str, trace: str, recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?src={trace}&panel={name}&at=r1")
    panel_of(page)
    forward = page.locator(f"{STAGE} [data-do=round]")
    for k in range(9):  # slowly: it fell at the second to eighth
        settled(page)
        forward.click()
        until(lambda k=k: f"at=r{k + 2}" in address(page) or "q" in address(page), f"press {k + 1} does nothing")
        _unbroken(page, f"press {k + 1}")
    for _ in range(6):  # quickly
        forward.click(no_wait_after=True)
    settled(page)
    _unbroken(page, "six presses at once")
    page.get_by_role("combobox", name="Run to look at").click()  # in the middle of a round
    page.get_by_role("option", name="quote-ngram").click()
    until(lambda: "src=quote-ngram" in address(page), "the recording stays")
    page.locator(STAGE, has_text="ngram").wait_for()
    settled(page)
    forward.click()
    settled(page)
    _unbroken(page, "another recording")
