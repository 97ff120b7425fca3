"""Every metric on streams small enough for mental arithmetic; the arithmetic stands beside each number."""

import math

import pytest

from specviz.events import Event, Header, ModelInfo, Models, Node, RoundEnd, RoundStart, Span, Verify
from specviz.metrics import Metrics, Tally, measure
from support.traces import make_header, plain_round, plain_run

MS = 1_000_000


def chain_run() -> list[Event]:
    """One query, four rounds of gamma 4: accepted 2, 4, 0, 1; the last is cut by the limit, without a closing token."""
    return plain_run(
        [
            plain_round(1, 5, 4, 2, t=0, ms=10, stage_ms={"draft": 4, "target": 6}, probe_ms=1),
            plain_round(2, 8, 4, 4, t=10 * MS, ms=10, closing="bonus", stage_ms={"draft": 4, "target": 6}, probe_ms=1),
            plain_round(3, 13, 4, 0, t=20 * MS, ms=20, stage_ms={"draft": 5, "target": 15}, probe_ms=1),
            plain_round(
                4, 14, 2, 1, t=40 * MS, ms=10, closing=None, cut=True, stage_ms={"draft": 1, "target": 9}, probe_ms=2
            ),
        ]
    )


@pytest.fixture(scope="module")
def chain() -> Metrics:
    return measure(chain_run())


def value(estimate: object) -> float:
    assert estimate is not None
    number: float = estimate.value  # type: ignore[attr-defined]
    return number


def test_counts(chain: Metrics) -> None:
    assert (chain.n_queries, chain.n_rounds, chain.n_blocks, chain.n_cut) == (1, 4, 4, 1)
    assert chain.n_drafted == 4 + 4 + 4 + 2
    assert chain.n_accepted == 2 + 4 + 0 + 1
    assert chain.n_emitted == 3 + 5 + 1 + 1
    assert chain.n_tested == 3 + 4 + 1 + 1


def test_lengths(chain: Metrics) -> None:
    assert value(chain.mean_acceptance_length) == 10 / 4
    assert value(chain.mean_accepted) == 7 / 4
    assert value(chain.block_efficiency) == 10 / 4


def test_rates(chain: Metrics) -> None:
    assert value(chain.draft_acceptance_rate) == 7 / 14
    assert value(chain.test_acceptance_rate) == 7 / 9
    assert value(chain.rollback_rate) == 7 / 14  # (4-2 + 4-4 + 4-0 + 2-1) / 14
    assert value(chain.rollback_rate_tokens) == 7 / 14


def test_histogram_and_shares(chain: Metrics) -> None:
    assert chain.accepted_histogram == {0: 1, 1: 1, 2: 1, 3: 0, 4: 1}
    assert chain.share_above is not None
    # emitted 3, 5, 1, 1
    assert {w: e.value for w, e in chain.share_above.items()} == {1: 2 / 4, 2: 2 / 4, 3: 1 / 4, 4: 1 / 4, 5: 0}


def test_runs_between_rejections_cross_rounds(chain: Metrics) -> None:
    # 2, rejection; 4 (bonus, goes on) + 0, rejection; the open run of 1 is left out
    assert chain.accepted_run_length is not None
    assert (chain.accepted_run_length.value, chain.accepted_run_length.n) == ((2 + 4) / 2, 2)


def test_a_run_of_accepted_tokens_ends_with_its_query() -> None:
    # query 0: 2, rejection; 3 (bonus), left open. query 1: 1, rejection: its run begins anew
    rounds = [plain_round(1, 5, 4, 2), plain_round(2, 8, 3, 3, closing="bonus"), plain_round(1, 5, 4, 1, q=1)]
    lengths = measure(plain_run(rounds)).accepted_run_length
    assert lengths is not None
    assert (lengths.value, lengths.n) == ((2 + 1) / 2, 2)


def test_times(chain: Metrics) -> None:
    assert value(chain.tokens_per_second) == pytest.approx(10 / 0.050)
    assert value(chain.time_to_first_token_s) == pytest.approx(
        0.010 + 0.010
    )  # prefill 10 ms ends at 0, first commit at 10 ms
    assert value(chain.round_ms) == 10
    assert {name: e.value for name, e in chain.stage_ms.items()} == {"prefill": 10, "draft": 4, "target": (6 + 9) / 2}
    assert value(chain.drafting_share) == pytest.approx((4 + 4 + 5 + 1) / 50)
    assert value(chain.overhead) == pytest.approx((1 + 1 + 1 + 2) / (50 - 5))


def test_delta_interval_of_a_ratio_by_hand(chain: Metrics) -> None:
    # R = 7/14 = 1/2; accepted - R drafted = 0, 2, -2, 0; k/(k-1) sum of squares = 4/3 * 8; / sum drafted 14
    half = 1.959963984540054 * math.sqrt(4 / 3 * 8) / 14
    assert chain.draft_acceptance_rate is not None
    assert chain.draft_acceptance_rate.interval == pytest.approx((0.5 - half, 0.5 + half))
    assert chain.draft_acceptance_rate.n == 4


def test_level_none_knows_nothing_per_position(chain: Metrics) -> None:
    assert (chain.survival, chain.position_acceptance, chain.depth_acceptance) == (None, None, None)
    assert (chain.wasted_draft_s, chain.bubble_target, chain.overlap_efficiency) == (None, None, None)


def test_plain_decoding_has_no_drafts() -> None:
    rounds = [plain_round(r, 4 + r, 0, 0, closing="bonus", t=r * 2 * MS) for r in range(1, 6)]
    metrics = measure(plain_run(rounds, method="ar", knobs={}))
    assert value(metrics.mean_acceptance_length) == value(metrics.block_efficiency) == 1
    for name in (
        "mean_accepted",
        "draft_acceptance_rate",
        "test_acceptance_rate",
        "rollback_rate",
        "rollback_rate_tokens",
        "accepted_run_length",
        "drafting_share",
        "accepted_histogram",
        "share_above",
        "survival",
    ):
        assert getattr(metrics, name) is None, name


def test_carried_rounds_belong_to_the_block_before_them() -> None:
    # gamma 4: a stop after 1 carries two rounds of one recovered token each; then a block that keeps everything
    rounds = [
        plain_round(1, 5, 4, 1),
        plain_round(2, 7, 0, 0, carry=0.3),
        plain_round(3, 8, 0, 0, carry=0.1),
        plain_round(4, 9, 4, 4, closing="bonus"),
    ]
    metrics = measure(plain_run(rounds, verifier="hsd_naive"))
    assert (metrics.n_rounds, metrics.n_blocks) == (4, 2)
    assert value(metrics.mean_acceptance_length) == (4 + 5) / 2  # 2 + 1 + 1, then 5
    assert value(metrics.block_efficiency) == 9 / 4
    assert metrics.accepted_histogram == {0: 0, 1: 1, 2: 0, 3: 0, 4: 1}
    assert metrics.test_acceptance_rate is None, "a backward scan accepts what it never tested"
    # one rejection ended the first run; the carried rounds draft nothing and end none
    assert metrics.accepted_run_length is not None
    assert (metrics.accepted_run_length.value, metrics.accepted_run_length.n) == (1, 1)


def test_an_aborted_round_leaves_nothing() -> None:
    events = chain_run()
    begun = RoundStart(q=0, r=4, t=30 * MS, n=14, root=1, knob_version=0)
    with_abort = [*events[:11], begun, *events[11:]]
    assert measure(with_abort) == measure(events)


def test_time_of_a_round_without_a_clock_is_that_of_its_stages() -> None:
    rounds = [plain_round(1, 5, 4, 2, stage_ms={"target": 7})]
    rounds[0][0].t = rounds[0][1].t = rounds[0][2].t = 0
    assert value(measure(plain_run(rounds)).round_ms) == 7


# ---- with nodes: two rounds on a chain of three, one on a small tree ------------------------------------------------


def node(r: int, number: int, parent: int, depth: int, n: int) -> Node:
    return Node(r=r, node=number, parent=parent, depth=depth, pos=n - 1 + depth, token=1, text="a")


def verdict(r: int, number: int, status: str, order: int | None) -> Verify:
    fields = {"kind": "test", "logp": -1.0, "logq": None, "thr": 0.5, "u": 0.1, "why": "kept"}
    return Verify(r=r, node=number, status=status, order=order, **fields)  # type: ignore[arg-type]


def with_nodes(records: list[Event], events: list[Event]) -> list[Event]:
    return [records[0], *events, *records[1:]]


def level_summary(rounds: list[list[Event]], **header: object) -> list[Event]:
    return plain_run(rounds, **{"level": "summary", **header})


def chain_of_three(r: int, n: int, first: int, kept: int, t: int = 0) -> list[Event]:
    """Three drafted, `kept` accepted, the next rejected, the rest untested."""
    fates = [("accepted", k) if k < kept else ("rejected", k) if k == kept else ("untested", None) for k in range(3)]
    events: list[Event] = [node(r, first + k, first + k - 1 if k else -1, k + 1, n) for k in range(3)]
    events += [verdict(r, first + k, status, order) for k, (status, order) in enumerate(fates)]
    return with_nodes(plain_round(r, n, 3, kept, t=t, closing="bonus" if kept == 3 else "recovered"), events)


def test_positions_on_a_chain_by_hand() -> None:
    metrics = measure(
        level_summary([chain_of_three(1, 5, 0, 3), chain_of_three(2, 9, 3, 1), chain_of_three(3, 11, 6, 0)])
    )
    # position 1: tested 3, kept 2; position 2: tested in rounds 1 and 2, kept once; position 3: tested once, kept once
    expected = {1: (2 / 3, 3), 2: (1 / 2, 2), 3: (1.0, 1)}
    for rates in (metrics.position_acceptance, metrics.depth_acceptance):
        assert rates is not None
        assert {t: (e.value, e.n) for t, e in rates.items()} == expected
    # survival: all three drafts are three deep; kept at least 1, 2, 3: rounds 1+2, 1, 1
    assert metrics.survival is not None
    assert {t: (e.value, e.n) for t, e in metrics.survival.items()} == {1: (2 / 3, 3), 2: (1 / 3, 3), 3: (1 / 3, 3)}
    assert value(metrics.rollback_rate) == (0 + 2 + 3) / 9


def tree_round() -> list[Event]:
    """Root children 0, 1, 2; 3 and 4 below 1. 0 rejected, 1 kept, 2 untested; 3 and 4 rejected."""
    shape = [(0, -1, 1), (1, -1, 1), (2, -1, 1), (3, 1, 2), (4, 1, 2)]
    fates = [("rejected", 0), ("accepted", 1), ("untested", None), ("rejected", 2), ("rejected", 3)]
    events: list[Event] = [node(1, number, parent, depth, 5) for number, parent, depth in shape]
    events.append(Node(r=1, node=9, parent=2, depth=2, pos=6, token=1, text="a", kept=False, fed=False))
    events += [verdict(1, k, status, order) for k, (status, order) in enumerate(fates)]
    events.append(
        Verify(
            r=1, node=9, order=None, kind="test", logp=None, logq=None, thr=None, u=None, status="pruned", why="budget"
        )
    )
    return with_nodes(plain_round(1, 5, 5, 1, n_tested=4), events)


def test_positions_and_depths_part_on_a_tree() -> None:
    metrics = measure(level_summary([tree_round()], knobs={"shape": "tree"}))
    assert metrics.position_acceptance is not None
    assert metrics.depth_acceptance is not None
    assert {t: (e.value, e.n) for t, e in metrics.position_acceptance.items()} == {1: (1.0, 1), 2: (0.0, 1)}
    assert {d: (e.value, e.n) for d, e in metrics.depth_acceptance.items()} == {1: (1 / 2, 2), 2: (0.0, 2)}
    assert value(metrics.draft_acceptance_rate) == 1 / 5
    assert metrics.rollback_rate is None, "a tree has no one path"
    assert value(metrics.rollback_rate_tokens) == 4 / 5


def test_a_tree_is_seen_without_a_knob_that_says_so() -> None:
    assert measure(level_summary([tree_round()], knobs={})).rollback_rate is None
    assert measure(level_summary([chain_of_three(1, 5, 0, 1)], knobs={})).rollback_rate is not None
    assert measure(plain_run([plain_round(1, 5, 3, 1)], knobs={"gamma": 3})).rollback_rate is not None
    assert measure(plain_run([plain_round(1, 5, 3, 1)], knobs={})).rollback_rate is None, "unknown at level none"


def test_a_pending_node_counts_at_the_depth_it_is_judged_at() -> None:
    # Node 2 was drafted in round 1 at position 7 (depth 3 below n = 5), and is judged in round 2 from n = 7: depth 1.
    first = with_nodes(plain_round(1, 5, 3, 1), [node(1, k, k - 1, k + 1, 5) for k in range(3)])
    second = with_nodes(plain_round(2, 7, 0, 1), [verdict(2, 2, "accepted", 0)])
    metrics = measure(level_summary([first, second]))
    assert metrics.depth_acceptance is not None
    assert {d: (e.value, e.n) for d, e in metrics.depth_acceptance.items()} == {1: (1.0, 1)}


def test_lanes_by_hand() -> None:
    # One round of 10 ms: target busy 6, draft busy 5; a modelled span is no measurement. Of 3 ms of drafting, two of
    # three tokens were for nothing.
    spans: list[Event] = [
        Span(r=1, lane="target", name="t", t0=0, dur_ns=6 * MS),
        Span(r=1, lane="draft", name="d", t0=0, dur_ns=3 * MS),
        Span(r=1, lane="draft", name="d", t0=0, dur_ns=2 * MS, void=True),
        Span(r=1, lane="target", name="m", t0=0, dur_ns=50 * MS, clock="model"),
    ]
    rounds = [
        with_nodes(
            plain_round(1, 5, 3, 1, ms=10, stage_ms={"draft": 3, "target": 6}),
            [*chain_of_three(1, 5, 0, 1)[1:7], *spans],
        )
    ]
    metrics = measure(level_summary(rounds, lanes="streams"))
    assert metrics.bubble_target == pytest.approx(1 - 6 / 10)
    assert metrics.bubble_draft == pytest.approx(1 - 5 / 10)
    assert metrics.overlap_efficiency == pytest.approx((5 + 6 - 10) / 5)
    assert metrics.wasted_draft_s == pytest.approx(0.002)
    assert measure(level_summary(rounds, lanes="serial")).overlap_efficiency is None
    alone = measure(level_summary(rounds, lanes="threads", models=Models(target=ModelInfo(name="t"))))
    of_lanes = (alone.bubble_target, alone.bubble_draft, alone.overlap_efficiency, alone.wasted_draft_s)
    assert of_lanes == (None,) * 4, "one model alone"


def test_a_backward_scan_shows_survival_only() -> None:
    metrics = measure(level_summary([chain_of_three(1, 5, 0, 2)], verifier="hsd"))
    assert (metrics.position_acceptance, metrics.depth_acceptance, metrics.test_acceptance_rate) == (None, None, None)
    assert metrics.survival is not None


def test_nothing_yet() -> None:
    empty = measure([])
    assert empty.n_rounds == 0
    assert empty.mean_acceptance_length is None
    assert empty.stage_ms == {}
    header: Header = make_header()
    assert measure([header]) == empty


def test_only_finished_rounds_count() -> None:
    events = chain_run()
    place = next(i for i, e in enumerate(events) if isinstance(e, RoundEnd))
    tally = Tally().add_all(events[:place])
    assert tally.summary().n_rounds == 0
    tally.add(events[place])
    assert tally.summary().n_rounds == 1
