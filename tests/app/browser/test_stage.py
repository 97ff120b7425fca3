"""The stage of a recording in a real browser: it plays, is walked, keeps its place, and is taken away."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.browser.acts import STAGE, address, count_runs, panel_of, settled, stage_place, until
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)


def test_the_stage_plays_and_is_walked_without_a_script_run(recorded: Served, open_at: Callable[..., Any]) -> None:
    """It begins by itself; only where somebody stays goes into the address, by one run of the script."""
    page = open_at(recorded.url)
    page.locator(".stage .node").first.wait_for()
    count_runs(page)
    before = stage_place(page)
    until(lambda: stage_place(page) != before, "it does not play")
    assert page.evaluate("window.runs") == 0
    assert "at=" not in address(page)
    page.keyboard.press("}")
    page.locator(".stage .why .headline", has_text="REJECTED").wait_for()
    rejected = stage_place(page).split()[0]
    until(lambda: f"at={rejected}" in address(page), "the address does not follow")
    settled(page)
    assert page.locator(".stage .said", has_text="rejected").count() == 1, "the place is lost when the script runs"
    page.locator("svg.tree .node").first.click()
    until(lambda: "root" in address(page), "a click on a node is not in the address")


_BACK_AFTER = """ms => {
    const pushed = history.pushState;
    history.pushState = (...given) => {
        pushed.apply(history, given);
        history.pushState = pushed;
        setTimeout(() => { window.wentBack = true; history.back(); }, ms);
    };
}"""


@pytest.mark.parametrize("ms", [0, 20, 40, 60, 80, 120, 160])
def test_the_way_back_is_found_however_early_it_is_pressed(
    ms: int, recorded: Served, open_at: Callable[..., Any]
) -> None:
    """Also while the script of the move still runs, whose answer then never comes."""
    page = open_at(f"{recorded.url}/stage?at=r3")
    page.locator(".stage .node").first.wait_for()
    page.keyboard.press("]")
    until(lambda: "at=r4" in address(page), "the address does not follow")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.evaluate(_BACK_AFTER, ms)
    page.keyboard.press("]")
    until(lambda: page.evaluate("window.wentBack === true"), "the address does not follow")  # and the stage did before
    until(lambda: stage_place(page).startswith("r4 "), "there is no way back")
    assert "at=r4" in address(page)


def test_the_stage_opens_at_the_place_of_the_address_and_a_panel_at_its_own(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?at=r3/closing")
    page.locator(".stage .node.chosen[data-node='-2']").wait_for()
    assert stage_place(page).startswith("r3 ")
    page.keyboard.press("]")
    until(lambda: "at=r4" in address(page), "the address does not follow")
    page.keyboard.press("]")
    until(lambda: "at=r5" in address(page), "the address does not follow")
    page.go_back()
    until(lambda: stage_place(page).startswith("r4 "), "there is no way back")
    page.get_by_role("tab", name="Round", exact=True).click()
    panel_of(page).get_by_text("r4 ").wait_for()
    assert "at=r4" in address(page)


def test_the_stage_is_saved_as_one_file(recorded: Served, open_at: Callable[..., Any], tmp_path: Path) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".share .menu").is_hidden()
    page.get_by_role("button", name="save or share").click()
    with page.expect_download() as coming:
        page.get_by_role("menuitem", name="the run as one HTML file").click()
    assert coming.value.suggested_filename == "chain.html"
    saved = tmp_path / "chain.html"
    coming.value.save_as(saved)
    again = open_at(f"file://{saved}#at=r3")
    again.locator(".stage .node").first.wait_for()
    assert stage_place(again).startswith("r3 ")
    assert again.locator(".share").count() == 0, "a saved page has nobody to ask for files"


def test_a_moment_is_taken_away_as_a_picture(recorded: Served, open_at: Callable[..., Any], tmp_path: Path) -> None:
    """By the keyboard: the menu, the file shows the node that is chosen; a save closes the menu, and Escape."""
    page = open_at(f"{recorded.url}/stage?at=r2/closing")
    page.locator(".stage .node.chosen[data-node='-2']").wait_for()
    opener = page.get_by_role("button", name="save or share")
    opener.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    with page.expect_download() as coming:
        page.keyboard.press("Enter")
    assert coming.value.suggested_filename == "chain-r2-closing.svg"
    drawn = tmp_path / "moment.svg"
    coming.value.save_as(drawn)
    assert "r2: phase 6/6 COMMIT" in drawn.read_text("utf-8")
    focused = "element => element.getRootNode().activeElement === element"
    page.locator(".share .menu").wait_for(state="hidden")
    assert opener.evaluate(focused), "it stays open after a save"
    page.keyboard.press("Enter")
    page.locator(".share .menu").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".share .menu").is_hidden()
    assert opener.evaluate("element => element.getRootNode().activeElement === element")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_stage_fits_a_phone_and_takes_the_page_s_ground(
    dark: bool, recorded: Served, open_at: Callable[..., Any]
) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 390, 844, dark)
    page.locator(".stage .node").first.wait_for()
    assert page.locator(".stage").get_attribute("data-theme") == ("dark" if dark else "light")
    page.get_by_role("button", name="save or share").click()
    menu = page.locator(".share .menu").bounding_box()
    assert menu["x"] >= 0
    assert menu["x"] + menu["width"] <= 390
    main = page.locator("[data-testid=stMain]")
    assert main.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_another_verifier_decides_the_round_again_and_is_put_back(
    recorded: Served, open_at: Callable[..., Any]
) -> None:
    """It says at all times that it is what if, and no script runs for it."""
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .whatif input[aria-label*=gamma]").wait_for()
    count_runs(page)
    marks = "all => all.map(node => node.dataset.mark)"
    was = page.locator(".stage .node").evaluate_all(marks)
    slider = page.locator(".whatif input[aria-label*=gamma]")
    own = slider.input_value()
    slider.focus()
    slider.press("Home")
    page.locator(".stage.asks .iff .words", has_text="with gamma").wait_for()
    assert slider.evaluate("element => element.getRootNode().activeElement === element"), "it is dropped"
    assert "accepted" not in page.locator(".stage .node").evaluate_all(marks)
    page.locator(".whatif select").select_option("walk")
    page.locator(".iff .words", has_text="under walk").wait_for()
    slider.focus()  # which leaves the other keys to the picture
    page.keyboard.press("]")
    until(lambda: stage_place(page).startswith("r3 ") and "what if" in stage_place(page), "the change is lost")
    page.keyboard.press("[")
    until(lambda: stage_place(page).startswith("r2 "), "there is no way back")
    page.keyboard.press("Escape")
    until(lambda: page.locator(".stage.asks").count() == 0, "it is not put back")
    until(lambda: page.locator(".stage .node").evaluate_all(marks) == was, "the tree stays as it was asked")
    until(lambda: slider.input_value() == own, "the slider stays where it was")
    slider.focus()
    slider.press("ArrowLeft")
    page.locator(".stage.asks").wait_for()
    slider.press("ArrowRight")  # by hand to where it stood
    until(lambda: page.locator(".stage.asks").count() == 0, "the recording is not restored")
    until(lambda: page.locator(".stage .node").evaluate_all(marks) == was, "another round is shown")
    assert "⚠ not lossless" in page.locator(".whatif select").inner_text()
    assert page.evaluate("window.runs") <= 2  # for the places that the address was told


def test_another_u_of_a_node_decides_it_again(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    page.locator(".stage .whatif input[aria-label*=gamma]").wait_for()
    page.keyboard.press("}")
    page.locator(".stage .why .headline", has_text="REJECTED").wait_for()
    slider = page.locator(".udraw input")
    slider.wait_for()
    slider.focus()
    slider.press("Home")
    page.locator(".stage .why .headline", has_text="WHAT IF: ACCEPTED").wait_for()


def test_a_panel_opens_below_the_stage_at_its_place_and_moves_it(recorded: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2")
    tab = page.get_by_role("tab", name="Verification")
    tab.wait_for()
    settled(page)
    assert page.get_by_role("tab", name="Learning").get_attribute("class") == "closed"
    page.locator(".stage").evaluate("element => { element.tagged = 'the same' }")
    tab.click()
    until(lambda: "panel=verification" in address(page), "the panel is not in the address")
    page.locator(".st-key-panel").get_by_label("Position", exact=True).wait_for()
    settled(page)
    bars = page.locator(".st-key-scan .barlayer .point path")
    bars.first.wait_for()
    page.wait_for_timeout(800)
    bars.nth(1).click(force=True)
    until(lambda: "at=r2%2Fn" in address(page), "a click in the panel is not in the address")
    page.locator(".stage .unpin:not([hidden])").wait_for()
    page.keyboard.press("]")
    until(lambda: "at=r3" in address(page), "the address does not follow")
    page.locator(".st-key-panel", has_text="Round 3").wait_for()
    assert page.locator(".stage").first.evaluate("element => element.tagged") == "the same"
    tab.click()
    until(lambda: "panel=" not in address(page), "the panel does not close")
    page.go_back()
    page.locator(".st-key-panel").wait_for()


def test_compare_below_the_stage_moves_it_and_the_other_way_round(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{opened.url}/stage?src=code-tree&at=r2&panel=compare&with=code-ar&with=code-draft")
    page.locator(".score .token").first.wait_for()
    settled(page)
    was = address(page)
    page.locator('.score .token[data-lane="0"]').nth(9).click()
    until(lambda: address(page) != was, "the address does not say it")
    place = page.locator(".stage .time .place")
    at = re.search(r"at=(r\d+)", address(page))
    assert at is not None
    until(lambda: place.inner_text().startswith(f"{at[1]} "), "the stage stands still")
    here = page.locator('.score .token.here[data-lane="0"]')
    until(lambda: here.get_attribute("data-at") == "9", "the cursor is elsewhere")
    page.locator(".stage .unpin:not([hidden])").wait_for()  # the stage is at the token, too
    page.locator(".stage svg.tree").focus()
    page.keyboard.press("Home")
    until(lambda: here.get_attribute("data-at") == "0", "the texts stand still")
    page.go_back()
    until(lambda: place.inner_text().startswith(f"{at[1]} "), "there is no way back")


# On a busy machine it takes that long until the painter has come.
_LATE = """(() => {
  const made = URL.createObjectURL;
  const late = "await new Promise((done) => setTimeout(done, 3000));";
  const slow = (blob) => new Blob([late, blob], { type: blob.type });
  URL.createObjectURL = (blob) => made(blob.type === "text/javascript" ? slow(blob) : blob);
})()"""


@pytest.mark.parametrize("place", ["stage?src=code-draft", "compare?runs=code-ar&runs=code-draft"])
def test_what_is_handed_anew_before_the_painter_has_come_is_painted(
    place: str, opened: Served, open_at: Callable[..., Any]
) -> None:
    """A long recording is read in parts and its page made for each; here it is the ground that becomes dark. The first
    call of the painter is overtaken then, and Streamlit takes back behind the second what it made."""
    page = open_at("about:blank", 1280, 720)
    page.add_init_script(_LATE)
    page.goto(f"{opened.url}/{place}")
    page.locator(".stBidiComponent").first.wait_for(state="attached")
    settled(page)
    page.emulate_media(color_scheme="dark")
    page.locator(f"{STAGE} .node, .score .token").first.wait_for()
    page.wait_for_timeout(500)
    assert page.locator(f"{STAGE} .node, .score .token").count()
    assert page.locator(f"{STAGE}, .score").count() == 1


def test_a_finding_leads_to_the_tree_of_a_round_that_shows_it(opened: Served, open_at: Callable[..., Any]) -> None:
    page = open_at(f"{opened.url}/stage?src=code-eagle3", 1280, 720)
    tab = page.get_by_role("tab", name="Overview · likely: 95 % of the tree")
    tab.wait_for()
    settled(page)
    tab.click()
    lead = panel_of(page).get_by_role("button", name="→ r9")
    tree = page.locator(f"{STAGE} .canvas")
    until(lambda: tree.bounding_box()["y"] < 0, "the panel does not come into sight")
    lead.click()
    until(lambda: stage_place(page).startswith("r9 "), "it leads nowhere")
    until(lambda: tree.bounding_box()["y"] >= 0, "the tree stays out of sight")
