"""Folding event by event, with a look at every number in between, changes nothing."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.events import RoundEnd
from specviz.metrics import METRICS, Estimate, Tally, measure
from support.traces import Recipe, make_events

RECIPES = [
    Recipe(),
    Recipe(shape="none"),
    Recipe(shape="tree", temperature=1.0, queries=2),
    Recipe(temperature=1.0, queries=9, level="summary", new_tokens=8),
    Recipe(temperature=1.0, level="none"),
]


@settings(max_examples=12, deadline=None)
@given(recipe=st.sampled_from(RECIPES), seed=st.integers(0, 50), every=st.integers(1, 40))
def test_incremental_equals_whole(recipe: Recipe, seed: int, every: int) -> None:
    fields = {name: getattr(recipe, name) for name in recipe.__dataclass_fields__}
    events = make_events(Recipe(**{**fields, "seed": seed}))
    tally = Tally()
    for i, event in enumerate(events):
        tally.add(event)
        if i % every == 0:
            tally.summary()
    assert tally.summary() == measure(events)


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_the_numbers_of_a_real_stream_agree_with_each_other(recipe: Recipe) -> None:
    events = make_events(recipe)
    metrics = measure(events)
    ends = [event for event in events if isinstance(event, RoundEnd)]
    assert metrics.n_rounds == len(ends)
    assert metrics.n_emitted == sum(end.n_emitted for end in ends) == recipe.new_tokens * recipe.queries
    assert metrics.n_emitted - metrics.n_accepted <= metrics.n_rounds
    if metrics.accepted_histogram is not None:
        assert sum(metrics.accepted_histogram.values()) == metrics.n_blocks
        assert sum(j * blocks for j, blocks in metrics.accepted_histogram.items()) == metrics.n_accepted
    if metrics.depth_acceptance is not None:
        assert sum(e.n for e in metrics.depth_acceptance.values()) == metrics.n_tested
        assert round(sum(e.n * e.value for e in metrics.depth_acceptance.values())) == metrics.n_accepted


def test_the_levels_give_the_same_numbers_where_both_have_them() -> None:
    full, summary, none = (measure(make_events(temperature=1.0, level=level)) for level in ("full", "summary", "none"))
    assert {**full, "same_draft": None} == {**summary, "same_draft": None}
    assert full.same_draft != summary.same_draft  # other rules need whole rows: see test_same_draft
    per_node = {
        "survival",
        "position_acceptance",
        "depth_acceptance",
        "bubble_target",
        "bubble_draft",
        "wasted_draft_s",
        "same_draft",
    }
    differing = {name for name in METRICS if full[name] != none[name]}
    assert differing == per_node
    assert all(none[name] is None for name in per_node)


def test_metrics_go_through_json() -> None:
    metrics = measure(make_events(shape="tree"))
    report = msgspec.json.decode(msgspec.json.encode(metrics.as_dict()))
    assert list(report) == list(metrics)
    kinds = {name: type(value) for name, value in metrics.items() if not isinstance(value, dict)}
    kinds |= dict.fromkeys(("share_above", "survival", "position_acceptance", "depth_acceptance"), dict[int, Estimate])
    kinds |= {"stage_ms": dict[str, Estimate], "accepted_histogram": dict[int, int]}
    for name, kind in kinds.items():
        assert msgspec.convert(report[name], kind, strict=False) == metrics[name], name
