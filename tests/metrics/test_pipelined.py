"""Metrics of pipelined drafting and of early exit on hand-made rounds; the arithmetic stands beside each number."""

import pytest

from specviz import events as ev
from specviz.events import Calibration, Event, ExitRound, LayerTrace
from specviz.metrics import Metrics, measure
from support.branch_trace import branches, fork, frame, node, round_one, round_two, step, worked
from support.traces import make_header, plain_round

HEADER = make_header(level="summary", method="specbranch", knobs={"gamma": 4})


def of(rounds: list[list[Event]], *extra: Event, header: ev.Header = HEADER) -> Metrics:
    return measure([header, *extra, *(event for records in rounds for event in records)])


def value(estimate: object) -> float:
    assert estimate is not None
    number: float = estimate.value  # type: ignore[attr-defined]
    return number


def test_rollback_of_the_worked_trace() -> None:
    """Paths: 2 + 4, 4 and 4 positions drafted; void: none (a hit), rejected + orphaned + 4, and 4 (a miss)."""
    numbers = of(worked())
    assert value(numbers.rollback_rate) == (0 + (1 + 1 + 4) + 4) / (2 + 4 + 4 + 4)
    # cells: 3 accepted and 12 lost; 1 accepted, 2 + 4 void; 4 void
    assert value(numbers.rollback_rate_tokens) == (12 + 6 + 4) / (15 + 7 + 4)


def test_runs_of_the_worked_trace_cross_rounds() -> None:
    # 2 + branch token, then 1, rejection: 4; then a miss at once: 0
    numbers = of(worked())
    assert numbers.accepted_run_length is not None
    assert (numbers.accepted_run_length.value, numbers.accepted_run_length.n) == ((4 + 0) / 2, 2)
    assert value(numbers.block_efficiency) == (3 + 2 + 1) / 3


def test_matches_of_the_worked_trace() -> None:
    numbers = of(worked())
    assert numbers.branch_hit_rate is not None
    assert {k: (e.value, e.n) for k, e in numbers.branch_hit_rate.items()} == {1: (0.0, 1), 4: (1.0, 1)}
    assert value(numbers.branch_mass) == (0.75 + 0.25) / 2


def test_the_classifier_is_judged_where_the_verdict_tells() -> None:
    """Round 1 was cut where the draft model was unsure and all was kept: some or all, unknown. Round 2: some, not all.
    Round 3 kept nothing: unknown."""
    assert of(worked()).hrad_confusion == {2: {0: 0, 1: 1, 2: 0}}
    whole = [event for event in round_one() if not (isinstance(event, ev.DraftStep) and event.stopped)]
    assert of([whole]).hrad_confusion == {1: {0: 0, 1: 0, 2: 1}}, "nothing was cut off, and all was kept"


def test_a_first_token_rejected_was_a_draft_of_nothing() -> None:
    inside: list[Event] = [
        node(1, 0, -1, 11),
        *branches(1, 1, 1, 4, 12, 0, 11),
        ev.Signal(r=1, stage="draft", s=2, probs=[0, 0, 1], source="hrad"),
        step(1, 11, 0, 0.9),
        fork(1, 12, 1, 0.9, False, "cap"),
        ev.Settle(r=1, fates=[(0, "rejected"), *((k, "branch_void") for k in range(1, 5))], wasted_ns=5_000_000),
    ]
    numbers = of([frame(1, 11, inside, ["recovered"], 5, 0, 1)])
    assert numbers.hrad_confusion == {2: {0: 1, 1: 0, 2: 0}}
    assert value(numbers.rollback_rate) == value(numbers.rollback_rate_tokens) == 1
    assert numbers.wasted_draft_s == 0.005
    forced = [ev.Signal(r=1, stage="draft", s=2, source="forced") if isinstance(e, ev.Signal) else e for e in inside]
    assert of([frame(1, 11, forced, ["recovered"], 5, 0, 1)]).hrad_confusion is None, "nobody was asked"


def test_a_rejection_ends_a_run_also_where_nothing_new_was_drafted() -> None:
    verdict = ev.Verify(
        r=1, node=0, order=0, kind="test", logp=None, logq=None, thr=None, u=None, status="rejected", why="u_above"
    )
    records = frame(1, 11, [verdict, ev.Settle(r=1, fates=[(0, "rejected")])], ["recovered"], 0, 0, 1)
    numbers = of([round_one(), records])
    assert numbers.accepted_run_length is not None
    assert (numbers.accepted_run_length.value, numbers.accepted_run_length.n) == (3, 1)


def test_without_records_the_fate_of_pipelined_drafts_is_unknown() -> None:
    bare = make_header(level="none", method="specbranch", knobs={"gamma": 4})
    numbers = of([plain_round(1, 11, 6, 2)], header=bare)
    assert (numbers.rollback_rate, numbers.rollback_rate_tokens, numbers.wasted_draft_s) == (None, None, None)


def test_an_aborted_round_leaves_nothing() -> None:
    torn = [event for event in round_two() if not isinstance(event, ev.Commit | ev.RoundEnd)]
    assert of([round_one(), torn, *worked()[1:]]) == of(worked())


def test_the_modelled_clock_stands_apart() -> None:
    """15 draft forwards of 1 ms, c = 4: 6 tokens would have taken 24 ms plainly."""
    costs = Calibration(t_ns=1_000_000, c=4.0, kappa_q=0.0, kappa_p=0.0)
    numbers = of(worked(), costs)
    assert numbers.modelled is not None
    assert numbers.modelled.elapsed_s == pytest.approx(0.015)
    assert numbers.modelled.speedup == pytest.approx(24 / 15)
    assert numbers.modelled.bubble_target == pytest.approx(3 / 15)
    assert numbers.modelled.bubble_draft == pytest.approx(1 / 15)
    assert numbers.modelled.wasted_draft_s == pytest.approx(0.003 + 0.0045 + 0.004)
    plain = of(worked())
    assert plain.modelled is None, "nothing was measured to stand on"
    for name in ("bubble_target", "bubble_draft", "tokens_per_second", "wasted_draft_s"):
        assert getattr(numbers, name) == getattr(plain, name), "measured numbers do not change"


def climb(row: int, exit_layer: int | None, draft: int | None) -> LayerTrace:
    return LayerTrace(
        r=1,
        row=row,
        pos=4 + row,
        token=1,
        source="draft" if row else "root",
        exit_layer=exit_layer,
        terminal=exit_layer is None,
        draft_token=draft,
        raw_conf=None,
        layer_from=1,
        past_len=[],
        width=[],
        layer_ns=[],
        fill_after=[],
    )


def test_early_exit_by_hand() -> None:
    """Tokens 1 1 1 are committed. Stops at layers 2, 4 and 3 drafted 1, 1 and 9; the last row went to the top."""
    start, commit, end = plain_round(1, 5, 3, 2)
    cost = ExitRound(r=1, n_rows=4, layer_calls=6 + 9, cells=4 * 6, head_tests=7, saved_calls=3, wasted_cells=6)
    rows = [climb(0, 2, 1), climb(1, 4, 1), climb(2, 3, 9), climb(3, None, None)]
    header = make_header(level="summary", method="specbound", knobs={})
    numbers = of([[start, *rows, cost, commit, end]], header=header)
    assert value(numbers.layer_calls_per_token) == 15 / 3
    assert value(numbers.cells_per_token) == 24 / 3
    assert value(numbers.head_tests_per_token) == 7 / 3
    assert value(numbers.exit_rate) == 3 / 4
    assert value(numbers.mean_exit_layer) == (2 + 4 + 3) / 3
    assert value(numbers.draft_precision) == 2 / 3
    assert value(numbers.wrong_exit_rate) == 1 / 3
    assert numbers.rollback_rate is not None


def test_stops_behind_a_wrong_one_are_not_judged() -> None:
    start, commit, end = plain_round(1, 5, 2, 0)  # one token committed
    cost = ExitRound(r=1, n_rows=3, layer_calls=10, cells=18, head_tests=4, saved_calls=-4, wasted_cells=12)
    header = make_header(level="summary", method="specbound", knobs={})
    numbers = of([[start, climb(0, 2, 9), climb(1, 2, 1), climb(2, None, None), cost, commit, end]], header=header)
    assert value(numbers.draft_precision) == 0
    assert numbers.draft_precision is not None
    assert value(numbers.exit_rate) == 2 / 3


def test_the_target_alone_costs_all_its_layers_once_a_round() -> None:
    """Comparable with early exit; with a draft model beside it there is no such number."""
    target = ev.ModelInfo(name="t", n_layers=6)
    header = make_header(level="none", method="ar", knobs={}, models=ev.Models(target=target))
    rounds = [plain_round(r, 4 + r, 0, 0, closing="bonus") for r in (1, 2, 3)]
    numbers = of(rounds, header=header)
    assert value(numbers.layer_calls_per_token) == value(numbers.cells_per_token) == 6
    assert numbers.head_tests_per_token is None
    pair = make_header(level="none", models=ev.Models(target=target, draft=ev.ModelInfo(name="d")))
    assert of(rounds, header=pair).layer_calls_per_token is None
