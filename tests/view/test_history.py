"""The panel *Over time*: counts of rounds and of drafted tokens, recounted from the records."""

from collections import Counter

import pytest

from specviz.events import Event
from specviz.runlog.fold import Run, fold
from specviz.runlog.run import RoundRecord
from specviz.text import shown
from specviz.view import Options, Player
from specviz.view.blocks import Cell, Destination, Plot, TableBlock, ordered
from specviz.view.panels.built import BlockModel
from specviz.view.panels.history.build import HistoryPanel
from specviz.view.panels.history.counts import RoundCounts
from support.traces import make_events


@pytest.fixture(scope="module")
def events() -> list[Event]:
    return make_events(temperature=0.8, new_tokens=200, knob_at=5)


@pytest.fixture(scope="module")
def run(events: list[Event]) -> Run:
    return fold(events)


def text_of(record: RoundRecord, node: int) -> str:
    return shown(record.nodes[node].text, record.nodes[node].bytes)


def model_at(run: Run, index: int) -> BlockModel:
    player = Player(run, animate=False)
    player.seek_index(index)
    model = HistoryPanel.of(player.frame(Options(shown=("history",))))
    assert model is not None
    return model


def block(run: Run, key: str, index: int = -1) -> TableBlock | Plot:
    model = model_at(run, index % len(run.rounds))
    assert model.missing is None
    return next(b for b in model.blocks if isinstance(b, TableBlock | Plot) and b.key == f"history-{key}")


def test_tokens_are_counted_as_they_were_tested(run: Run) -> None:
    table = block(run, "tokens")
    assert isinstance(table, TableBlock)
    lost, tested = Counter[str](), Counter[str]()
    for record in run.rounds:
        for node, verdict in record.verdicts.items():
            text = text_of(record, node)
            tested[text] += verdict.status in ("accepted", "rejected")
            lost[text] += verdict.status == "rejected"
    assert sum(lost.values()) > 10
    rows = {row[0].text: (row[1].value, row[2].value) for row in table.rows}
    assert rows == {text: (lost[text], tested[text]) for text in rows}
    assert [row[1].value for row in table.rows] == sorted((n for n in lost.values() if n), reverse=True)[: len(rows)]


def test_a_line_leads_to_the_newest_test_that_was_lost(run: Run) -> None:
    table = block(run, "tokens")
    for row, place in zip(table.rows, table.places, strict=True):  # type: ignore[union-attr]
        assert place is not None
        assert place.node is not None
        record = run.rounds[place.index]
        assert record.verdicts[place.node].status == "rejected"
        assert text_of(record, place.node) == row[0].text
        later = [r for r in run.rounds if r.index > place.index]
        assert not any(
            verdict.status == "rejected" and text_of(r, node) == row[0].text
            for r in later
            for node, verdict in r.verdicts.items()
        )


def test_charts_add_up_to_the_run(run: Run) -> None:
    chart = block(run, "length")
    assert isinstance(chart, Plot)
    size = chart.xs[1] - chart.xs[0]  # type: ignore[operator]
    sizes = [min(size, len(run.rounds) - k * size) for k in range(len(chart.xs))]  # type: ignore[operator]
    whole = sum(y * n for y, n in zip(chart.curves[0].ys, sizes, strict=True))  # type: ignore[operator]
    assert whole == pytest.approx(sum(record.end.n_emitted for record in run.rounds if record.end))


def test_a_moved_knob_stands_at_its_window(run: Run) -> None:
    changed = next(record for record in run.rounds if record.changes)
    chart = block(run, "length")
    ((at, words, _),) = chart.signs  # type: ignore[union-attr]
    assert chart.places[at].index <= changed.index  # type: ignore[union-attr]
    assert changed.changes[0].name in words


def test_the_round_on_screen_has_the_cursor(run: Run) -> None:
    table = block(run, "rounds", 7)
    assert isinstance(table, TableBlock)
    assert table.cursor is not None
    assert table.places[table.cursor] == Destination(7)


def test_what_was_kept_is_what_was_counted(run: Run) -> None:
    counted, restored = RoundCounts(run), RoundCounts(run)
    counted.update()
    restored.from_cache(counted.kept())
    assert restored == counted
    assert restored.n_behind == 0


def test_a_run_of_one_round_says_so(events: list[Event]) -> None:
    run = fold([event for event in events if event.r <= 1])
    assert model_at(run, 0).missing == "Fewer than two rounds have ended."


@pytest.mark.parametrize(
    ("column", "descending", "order"),
    [(0, False, "acdb"), (0, True, "bdca"), (1, True, "bacd"), (1, False, "cabd")],
)
def test_lines_are_ordered_and_what_has_no_value_stands_last(column: int, descending: bool, order: str) -> None:
    cells = {"a": Cell("2", 2), "b": Cell("10", 10), "c": Cell("1.5", 1.5), "d": Cell("—")}
    texts = {"a": "alpha", "b": "zeta", "c": "beta", "d": "gamma"}
    rows = tuple((Cell(texts[name]), cell) for name, cell in cells.items())
    table = TableBlock("t", ("name", "n"), rows, places=tuple(Destination(k) for k in range(4)), cursor=2)
    again = ordered(table, column, descending)
    assert [row[0].text for row in again.rows] == [texts[name] for name in order]
    assert [place and "abcd"[place.index] for place in again.places] == list(order)
    assert again.cursor is None
