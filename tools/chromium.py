"""The system's chromium for tests and screenshots: it brings nothing of its own and asks nobody anything."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def executable() -> str | None:
    """Where chromium is; None when there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)


@contextmanager
def chromium(*more: str) -> Iterator[Any]:
    """A browser without a window. `more`: further words of its command line."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable(), args=[*FLAGS, *more])
        try:
            yield browser
        finally:
            browser.close()
