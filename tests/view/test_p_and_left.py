"""p is p everywhere; what failed siblings left of it, and which of several twins was judged, stand beside it."""

import pytest

from specviz import events as ev
from specviz.probability.philox import uniform
from specviz.view import Run
from view.small_rounds import a_round, closing, drawn, judged, log, node, panel, words


def rows(run: Run, i: int) -> dict[str, tuple[str, str]]:
    return {row.label: (row.value, row.note) for row in panel(run, i).rows}


def older(run: Run) -> Run:
    run.queries[0].v = (1, 1)
    return run


def test_a_draw_shows_p_and_the_share_of_what_a_sibling_leaves() -> None:
    """Issue 13.4: the row p said .364, which is .188 / (1 - .484)."""
    first, second = drawn(0, 0.889, (0.0, 0.484), 0), drawn(1, 0.889, (0.672, 0.86), 1, thr=0.188 / 0.516)
    last = closing("recovered", " x", interval=(0.86, 0.91))
    run = a_round(node(0, " self"), node(1, " return"), first, second, last, verifier="walk")
    assert rows(run, 1)["p  target"] == (".188", "")
    assert rows(run, 1)["R  residual"] == (".364", "after 1 rejected sibling")
    assert "R  residual" not in rows(run, 0)


@pytest.mark.parametrize("q", [None, 0.2])
def test_a_test_shows_both(q: float | None) -> None:
    """Issue 13.5: `logp` was the residual's, .054, where p is .033."""
    thr = 0.054 if q is None else 0.27
    second = judged(1, 0.033, 0.9, thr, 1, q=q, log_left=log(0.054))
    run = a_round(
        node(0, " a", q=q), judged(0, 0.1, 0.9, 0.4, 0, q=q), node(1, " b", q=q), second, closing("recovered", "c")
    )
    assert rows(run, 1)["p  target"] == (".033", "")
    assert rows(run, 1)["R  residual"] == (".054", "after 1 rejected sibling")
    assert ("R/q" in rows(run, 1)) == (q is not None)


def test_an_old_trace_does_not_call_the_residual_p() -> None:
    first = judged(0, 0.1, 0.9, 0.4, 0, q=0.25)
    old = [
        node(0, " a", q=0.25),
        first,
        node(1, " b", q=0.2),
        judged(1, 0.054, 0.9, 0.27, 1, q=0.2),
        closing("recovered", "c"),
    ]
    assert rows(older(a_round(*old)), 1)["p  target"] == ("—", "older trace")
    assert rows(older(a_round(*old)), 1)["R  residual"] == (".054", "after 1 rejected sibling")
    first.top = [(101, log(0.033) or 0.0), (7, log(0.02) or 0.0)]  # the row lists it
    assert rows(older(a_round(*old)), 1)["p  target"] == (".033", "")


@pytest.mark.parametrize("old", [False, True])
def test_twins_say_which_was_judged(old: bool) -> None:
    """Issue 13.7: the first was tested; the second, which spells the same, goes on and is the kept one."""
    u = uniform(0, "accept", 1, 10, 0)
    twins = [node(0, " a", q=0.5), node(1, " a", q=0.5)]
    twins[1].token = twins[0].token
    kept = judged(1, 0.6, u, 1.0, 0, q=0.5, judged=None if old else 0)
    left = ev.Verify(
        r=1,
        node=0,
        order=None,
        kind="test",
        logp=log(0.6),
        logq=log(0.5),
        thr=None,
        u=None,
        status="untested",
        why="sibling_kept",
    )
    run = a_round(*twins, left, kept, closing("bonus", "c", 1))
    run = older(run) if old else run
    assert rows(run, 1)["judged"] == ("n0", "its twin")
    assert rows(run, 0)["judged"] == ("here", "kept as twin n1")
    assert rows(run, 0)["u"][0] == rows(run, 1)["u"][0]
    assert words(run, 1).endswith("Its twin n0 spells the same text, and is the node that was judged.")
    assert words(run, 0).endswith("The text goes on from its twin n1.")


def test_a_later_candidate_is_not_told_with_the_ratio_of_the_plain_rows() -> None:
    """Issue 13.6: p .797, rank 1, and "impossible under the target", where earlier candidates left nothing of it."""
    first = [node(0, " a", q=0.9, cand=0), judged(0, 0.2, 0.9, 0.22, 0, q=0.9)]
    second = judged(1, 0.797, 0.5, 0.0, 1, "u_above", q=0.9, log_left=ev.ZERO)
    run = a_round(*first, node(1, " one", q=0.9, cand=1), second, closing("recovered", "c"), verifier="multi_hsd")
    assert words(run, 1) == (
        "Earlier candidates left nothing of ▁one (p .797) in the target's row: no draw can keep it. Nothing is kept."
    )
    assert rows(run, 1)["R  residual"] == ("0", "after candidates")
    assert "c  capped" not in rows(run, 1)


def test_slack_over_a_named_token_tells_p_and_not_its_keep_chance_as_p() -> None:
    run = a_round(node(0, " a"), judged(0, 0.01, 0.1, 0.26, 0), closing("bonus", "c", 0), verifier="slack")
    assert words(run, 0).startswith(
        "p is .010, and slack makes that a keep chance of .260 (not lossless: without slack"
    )
