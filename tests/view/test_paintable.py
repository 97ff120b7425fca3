"""What a trace says of its models is painted like token text, and records of layers that do not exist crash nothing."""

from typing import Any

import msgspec
import pytest

from specviz import events as ev
from specviz.runlog.fold import fold
from support.exit_trace import exit_events
from view.exit_rounds import heat_of, layers

HOSTILE = "[red]\x1b[2J\u202e<b>"


def odd(kind: type[ev.Event], **changes: Any) -> list[ev.Event]:
    return [msgspec.structs.replace(event, **changes) if isinstance(event, kind) else event for event in exit_events()]


def headed(**target: Any) -> list[ev.Event]:
    header = next(event for event in exit_events() if isinstance(event, ev.Header))
    assert header.models.target is not None
    models = msgspec.structs.replace(
        header.models, target=msgspec.structs.replace(header.models.target, **target), parts={"heads": HOSTILE}
    )
    return odd(ev.Header, models=models)


def test_names_are_escaped() -> None:
    header = fold(headed(name=HOSTILE)).header
    assert header is not None
    assert header.models.target is not None
    for text in (header.models.target.name, header.models.parts["heads"]):
        assert text.isprintable()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "red" in text  # it is shown, not dropped


@pytest.mark.parametrize("n_layers", [0, -3, 100_000])
def test_an_impossible_number_of_layers_is_not_believed(n_layers: int) -> None:
    header = fold(headed(n_layers=n_layers)).header
    assert header is not None
    assert header.models.target is not None
    assert header.models.target.n_layers is None


@pytest.mark.parametrize("layer", [0, -1, 99])
def test_tests_after_layers_that_do_not_exist_are_left_out(layer: int) -> None:
    heat = heat_of(layers(fold(odd(ev.Gate, layer=layer))))
    assert all(0 < tested < heat.n_layers for tested in heat.tested)
