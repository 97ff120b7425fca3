"""Screen *Layers*: cells, staircase and ledger of the golden vectors, and what may be seen when."""

from dataclasses import replace

import pytest

from specviz import events as ev
from specviz.cost.exit_replay import annealed, one_rival
from specviz.runlog.fold import Run, fold
from specviz.view.blocks import twin
from specviz.view.panels.exits.build import would
from specviz.view.panels.exits.model import Column
from specviz.view.panels.exits.sweeps import few
from specviz.view.words.palette import Phase
from support.exit_trace import SETTING, exit_events
from view.exit_rounds import golden, heat_of, layers

# Stop depths; layers, deepest test; widths by climb.
GOLDEN = [
    ([2, 3, 2], 6, 4, ["11", "112", "11", "112444"]),
    ([1, 1, 1], 6, 4, ["1", "1", "1", "144444"]),
    ([4, 2, 3], 6, 4, ["1111", "11", "112", "111344"]),
    ([], 6, 4, ["111111"]),
    ([3, 5, 2, 2], 8, 6, ["111", "11122", "11", "11", "11333555"]),
]


@pytest.mark.parametrize(("exits", "n_layers", "d_max", "widths"), GOLDEN)
def test_golden_vectors(exits: list[int], n_layers: int, d_max: int, widths: list[str]) -> None:
    panel = layers(golden(exits, n_layers, d_max, len(exits)))
    assert panel.stairs is not None
    rows = panel.stairs.table.column("rows in its calls")
    assert [str(row).replace(", ", "") for row in rows] == widths
    cells = [cell for column in heat_of(panel).columns for cell in column.cells]
    assert len(cells) == (len(exits) + 1) * n_layers
    assert all(cell.kind is not None for cell in cells), "every row passes every layer once"
    assert panel.stairs.steps[-1].depths == (n_layers,) * (len(exits) + 1)


def test_how_cells_came_about_in_the_worked_example() -> None:
    panel = layers(golden([2, 3, 2], 6, 4, 3))
    kinds = ["".join((cell.kind or "?")[0] for cell in column.cells) for column in heat_of(panel).columns]
    assert kinds == ["oocass", "oooass", "ooaass", "aaaass"]  # own, catch_up, align, sweep
    assert panel.stairs is not None
    assert [step.depths for step in panel.stairs.steps] == [(2,), (3, 3), (3, 3, 2), (6, 6, 6, 6)]
    assert panel.stairs.table.column("took along")[1] == "0"


def test_depth_never_rises_with_position() -> None:
    for exits, n_layers, d_max, _ in GOLDEN:
        stairs = layers(golden(exits, n_layers, d_max, 0)).stairs
        assert stairs is not None
        assert all(list(step.depths) == sorted(step.depths, reverse=True) for step in stairs.steps)


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_the_ledger_adds_up(kept: int) -> None:
    panel = layers(golden([2, 3, 2], 6, 4, kept)).ledger
    assert panel is not None
    paid, _, net = panel.curves
    assert paid.ys == (2, 3, 2, 6)
    assert sum(net.ys) == twin(panel).column("net")[-1] == kept * 6 - 7  # type: ignore[arg-type]
    assert twin(panel).column("paid") == [*paid.ys, sum(paid.ys)]  # type: ignore[arg-type]
    assert f"{(3 - kept) * 6} of them for rejected rows" in panel.words or kept == 3


def test_only_what_has_happened_is_shown() -> None:
    run = golden([2, 3, 2], 6, 4, 1)
    assert layers(run, phase=Phase.ROOT).heat is None
    for step in (1, 2, 3):
        panel = layers(run, phase=Phase.DRAFT, step=step)
        columns = heat_of(panel).columns
        assert [column.row for column in columns] == list(range(step))
        assert {column.status for column in columns} == {"open"}
        assert all(column.wrong is None and column.chosen is None for column in columns)
        assert panel.ledger is not None
        assert panel.ledger.missing
    second = heat_of(layers(run, phase=Phase.DRAFT, step=1)).columns[0]
    assert second.cells[2].kind is None, "layer 3 takes row 0 along only in the second climb"


def test_wrong_exits_are_those_the_target_judged() -> None:
    columns = heat_of(layers(golden([2, 3, 2], 6, 4, 1))).columns
    assert [column.wrong for column in columns] == [False, True, None, None]
    assert [column.status for column in columns] == ["committed", "committed", "rejected", "rejected"]


def test_the_round_is_the_run_of_the_tree_selection() -> None:
    run = golden([2, 3, 2], 6, 4, 1)
    for node, row in ((-1, 0), (0, 1), (2, 3)):
        heat = heat_of(layers(run, selected=node))
        assert heat.column is not None
        assert heat.columns[heat.column].row == row
    closing = heat_of(layers(run, selected=-2))
    assert closing.column == 1, "the row that judged the draft that fell"


def place_of(run: Run, column: Column) -> int:
    """The position that a row stands at in the text, as its climb recorded it."""
    return next(c.pos for c in run.rounds[column.index].every(ev.LayerTrace) if c.row == column.row)


def test_earlier_rounds_stand_before() -> None:
    run = fold(exit_events())
    heat = heat_of(layers(run, 5))
    assert [column.index for column in heat.columns] == sorted(column.index for column in heat.columns)
    assert heat.columns[-1].index == 5
    positions = [place_of(run, column) for column in heat.columns if column.status == "committed"]
    assert positions == sorted(set(positions)), "every position of the text was one row's"
    chosen = heat_of(layers(run, 5, column=(3, 0)))
    assert chosen.column is not None
    assert (chosen.columns[chosen.column].index, chosen.columns[chosen.column].row) == (3, 0)


def test_watched_values_are_told_apart_and_stop_nothing() -> None:
    run = fold(exit_events())
    asked = {(r.index, g.row, g.layer) for r in run.rounds for g in r.every(ev.Gate)}
    for column in heat_of(layers(run, len(run.rounds) - 1)).columns:
        for cell in column.cells:
            tested = (column.index, column.row, cell.layer) in asked
            assert cell.source == ("test" if tested else "replayed" if cell.conf is not None else None)
            assert tested or not cell.took


def test_another_threshold_stops_where_its_first_test_passes() -> None:
    run = fold(exit_events())
    heat = heat_of(layers(run, 4, what_tau=0.3))
    for column, at in zip(heat.columns, heat.would, strict=True):
        if column.cells[0].conf is None:
            continue
        passing = [layer for layer in heat.tested if (column.cells[layer - 1].conf or 0) >= 0.3]
        assert at == (passing[0] if passing else 0)
    assert all(would(column, heat.tested, 1.01) in (0, None) for column in heat.columns)


def test_what_was_never_asked_is_not_guessed() -> None:
    run = fold(exit_events(swept=False, setting=replace(SETTING, tau=0.4)))
    heat = heat_of(layers(run, 4, what_tau=0.99))
    stopped = [k for k, column in enumerate(heat.columns) if column.exit_layer == 3]
    assert stopped
    for k in stopped:
        conf = heat.columns[k].cells[2].conf
        assert heat.would[k] == (3 if conf is not None and conf >= 0.99 else None), "layer 5 was never asked there"
    assert "were not asked" in heat.note
    assert not layers(run, 4).sweeps
    assert "--write" in layers(run, 4).swept


def test_oracles_follow_from_what_the_heads_said() -> None:
    run = fold(exit_events())
    says = {(cell.pos, cell.layer): cell.top1 for cell in run.queries[0].exit_table}
    text = [token.token for token in run.queries[0].tokens if token.mark != "prompt"]
    for column in heat_of(layers(run, len(run.rounds) - 1)).columns:
        if column.status != "committed":
            assert column.first_right is None
            continue
        right = [says[place_of(run, column), layer] == text[place_of(run, column) - 2] for layer in range(1, 8)]
        assert column.first_right == (right.index(True) + 1 if any(right) else 8)
        assert column.settled == 8 - next((k for k, good in enumerate(reversed(right)) if not good), 7)
        if column.exit_layer is not None:
            assert column.regret == column.exit_layer - column.first_right


def test_gates_ask_more_of_shallow_layers() -> None:
    gates = layers(fold(exit_events()), 4).gates
    assert gates is not None
    asked = gates.curves[0].ys
    assert list(asked) == sorted(asked, reverse=True)  # type: ignore[type-var]
    temps = [annealed(0.5, layer, 8) for layer in gates.xs]  # type: ignore[arg-type]
    assert twin(gates).column("T") == temps
    assert asked == tuple(one_rival(0.75, temp) for temp in temps)
    assert twin(gates).column("tested") == [layer in (3, 5) for layer in gates.xs]
    flat = layers(fold(exit_events(setting=replace(SETTING, alpha=0.0))), 4).gates
    assert flat is not None
    assert "α 0" in flat.words


def test_the_sweep_at_the_runs_own_setting_is_the_run() -> None:
    run = fold(exit_events())
    swept = layers(run, 2).sweeps
    assert len(swept) == 2
    n_tokens = sum(len(record.commit.tokens) for record in run.rounds if record.commit)
    exits = sum(climb.exit_layer is not None for record in run.rounds for climb in record.every(ev.LayerTrace))
    for chart in swept:
        table, ((own, *_), (best, *_)) = twin(chart), chart.signs
        assert table.column("tokens/round")[own] == n_tokens / len(run.rounds)
        assert table.column("exits")[own] == exits / (exits + len(run.rounds))
        assert table.column("calls/token")[best] == min(table.column("calls/token"))  # type: ignore[type-var]
        assert {table.rows[own], table.rows[best]} <= set(few(table, 5).rows)
        assert len(few(table, 5).rows) == 5


def test_a_text_that_depends_on_the_draft_is_not_replayed() -> None:
    events = exit_events()
    assert isinstance(events[0], ev.Header)
    events[0].keeps_tokens = False
    events[0].sampling["temperature"] = 0.7
    assert "cannot be replayed" in layers(fold(events), 2).swept
