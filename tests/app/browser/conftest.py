"""One browser for all tests of this folder; a page of its own for each, and a fresh server where a run is live."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.browser.acts import WAIT_MS, seen
from app.served import Served, free_port, served
from specviz.view.stage.chromium import chromium
from support.exit_trace import exit_events
from support.rank_trace import rank_events
from support.traces import write_trace

# What a page of another test has left behind is gone before the first script of the next one runs.
_FORGET = "if (!window.name) { window.name = 'seen'; localStorage.clear(); sessionStorage.clear(); }"

_PAGES = pytest.StashKey[list[tuple[Any, list[str]]]]()


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """One context for all pages: what one has fetched, the next need not fetch and compile."""
    with chromium() as chrome:
        context = chrome.new_context()
        context.add_init_script(_FORGET)
        yield context


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What stood on the pages of a test that failed is reported with it: a page that never came says why."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections += [(f"page {page.url}", seen(page, errors)) for page, errors in item.stash.get(_PAGES, [])]
    return report


@pytest.fixture
def open_at(browser: Any, request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """A page of its own, which must not have said anything on its console by the end."""
    pages = request.node.stash[_PAGES] = []

    def opened(address: str, width: int = 1280, height: int = 900, dark: bool = False) -> Any:
        browser.clear_cookies()
        page = browser.new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light")
        errors: list[str] = []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        pages.append((page, errors))
        page.set_default_timeout(WAIT_MS)
        page.goto(address)
        return page

    yield opened
    for page, _ in pages:
        page.close()
    assert [words for _, errors in pages for words in errors] == []


@pytest.fixture(scope="package")
def one_port() -> int:
    """For one live server after the other: a browser keeps what it fetched by the address."""
    return free_port()


@pytest.fixture
def live(one_port: int) -> Iterator[Served]:
    with served(port=one_port) as server:
        yield server


@pytest.fixture
def lasting(one_port: int) -> Iterator[Served]:
    """A run that is not over before a busy page has looked."""
    with served(None, one_port, "long") as server:
        yield server


@pytest.fixture
def busy(one_port: int) -> Iterator[Served]:
    """A run on a machine on which every script begins late."""
    with served(None, one_port, "busy") as server:
        yield server


@pytest.fixture
def talking(one_port: int) -> Iterator[Served]:
    """A model that is sent messages."""
    with served(None, one_port, "talks") as server:
        yield server


@pytest.fixture
def opened(one_port: int) -> Iterator[Served]:
    """What somebody gets who asked for nothing."""
    with served(None, one_port, "open") as server:
        yield server


@pytest.fixture
def shared(one_port: int) -> Iterator[Served]:
    """What other machines reach: pages without the key watch."""
    with served(None, one_port, "shared") as server:
        yield server


@pytest.fixture(scope="package")
def recorded(chain_trace: Path) -> Iterator[Served]:
    with served(chain_trace) as server:
        yield server


@pytest.fixture(scope="package")
def exits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(write_trace(tmp_path_factory.mktemp("exits") / "exits", exit_events())) as server:
        yield server


@pytest.fixture(scope="package")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(write_trace(tmp_path_factory.mktemp("trees") / "trees", rank_events())) as server:
        yield server
