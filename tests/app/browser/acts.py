"""What tests of pages do in a browser, and wait for."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from playwright.sync_api import Error

_COUNT_RUNS = """() => {
  window.runs = 0;
  const app = document.querySelector('[data-test-script-state]');
  new MutationObserver(() => { if (app.dataset.testScriptState === 'running') window.runs += 1; })
    .observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""
WAIT_MS = 120_000  # at most, of a busy machine: nobody waits longer than it takes
STAGE = ".stage:not(.bare)"  # a panel may show the tree of the round once more


def start_run(page: Any, pace: str) -> None:
    """Choose the pace in the drawer, and say something on the stage."""
    box, option = page.get_by_label("Pace", exact=True), page.get_by_role("option", name=pace)
    page.locator(".composer textarea:enabled").wait_for()
    settled(page)
    open_drawer(page)
    box.wait_for()

    def offered() -> bool:
        """A list that opens while the script runs is closed again by what it writes."""
        settled(page)
        if not option.is_visible():
            box.click()
            page.wait_for_timeout(100)
        return bool(option.is_visible())

    until(offered, "no list of paces")
    option.click()
    settled(page)
    close_drawer(page)
    say(page, "go on")


def open_drawer(page: Any) -> None:
    page.get_by_role("button", name="Model and settings").click()


def close_drawer(page: Any) -> None:
    page.keyboard.press("Escape")
    page.get_by_label("Pace", exact=True).wait_for(state="hidden")


def settled(page: Any) -> None:
    page.wait_for_selector("[data-test-script-state=notRunning]")


def count_runs(page: Any) -> None:
    """Count from now on in `window.runs` how often the script runs; what the stage still tells of where it came to rest
    is of what was done before."""
    settled(page)
    page.wait_for_timeout(600)
    settled(page)
    page.evaluate(_COUNT_RUNS)


def address(page: Any) -> str:
    return str(page.evaluate("location.href"))  # `page.url` is what was last heard of


def stage_round(page: Any) -> int:
    match = re.search(r"r(\d+) ", stage_place(page))
    return int(match[1]) if match else 0


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def stage_place(page: Any) -> str:
    return str(page.locator(f"{STAGE} .time .place").inner_text())


def panel_of(page: Any) -> Any:
    """What is open below the stage, at rest."""
    panel = page.locator(".st-key-panel")
    panel.wait_for()
    settled(page)
    return panel


def say(page: Any, words: str) -> None:
    box = page.locator(".composer textarea")
    box.wait_for()
    settled(page)
    box.fill(words)
    box.press("Enter")


def follow_run(page: Any, words: str) -> None:
    """Say it on the stage, and wait for the first round."""
    say(page, words)
    page.locator(".stage .node").first.wait_for()


def stop_run(page: Any) -> None:
    page.locator(".livebar .halt").click()
    page.locator(".livebar .state", has_text="ENDED").wait_for()


def seen(page: Any, errors: Sequence[str]) -> str:
    """What a page has come to, as lines: its address, whether its script runs, its console, its tabs and its text."""
    script = "document.querySelector('[data-test-script-state]')?.dataset.testScriptState"
    try:
        tabs = [tab.inner_text() for tab in page.get_by_role("tab").all()]
        lines = [address(page), f"script: {page.evaluate(script)}", *errors, f"tabs: {tabs}", page.inner_text("body")]
    except Error as error:
        return f"it is not there any more: {error.message}"
    return "\n".join(lines)
