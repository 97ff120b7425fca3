"""Calibration of a draft: counted again from the events, and worked out by hand."""

import math

import pytest

from specviz.events import Node, Verify
from specviz.metrics import Tally
from specviz.metrics.draft_confidence import EDGES, TokenPosition, band_of
from support.judged import chain_round, judged_run, many
from support.traces import make_events


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_every_judged_token_on_a_right_prefix_counts_once(shape: str) -> None:
    events = make_events(shape=shape, temperature=0.8, new_tokens=60)
    bands = Tally().add_all(events).confidence.bands()
    nodes = {e.node: e for e in events if isinstance(e, Node)}
    verdicts = {e.node: e for e in events if isinstance(e, Verify)}
    counted = []
    for number, verdict in verdicts.items():
        before = verdicts.get(nodes[number].parent)
        if verdict.status in ("accepted", "rejected") and (before is None or before.status == "accepted"):
            q = nodes[number].logq if nodes[number].logq is not None else nodes[number].log_conf
            assert q is not None
            assert verdict.logp is not None
            counted.append((math.exp(q), math.exp(verdict.logp), verdict.status == "accepted"))
    assert sum(band.n for band in bands) == len(counted) > 10
    for band in bands:
        here = [row for row in counted if band.lo <= row[0] < band.hi or (band.hi == 1 and row[0] >= band.lo)]
        assert band.n == len(here)
        assert band.q == pytest.approx(sum(row[0] for row in here) / len(here), abs=1e-4)
        assert band.p == pytest.approx(sum(row[1] for row in here) / len(here), abs=1e-4)
        assert band.kept.value == sum(row[2] for row in here) / len(here)


def test_a_band_says_how_far_q_is_above_p() -> None:
    rounds = [chain_round(r, [0.8], r % 2, ps=[0.3 + 0.1 * (r % 2)]) for r in range(1, 11)]
    (band,) = Tally().add_all(judged_run(rounds)).confidence.bands()
    assert (band.lo, band.hi, band.n) == (0.75, 0.9, 10)
    assert band.gap.value == pytest.approx(0.45)
    assert band.gap.interval is not None
    assert 0.35 < band.gap.interval[0] < 0.45 < band.gap.interval[1] < 0.55
    assert band.kept.value == 0.5


def test_what_was_never_reached_says_nothing() -> None:
    tally = Tally().add_all(judged_run([chain_round(1, [0.95, 0.95, 0.95], 0)])).confidence
    assert sum(band.n for band in tally.bands()) == 1


def test_examples_are_remembered_and_bounded() -> None:
    tally = Tally().add_all(judged_run(many(200, [0.9, 0.6], [1], ps=[0.9, 0.2]))).confidence
    assert tally.lost_at.keys() == {2}
    assert tally.lost_at[2][0] == TokenPosition(0, 1, 101)
    assert len(tally.lost_at[2]) == len(tally.surest_lost) == 6


def test_rounds_without_a_draft_are_counted_from_the_newest_back() -> None:
    rounds = [chain_round(1, [0.5], 1), *(chain_round(r, [], 0) for r in range(2, 6))]
    tally = Tally().add_all(judged_run(rounds)).confidence
    assert (tally.n_idle, tally.idle_since) == (4, TokenPosition(0, 2))
    tally = Tally().add_all(judged_run([*rounds, chain_round(6, [0.5], 0)])).confidence
    assert (tally.n_idle, tally.idle_since) == (0, None)
    assert tally.empty == [TokenPosition(0, 6)]


def test_the_bands_cover_all_probabilities() -> None:
    assert [band_of(q) for q in (0.0, *EDGES, 1.0)] == [0, 1, 2, 3, 4, 5, 5]
