"""Recorded runs for the pages, and a fresh server for every test."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.recordings import RECORDINGS
from support.traces import make_events, write_trace

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest
    from streamlit.testing.v1.element_tree import Selectbox

    from specviz_app.server.core import ServedRun, Settings
    from specviz_app.server.server import Server

if find_spec("streamlit") is None or find_spec("plotly") is None:  # the extra 'web' is not installed
    collect_ignore_glob = ["test_*.py"]

Open = Callable[..., Any]
_OFFERED: dict[str, Any] = {}  # which of them fill a panel: found once


@pytest.fixture(scope="session")
def chain_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chain")
    return write_trace(folder / "chain", make_events(temperature=0.8, new_tokens=40, knob_at=5))


@pytest.fixture(scope="session")
def tree_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trace(
        tmp_path_factory.mktemp("tree") / "tree", make_events(shape="tree", temperature=0.7, new_tokens=32)
    )


@pytest.fixture(autouse=True, scope="session")
def packages_are_asked_once() -> Iterator[None]:
    """Every run of a script asks all installed packages for components of theirs, which takes longer than our page."""
    from streamlit.components.v2 import manifest_scanner as scanner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "scan_component_manifests", cache(scanner.scan_component_manifests))
        yield


@pytest.fixture(autouse=True)
def nothing_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is found here but those that a test puts there."""
    from specviz_app.screens import live_models

    live_models._found.clear()
    monkeypatch.setattr(live_models, "local_models", list)


@pytest.fixture(autouse=True)
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes with the package are the recordings of the tests: few tokens of a small model, one of every method."""
    for module in ("specviz_app.ui.library", "specviz.sources.offers"):
        monkeypatch.setattr(f"{module}.bundled_traces", lambda: RECORDINGS)
    monkeypatch.setattr("specviz.sources.offers._found", _OFFERED)


@pytest.fixture
def server() -> "Iterator[Callable[[Settings], Server]]":
    """Makes the server of this process; it is gone after the test."""
    from specviz_app.server import server as servers

    started: list[servers.Server] = []

    def make(settings: "Settings") -> servers.Server:
        started.append(servers.install(servers.Server(settings, streams=True, animate=False)))
        return started[-1]

    yield make
    for own_server in started:
        own_server.close()
    servers._server = None


@pytest.fixture
def core(server: "Callable[[Settings], Server]") -> "ServedRun":
    """A fake core that is loaded."""
    from app.fakes import fake_settings, until

    loaded = server(fake_settings()).core
    loaded.load()
    until(lambda: loaded.catalogue, "no catalogue")
    return loaded


@pytest.fixture
def open_page(server: "Callable[[Settings], Server]") -> Open:
    """What stands at an address, under the bar with the run: a page, a panel below the stage, or what a former page has
    become; without one, the whole application at its first page."""
    from streamlit.testing.v1 import AppTest

    from specviz_app.launcher import SCRIPT
    from specviz_app.ui.pages import moved

    def opened(settings: "Settings", page: str = "", **query: str) -> "AppTest":
        server(settings)
        if page in moved():
            query = {f"{page}.show" if name == "show" else name: value for name, value in query.items()}
            page, query = moved()[page][0], {**moved()[page][1], **query}
        at = AppTest.from_file(str(SCRIPT)) if not page else AppTest.from_string(PAGE.format(page=page))
        at.default_timeout = 60
        for name, value in query.items():
            at.query_params[name] = value
        return at.run()

    return opened


def box(at: "AppTest", key: str) -> "Selectbox[Any]":
    """The list of things of a round whose key begins so: the rest of the key is the place and the options."""
    boxes = [selectbox for selectbox in at.selectbox if selectbox.key and selectbox.key.startswith(f"{key}@")]
    assert len(boxes) == 1, f"{len(boxes)} lists {key!r}"
    return boxes[0]


PAGE = """
from specviz_app.screens import {page}
from specviz_app.server.server import current
from specviz_app.ui.run_bar import run_bar

run_bar(current())
{page}.PAGE.show()
"""
