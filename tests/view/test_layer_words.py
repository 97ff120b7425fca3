"""Screen *Layers*: what is said of a cell, of a round without climbs, and of time."""

import pytest

from specviz import events as ev
from specviz.cost.exit_replay import ExitKnobs
from specviz.runlog.fold import fold
from specviz.runlog.run import RoundRecord
from specviz.view import Run
from support.exit_trace import exit_events
from support.traces import of_kind
from view.exit_rounds import golden, heat_of, layers


def words(run: Run, index: int, row: int, layer: int) -> str:
    record = run.rounds[index]
    node = -1 if row == 0 else sorted(record.nodes)[row - 1]
    cell = layers(run, index, selected=node, layer=layer).cell
    assert cell is not None
    assert cell.column.row == row
    return cell.words


def _without_exits(record: RoundRecord) -> None:
    for kind in (ev.LayerTrace, ev.Gate, ev.ExitRound):
        record.by_kind.pop(kind, None)


def test_a_stop_says_why_and_what_it_earned() -> None:
    run = fold(exit_events())
    seen = set()
    for column in heat_of(layers(run, len(run.rounds) - 1)).columns:
        if column.exit_layer is None:
            continue
        sentences = words(run, column.index, column.row, column.exit_layer)
        assert "≥ τ .750" in sentences
        assert ("Wrong: the target chose" in sentences) == (column.wrong is True)
        assert (f"Right: {column.exit_layer} calls paid, 8 earned" in sentences) == (column.wrong is False)
        seen.add(column.wrong)
    assert seen == {True, False}


def test_skipped_layers_are_never_called_saved_arithmetic() -> None:
    run = golden([2, 3, 2], 6, 4, 3)
    sentences = words(run, 0, 0, 3)
    assert "took it along" in sentences
    assert "not saved arithmetic" in sentences
    assert "all rows" in words(run, 0, 3, 6) or "The top" in words(run, 0, 3, 6)


def test_a_layer_that_always_drafts_says_what_its_confidence_decides() -> None:
    run = golden([3, 3], 6, 3, 1)
    assert run.header is not None
    of_kind(run.header, "kangaroo")
    for climb, conf in zip(run.rounds[0].every(ev.LayerTrace), (0.9, 0.4, None), strict=True):
        climb.raw_conf = conf
    sure, weak = words(run, 0, 0, 3), words(run, 0, 1, 3)
    assert "so drafting goes on" in sure
    assert "verified all the same" in weak
    heat = heat_of(layers(run))
    assert [column.cells[2].took for column in heat.columns] == [True, True, False]
    assert heat.what_tau is None, "no threshold moves where it stops"
    gates = layers(run).gates
    assert gates is not None
    assert "always does" in gates.words


def test_drafts_that_skip_sublayers_have_no_climbs_and_say_so() -> None:
    run = golden([], 6, 4, 0)
    assert run.header is not None
    of_kind(run.header, "draft_and_verify")
    _without_exits(run.rounds[0])
    assert "sublayers skipped" in (layers(run).missing or "")


def test_an_end_token_is_drafted_but_not_fed() -> None:
    run = golden([], 6, 4, 0)
    record = run.rounds[0]
    record.every(ev.LayerTrace)[0].draft_token = 0
    record.take(
        ev.Gate(r=1, row=0, layer=3, raw_conf=0.95, temp=1.25, conf=0.9, tau=0.8, raw_thr=0.87, took=True, top1=0)
    )
    assert "An end token is not fed: the row climbs on and judges it." in words(run, 0, 0, 3)
    (column,) = heat_of(layers(run)).columns
    assert not any(cell.took for cell in column.cells)


def test_a_rejected_row_has_lost_its_cells() -> None:
    assert "rejected: what was computed for it is lost" in words(golden([2, 3, 2], 6, 4, 0), 0, 2, 2)


@pytest.mark.parametrize(
    ("method", "level", "sentences"),
    [
        ("draft", "full", "specviz run --method specbound"),
        ("specbound", "none", "level none"),
        ("specbound", "full", "no climbs"),
    ],
)
def test_an_empty_screen_gives_the_reason(method: str, level: str, sentences: str) -> None:
    run = golden([], 6, 4, 0)
    assert run.header is not None
    of_kind(run.header, method).level = level  # type: ignore[assignment]
    _without_exits(run.rounds[0])
    assert sentences in (layers(run).missing or "")


def test_time_is_compared_with_the_prediction() -> None:
    timing = layers(fold(exit_events()), 3).timing
    assert timing.startswith("predicted ")
    assert timing.endswith("(+10 %)"), "the stages of this trace take a tenth longer than predicted"
    assert layers(fold(exit_events(setting=ExitKnobs(tau=1.01, d_max=5, layers=(3, 5)))), 0).heat is not None
