"""Every knob of every method that is registered: it has a control, takes a value, and what it takes reaches the start.

Nothing is listed here: a method that is added is tested by being there.
"""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import onstage
from app.conftest import Open
from app.fakes import fake_settings, until
from specviz.commands import Start
from specviz.knobs import KnobSpec
from specviz.methods import all_methods
from specviz.view.frame.parts import KnobItem
from specviz.view.stage.now import next_knobs
from specviz_app.server.server import current
from specviz_app.ui.knob_widgets import key

METHODS = list(all_methods())
SPECS = [(name, spec) for name, method in all_methods().items() for spec in method.table.specs]
_IDS = [f"{name}.{spec.name}" for name, spec in SPECS]


def _control(spec: KnobSpec) -> KnobItem:
    (item,) = next_knobs([spec], {}, {})
    return item


def _another(spec: KnobSpec) -> Any:
    """A value that is not the default, and that a slider of such steps can stand at."""
    if spec.kind == "bool":
        return not spec.default
    if spec.kind == "choice":
        return next(word for word in spec.choices if word != spec.default)
    if spec.kind == "texts":
        return ["7"]
    step = _control(spec).step
    up = spec.default + step
    value = up if spec.hi is None or up <= spec.hi else spec.default - step
    return int(value) if spec.kind == "int" else round(float(value), 9)


def _widget(at: AppTest, method: str, spec: KnobSpec) -> Any:
    return at.get_by_key(key(method, spec))


def _idle(method: str, spec: KnobSpec) -> bool:
    """Without an effect while the others stand as they are."""
    plain = {knob.name: knob.default for knob in all_methods()[method].table.specs}
    return any(name in plain and str(plain[name]) not in wanted for name, wanted in spec.needs.items())


@pytest.mark.parametrize("method", METHODS)
def test_every_knob_of_a_method_is_moved_and_handed_over(
    method: str, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once: a script run each would take a quarter of an hour."""
    at = open_page(fake_settings(live=True))
    core = current().core
    core.load()
    until(lambda: core.catalogue, "no catalogue")
    at.query_params["method"] = method
    at.run()
    assert not at.exception
    assert at.selectbox(key="method").value == method
    moved = {}
    for spec in all_methods()[method].table.specs:
        widget = _widget(at, method, spec)
        assert spec.help in widget.help, spec.name
        assert widget.disabled is _idle(method, spec), spec.name
        if widget.disabled:
            assert "no effect with" in widget.help, spec.name
            continue
        moved[spec.name] = _another(spec)
        widget.set_value("7" if spec.kind == "texts" else moved[spec.name])
    starts: list[Start] = []
    monkeypatch.setattr(core, "start", lambda start, paced: starts.append(start))
    onstage.tell(at, "say", "def f(")
    assert not at.exception
    assert [error.value for error in at.error] == []
    (start,) = starts
    assert start.method == method
    assert start.knobs == moved


@pytest.mark.parametrize(("method", "spec"), SPECS, ids=_IDS)
def test_every_knob_has_a_control_on_the_stage(method: str, spec: KnobSpec) -> None:
    """The control holds the default, reaches to both ends, and offers nothing that the knob would refuse; while a run
    goes on, one that is fixed then waits for the next."""
    how = _control(spec)
    assert how.applies == spec.applies
    if spec.kind == "texts":
        assert not how.moves
        return
    assert how.moves == {"choice": "choice", "bool": "switch"}.get(spec.kind, how.moves)
    if how.moves == "choice":
        assert spec.default in how.choices
        assert [spec.check(word) for word in how.choices] == list(how.choices)
    if how.moves not in ("slide", "number"):
        return
    assert (how.lo, how.hi) == (spec.lo, spec.hi)
    assert how.step
    assert spec.check(_another(spec)) != spec.default
    if how.moves == "slide":
        assert how.lo is not None
        assert how.hi is not None
        assert how.lo <= spec.default <= how.hi
        steps = (how.hi - how.lo) / how.step
        assert steps == pytest.approx(round(steps)), "the upper end cannot be reached"
