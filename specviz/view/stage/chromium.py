"""The chromium of this machine, driven without a window; it brings nothing of its own and asks nobody anything."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specviz.errors import MissingExtra, SpecvizError

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge")
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)


def executable() -> str | None:
    """Where chromium or one of its kind is: CHROMIUM if that is set, else what the path or its usual place has."""
    named = os.environ.get("CHROMIUM")
    installed = (shutil.which(name) for name in (*_NAMES, *_PLACES))
    return named or next(filter(None, installed), None)


@contextmanager
def chromium(*more: str) -> Iterator[Any]:
    """A browser without a window. `more`: further words of its command line.

    Raises SpecvizError where there is none, MissingExtra where what drives it is not installed.
    """
    path = executable()
    if path is None:
        raise SpecvizError(
            "no Chromium or Chrome on this machine, which draws the picture: apt-get install chromium, or name one in "
            "the variable CHROMIUM; 'specviz export --html' needs none"
        )
    try:
        from playwright.sync_api import Error, sync_playwright
    except ModuleNotFoundError:
        raise MissingExtra("export", "a picture is made with playwright, which is not installed; it") from None
    with sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=path, args=[*FLAGS, *more])
        except Error as error:
            reason = error.message.strip().splitlines()[0]
            raise SpecvizError(f"the browser '{path}' does not start: {reason}; name another in CHROMIUM") from None
        try:
            yield browser
        finally:
            browser.close()
