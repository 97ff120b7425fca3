"""What tests of pages do in a browser, and wait for."""

import re
import time
from collections.abc import Callable
from typing import Any

COUNT_RUNS = """() => {
  window.runs = 0;
  const app = document.querySelector('[data-test-script-state]');
  new MutationObserver(() => { if (app.dataset.testScriptState === 'running') window.runs += 1; })
    .observe(app, { attributes: true, attributeFilter: ['data-test-script-state'] });
}"""
WAIT_MS = 30_000


def start_run(page: Any, pace: str | None = None) -> None:
    page.get_by_text("Start", exact=True).wait_for()
    if pace:
        option = page.get_by_role("option", name=pace)

        def offered() -> bool:
            """A list that opens while the script runs is closed again by what it writes."""
            settled(page)
            if not option.is_visible():
                page.get_by_label("Pace", exact=True).click()
                page.wait_for_timeout(100)
            return bool(option.is_visible())

        until(offered, "no list of paces")
        option.click()
        settled(page)
    page.get_by_text("Start", exact=True).click()


def settled(page: Any) -> None:
    page.wait_for_selector("[data-test-script-state=notRunning]")


def address(page: Any) -> str:
    return str(page.evaluate("location.href"))  # `page.url` is what was last heard of


def stage_round(page: Any) -> int:
    found = re.search(r"r(\d+) ", page.locator(".stage .time .place").inner_text())
    return int(found[1]) if found else 0


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_MS / 1000
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def stage_place(page: Any) -> str:
    return str(page.locator(".stage .time .place").inner_text())


def tree_of(page: Any, key: str) -> Any:
    """The stage's painter where a page shows one round."""
    found = page.locator(f".st-key-{key} .stage")
    found.locator(".node").first.wait_for()
    settled(page)
    return found


def follow_run(page: Any, words: str) -> None:
    """Say it on the stage, and wait for the first round."""
    box = page.locator(".composer textarea")
    box.wait_for()
    settled(page)
    box.fill(words)
    box.press("Enter")
    page.locator(".stage .node").first.wait_for()
