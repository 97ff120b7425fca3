"""With nothing but the keyboard, in a real browser: everything is come to, is seen to be, and works from there."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed (extra dev)")
from app.keys import focused, tab_to, tabbed
from app.served import Served
from specviz.view.stage.chromium import executable

pytestmark = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
Open = Callable[..., Any]
_WAIT_MS = 30_000
_HEAR = """() => {
  const find = (root) => root.querySelector(".stage .said")
    ?? [...root.querySelectorAll("*")].map((each) => each.shadowRoot && find(each.shadowRoot)).find(Boolean);
  const line = find(document);
  window.heard = [];
  const phase = () => Number(line.closest(".stage").dataset.phase);
  const hear = () => window.heard.push([phase(), line.textContent, line.getAttribute("aria-live")]);
  new MutationObserver(hear).observe(line, { childList: true, characterData: true, subtree: true });
}"""


def _ready(page: Any) -> None:
    page.locator(".stage .node").first.wait_for()
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.locator(".panelrow [role=tab]").first.wait_for()


def _place(page: Any) -> str:
    return str(page.locator(".stage .time .place").inner_text())


def _moved(page: Any, before: str) -> None:
    page.wait_for_function(
        "([at, before]) => at.innerText !== before", arg=[page.locator(".stage .time .place").element_handle(), before]
    )


def test_tab_comes_to_everything_in_order_and_it_is_seen_where(recorded: Served, open_at: Open) -> None:
    """In the order in which it stands: what is said, what is done with it, the text, the tree, why, knobs, time."""
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    page.locator(".whatif select").wait_for()
    stops = [stop for stop in tabbed(page) if stop.ours]
    names = [f"{stop.role}: {stop.name}" for stop in stops]
    wanted = """button: save or share, button: keys, button: ▶ Load, treeitem:, button: zoom in (+),
        button: fit the tree (0), select: verifier, input: γ gamma, summary: sampling and limits,
        button: round before ([), button: step back (←), button: play (space), button: one step on (→),
        button: next round (]), button: next rejection (}), select: speed, slider: round, tab: Overview"""
    wanted_in_order = [part.strip() for part in wanted.split(",")]
    places = [next((k for k, name in enumerate(names) if name.startswith(part)), None) for part in wanted_in_order]
    assert None not in places, [part for part, place in zip(wanted_in_order, places, strict=True) if place is None]
    assert places == sorted(places), names  # type: ignore[type-var]
    assert [stop.name for stop in stops if not stop.seen] == []
    assert [stop.name for stop in stops if not stop.inside] == []
    assert sum(stop.role == "treeitem" for stop in stops) == 1, "one stop for the tree, the arrows go on from there"


def test_every_button_of_time_works_where_tab_has_come_to_it(recorded: Served, open_at: Open) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    for name in ("round before ([)", "step back (←)", "one step on (→)", "next round (])", "next rejection (})"):
        tab_to(page, name)
        before = _place(page)
        page.keyboard.press("Enter")
        _moved(page, before)
        stop = focused(page)
        assert stop is not None
        assert stop.name == name, "the focus is lost"
    tab_to(page, "play (space)")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="pause (space)").wait_for()
    page.keyboard.press(" ")
    page.get_by_role("button", name="play (space)").wait_for()
    tab_to(page, "round", "slider")
    before = _place(page)
    page.keyboard.press("ArrowRight")
    _moved(page, before)


def test_the_menu_opens_is_walked_and_left_by_keys(recorded: Served, open_at: Open) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    tab_to(page, "save or share")
    page.keyboard.press("Enter")
    names = []
    for _ in range(7):
        stop = focused(page)
        assert stop is not None
        assert stop.role == "menuitem"
        assert stop.seen
        names.append(stop.name)
        page.keyboard.press("ArrowDown")
    assert len(set(names)) == 7
    assert "copy link to this place" in names
    page.keyboard.press("End")
    page.keyboard.press("Escape")
    stop = focused(page)
    assert stop is not None
    assert stop.name == "save or share"
    assert page.locator(".share .menu").is_hidden()


def test_the_list_of_keys_takes_the_focus_and_gives_it_back(recorded: Served, open_at: Open) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    tab_to(page, "keys", "button")
    page.keyboard.press("Enter")
    page.locator(".help[open]").wait_for()
    stop = focused(page)
    assert stop is not None
    assert stop.name == "close"
    page.keyboard.press("Escape")
    assert page.locator(".help[open]").count() == 0
    stop = focused(page)
    assert stop is not None
    assert stop.name == "keys"


def test_a_knob_is_moved_and_a_panel_opened_by_keys(recorded: Served, open_at: Open) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    page.locator(".whatif select").wait_for()
    tab_to(page, "γ gamma")
    page.keyboard.press("Home")
    page.locator(".stage.asks .iff .words", has_text="with gamma").wait_for()
    assert page.locator(".stage .iff").get_attribute("role") == "status", "who hears it is told nothing"
    page.keyboard.press("Escape")
    tab_to(page, "Overview", "tab")
    page.keyboard.press("ArrowRight")
    stop = focused(page)
    assert stop is not None
    assert (stop.role, stop.seen) == ("tab", True)
    page.keyboard.press("Enter")
    page.locator(".st-key-panel").wait_for()
    page.wait_for_function("() => location.search.includes('panel=history')")


def test_nodes_are_walked_by_arrows_and_asked_why(recorded: Served, open_at: Open) -> None:
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    stop = tab_to(page, "", "treeitem")
    assert stop.seen
    for _ in range(12):
        page.keyboard.press("ArrowLeft")  # to the root
    root = focused(page)
    page.keyboard.press("ArrowRight")
    child = focused(page)
    assert root is not None
    assert child is not None
    assert root.name != child.name
    assert child.seen
    assert page.locator(".why .title").inner_text().split()[0]
    token = page.locator(".node.chosen .word").text_content()
    assert token in page.locator(".why .title").inner_text()


def test_a_sentence_is_heard_at_every_phase(recorded: Served, open_at: Open) -> None:
    """By who does not see: the line is a status, it is there in every phase, and it is another one each time."""
    page = open_at(f"{recorded.url}/stage?at=r2", 1440, 900)
    _ready(page)
    page.locator(".stage .said").evaluate("line => line.closest('.stage').focus()")
    page.keyboard.press("[")
    page.wait_for_function(
        "at => at.innerText.startsWith('r1 ')", arg=page.locator(".stage .time .place").element_handle()
    )
    line = page.locator(".stage .said")
    assert line.get_attribute("role") == "status"
    page.evaluate(_HEAR)
    while not _place(page).startswith("r3 "):
        before = _place(page)
        page.keyboard.press("ArrowRight")
        _moved(page, before)
    heard = page.evaluate("window.heard")
    assert {phase for phase, _, _ in heard} == {1, 2, 3, 4, 5, 6}
    assert {live for _, _, live in heard} == {"polite"}
    words = [text for _, text, _ in heard]
    assert all(words)
    assert all(one != other for one, other in pairwise(words))
    assert line.is_visible()


def test_a_message_is_written_and_the_run_held_by_keys(talking: Served, open_at: Open) -> None:
    page = open_at(f"{talking.url}/stage", 1440, 900)
    page.locator(".composer textarea").wait_for()
    page.wait_for_selector("[data-test-script-state=notRunning]")
    assert tab_to(page, "message", "textarea").seen
    page.keyboard.type("why is the sky blue?")
    page.keyboard.press("Enter")
    page.locator(".stage .node").first.wait_for()
    assert tab_to(page, "pause (space)").seen
    page.keyboard.press("Enter")
    page.locator(".livebar .state", has_text="PAUSED").wait_for()
    assert tab_to(page, "γ gamma").seen
    before = page.locator(".knob input[aria-label='γ gamma']").input_value()
    page.keyboard.press("ArrowRight")
    assert page.locator(".knob input[aria-label='γ gamma']").input_value() != before
    assert tab_to(page, "next round (])").seen
    rounds = page.locator(".stage .time .track").get_attribute("aria-valuemax")
    page.keyboard.press("Enter")
    page.locator(f".stage .time .track:not([aria-valuemax='{rounds}'])").wait_for()
    assert tab_to(page, "■ Stop").seen
    page.keyboard.press("Enter")
    page.locator(".livebar .state", has_text="ENDED").wait_for()


def test_the_welcome_is_read_on_and_put_away_by_keys(opened: Served, open_at: Open) -> None:
    page = open_at(opened.url, 1440, 900)
    page.locator(".welcome").wait_for()
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.keyboard.press("Space")  # while it plays the steps go along with it
    page.locator(".stage button[aria-label^=play]").wait_for()
    step = int(page.locator(".welcome .n").inner_text()[0])
    assert tab_to(page, "next").seen
    page.keyboard.press("Enter")
    page.locator(".welcome .n", has_text=f"{step + 1} of 4").wait_for()
    assert tab_to(page, "put this away").seen
    page.keyboard.press("Enter")
    assert page.locator(".welcome").count() == 0
