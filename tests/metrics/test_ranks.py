"""Metrics of drafted trees whose shape follows predicted ranks: totals against the records, and small cases by hand."""

from collections import Counter
from typing import Any

import pytest

from specviz import events as ev
from specviz.events import Event, Expansion
from specviz.metrics import Metrics, Tally, measure
from specviz.metrics.ranks import known, needed, reach, seen
from support.rank_trace import rank_events
from support.traces import make_header


def expansion(bucket: int, best: int | None, **fields: Any) -> Expansion:
    """An expansion whose target token has rank `best`; at width 4 unless said otherwise."""
    true = None if best is None else sum(best > border for border in (1, 4, 10))
    settings = {
        "id": 0,
        "parent": -1,
        "block": 1,
        "slot": 0,
        "start": 0,
        "width": 4,
        "width_reason": "bucket",
        "n_children": 4,
        "true_rank_argmax": best,
        "true_bucket": true,
    }
    return Expansion(bucket=bucket, **{**settings, **fields})


def round_of(*records: Event, r: int = 1, n_emitted: int = 1, speedup: float | None = None) -> list[Event]:
    """A round of level summary with these records in it."""
    tree = ev.TreeMade(n_raw=4, n_merged=0, n_kept=4, widths=[], buckets=[], modelled_speedup=speedup)
    end = ev.RoundEnd(
        r=r,
        n_drafted=4,
        n_tested=1,
        n_accepted=n_emitted - 1,
        n_emitted=n_emitted,
        n_draft_calls=2,
        n_syncs=1,
        stage_ns={"draft": 1, "target": 1},
        probe_ns=0,
        draft_end="full",
        walk_end="leaf",
        cut=False,
    )
    return [ev.RoundStart(r=r, n=3, root=1, knob_version=0), *records, tree, end]


def measured(*rounds: list[Event]) -> Metrics:
    header = make_header(level="summary", method="specblock", knobs={"node_budget": 4})
    return measure([header, *(event for events in rounds for event in events)])


def confusion_total(confusion: dict[int, dict[int, int]]) -> int:
    return sum(count for row in confusion.values() for count in row.values())


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_confusion_counts_every_expansion_with_a_known_parent_row_once(temperature: float, seed: int) -> None:
    """Known is told from the nodes alone: the root's row and those of the nodes that were sent."""
    events = rank_events(temperature=temperature, seed=seed, queries=2, budget=10)
    kept = {(e.q, e.r, e.node) for e in events if isinstance(e, ev.Node) and e.kept}
    expansions = [e for e in events if isinstance(e, Expansion)]
    with_row = [e for e in expansions if e.parent == -1 or (e.q, e.r, e.parent) in kept]
    metrics = measure(events).bucket_confusion
    assert metrics is not None
    assert confusion_total(metrics["all_kept"]) == len(with_row)
    assert len(with_row) < len(expansions), "some hang below pruned nodes"
    pairs = Counter((e.true_bucket, e.bucket) for e in with_row)
    assert {(t, p): n for t, row in metrics["all_kept"].items() for p, n in row.items() if n} == pairs


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_path_has_its_own_counts(temperature: float) -> None:
    events = rank_events(temperature=temperature)
    metrics = measure(events).bucket_confusion
    assert metrics is not None
    on_path = [e for e in events if isinstance(e, Expansion) and e.on_path]
    assert 0 < confusion_total(metrics["on_path"]) == len(on_path) < confusion_total(metrics["all_kept"])


def test_coverage_asks_for_the_written_token_on_the_path() -> None:
    """Width 2: rank 2 written is covered though the target's best has rank 3; off the path nothing is counted."""
    here = {"on_path": True, "width": 2, "n_children": 2}
    metrics = measured(
        round_of(
            expansion(1, 3, true_rank_emitted=2, **here),
            expansion(1, 1, true_rank_emitted=3, id=1, **here),
            expansion(1, 1, true_rank_emitted=None, id=2, **here),
            expansion(1, 1, id=3, width=2, n_children=2),
            expansion(2, 1, true_rank_emitted=1, id=4, on_path=True, width=0, width_reason="give_up", n_children=1),
        )
    )
    assert metrics.coverage is not None
    assert {width: (e.value, e.n) for width, e in metrics.coverage.items()} == {2: (1 / 3, 3), 0: (1.0, 1)}


def test_what_every_width_would_have_covered() -> None:
    rows = [seen(expansion(1, best)) for best in (1, 2, 2, 5)] + [seen(expansion(3, None))]
    assert reach(rows, 5, written=False) == [0.25, 0.75, 0.75, 0.75, 1.0]
    assert len(known(rows)) == 4


def test_slots_are_judged_apart() -> None:
    metrics = measured(
        round_of(
            expansion(0, 1),
            expansion(1, 1, id=1),
            expansion(1, 3, id=2, slot=1),
            expansion(0, 2, id=3, block=2),
            expansion(0, None, id=4, block=2),
        )
    )
    accuracy = metrics.slot_accuracy
    assert accuracy is not None
    table = {
        (block, slot): (counts.top1.value, counts.bucket.value, counts.bucket.n)
        for block, slots in accuracy.items()
        for slot, counts in slots.items()
        if counts.top1 and counts.bucket
    }
    assert table == {(1, 0): (1.0, 0.5, 2), (1, 1): (0.0, 1.0, 1), (2, 0): (0.0, 0.0, 1)}
    assert metrics.bucket_accuracy is not None
    assert metrics.bucket_accuracy.value == 2 / 4


def test_the_modelled_speedup_adds_up_tokens_and_costs() -> None:
    """6 tokens at a cost of 2 passes (speed-up 3) and 1 at 2 (.5): 7 / 4, not the mean of the two."""
    metrics = measured(round_of(n_emitted=6, speedup=3.0), round_of(r=2, n_emitted=1, speedup=0.5))
    assert metrics.modelled_speedup is not None
    assert metrics.modelled_speedup.value == 7 / 4
    assert measured(round_of()).modelled_speedup is None, "no cost on record"


def test_blocks_and_depths_share_out_all_nodes() -> None:
    events = rank_events(temperature=0.8, queries=2)
    metrics = measure(events)
    for counts in (metrics.block_counts, metrics.depth_counts):
        assert counts is not None
        assert sum(count.nodes for count in counts.values()) == sum(isinstance(e, ev.Node) for e in events)
        assert sum(count.sent for count in counts.values()) == metrics.n_drafted
        assert sum(count.accepted for count in counts.values()) == metrics.n_accepted
        assert sum(count.tested for count in counts.values()) == metrics.n_tested
    assert metrics.block_counts is not None
    assert sum(count.calls for count in metrics.block_counts.values()) == metrics.n_draft_calls
    assert sum(count.starts for count in metrics.block_counts.values()) == sum(isinstance(e, ev.Block) for e in events)


def test_an_aborted_round_leaves_nothing() -> None:
    whole = round_of(expansion(0, 1))
    again = measured(round_of(expansion(3, 1))[:-1], whole)
    assert again.bucket_confusion == measured(whole).bucket_confusion
    assert again.block_counts == measured(whole).block_counts


def test_what_a_true_bucket_asks_for() -> None:
    assert [needed(bucket, [2, 4, 6]) for bucket in range(4)] == [1, 4, 6, 0]


def test_learning_is_summed_up() -> None:
    events = rank_events(queries=5, learns=True)
    steps = [e for e in events if isinstance(e, ev.Adapt)]
    metrics = measure(events).adapted
    assert metrics is not None
    assert metrics.n_queries == 5 == sum(metrics.actions.values()) == sum(metrics.reasons.values())
    assert metrics.n_reverted == sum(step.reverted for step in steps) > 0
    assert metrics.regret == pytest.approx(sum(step.regret or 0 for step in steps))
    assert (metrics.spent_s, metrics.budget_s, metrics.version) == (steps[-1].spent, steps[-1].budget, 4)
    assert measure(rank_events()).adapted is None


def test_a_summary_at_any_moment_is_that_of_the_rounds_so_far() -> None:
    events = rank_events(queries=2, learns=True)
    tally = Tally()
    for event in events:
        tally.add(event)
        if isinstance(event, ev.RoundEnd):
            tally.summary()
    assert tally.summary() == measure(events)


def test_layer_calls_are_not_counted_beside_a_drafter_of_its_own() -> None:
    """The target's passes alone would say nothing of what a token costs."""
    target = ev.Models(target=ev.ModelInfo(name="t", n_layers=4), draft=None)
    header = make_header(level="summary", method="specblock", knobs={}, models=target)
    assert measure([header, *round_of(expansion(0, 1))]).layer_calls_per_token is None
    plain = [event for event in round_of() if not isinstance(event, ev.TreeMade)]
    assert measure([header, *plain]).layer_calls_per_token is not None, "control"
