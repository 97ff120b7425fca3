"""An error of ours never takes a page away: one line where it happened, the runs stay on top, the log has the rest."""

import ast
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import specviz_app
from app import barred
from app.conftest import Open
from app.tab import Tab
from specviz_app.launcher import config
from specviz_app.server.core import Settings
from specviz_app.ui.viewer import Viewer

_FREE = {"ignore", "rerun"}  # words of Streamlit's own in place of a callback


def _broken(*_: object, **__: object) -> None:
    raise ValueError("a *bug*\nof ours")


def _one_line(app: AppTest) -> str:
    assert not app.exception
    (line,) = (e.value.replace("\\", "") for e in app.error)
    assert "\n" not in line
    assert "Traceback" not in line
    assert app.selectbox(key="src").value == "code-tree"
    return line


@pytest.fixture
def tab(open_page: Open) -> Tab:
    opened = Tab(open_page(Settings(), at="r1"))
    opened.look_at("code-tree")
    opened.below("overview")
    return opened


def test_a_panel_that_breaks_says_so_and_the_picture_stays(
    tab: Tab, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("specviz_app.screens.overview.show", _broken)
        tab.go("r2")
        assert "ValueError: a *bug* of ours" in _one_line(tab.app)
        err = capfd.readouterr().err
        assert "Traceback" in err
        assert "specviz_app.screens.overview._body" in err
        assert tab.app.get("bidi_component")
    tab.go("r3")
    assert not tab.app.error
    assert str(tab.app.query_params["at"]).strip("[]'").startswith("r3")


def test_a_page_that_breaks_says_so_and_the_runs_stay(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("specviz_app.screens.compare.state.known", _broken)
        tab.open("compare")
        assert "ValueError: a *bug* of ours" in _one_line(tab.app)
    tab.open("stage")
    assert not tab.app.error


def test_a_move_that_breaks_is_told_once_and_the_page_is_made(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Viewer, "go", _broken)
        tab.go("r2")
        assert "ValueError: a *bug* of ours" in _one_line(tab.app)
        assert barred.charts(tab.app)
    tab.go("r3")
    assert not tab.app.error


def test_the_list_of_runs_may_break_and_the_page_is_there(tab: Tab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specviz_app.ui.run_bar.take_wanted", _broken)
    tab.below("lanes")
    assert not tab.app.exception
    assert tab.app.get("plotly_chart")


def test_streamlit_shows_no_details_of_what_slips_through() -> None:
    assert config("127.0.0.1", 1)["client.showErrorDetails"] == "none"


def test_every_callback_and_fragment_is_guarded() -> None:
    for path in sorted(Path(specviz_app.__file__).parent.rglob("*.py")):
        if path.name == "guard.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and node.attr == "fragment":
                assert isinstance(node.value, ast.Name), where
                assert node.value.id == "guard", f"{where}: use guard.fragment"
            if isinstance(node, ast.keyword) and node.arg in ("on_click", "on_change", "on_select"):
                callback = node.value
                if isinstance(callback, ast.Constant) and callback.value in _FREE:
                    continue
                assert ast.unparse(callback).startswith("guard.obeyed("), f"{where}: {ast.unparse(callback)}"
