"""The sentences of a backward scan, word for word, on the smallest drafts in which the thing happens."""

from typing import Any

import pytest

from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.why.closing_text import closing_words
from specviz.view.why.node_context import case
from specviz.view.why.values_text import node_words
from support.traces import make_events
from support.worked_trace import US, worked_events

# Case A with a third token of probability 0: the drafted token first. `HIGH`: p/q = 2, `LOW`: p/q = 1/2.
HIGH, LOW = ((2 / 3, 1 / 3, 0), (1 / 3, 2 / 3, 0)), ((1 / 3, 2 / 3, 0), (2 / 3, 1 / 3, 0))


def draft(*pairs: Any) -> dict[str, Any]:
    return {"p": (*(p for p, _ in pairs), LOW[0]), "q": tuple(q for _, q in pairs), "texts": (" a", " b", " c")}


def words(node: int, **worked: Any) -> str:
    run = fold(worked_events(**worked))
    round_tree = Player(run, animate=False).builder.round_tree(0)
    return node_words(case(run, round_tree, node))


def close(**worked: Any) -> str:
    run = fold(worked_events(**worked))
    return closing_words(run, Player(run, animate=False).builder.round_tree(0))


def test_kept_with_a_longer_prefix() -> None:
    assert words(0) == (
        "Kept with a longer prefix: the test at depth 4 passed. Alone it would have failed: .900 ≥ .123."
    )
    assert words(1) == "Kept with a longer prefix: the test at depth 4 passed."


def test_at_the_running_maximum() -> None:
    assert words(3) == (
        "The prefix that ends in ▁45 has the ratio 6.12, at its running maximum: kept for certain unless a longer one "
        "is. The scan stops here."
    )


def test_below_the_maximum() -> None:
    # c_1 = .82; below it .82 p - q = (-.436, .128, .128), so h_1 = .256/.436; c_2 = .82 / 3
    rows = {"p": ((0.41, 0.39, 0.20), (0.2, 0.4, 0.4), (0.2, 0.3, 0.5)), "q": ((0.5, 0.3, 0.2), (0.6, 0.2, 0.2))}
    assert words(0, us=(0.9, 0.9), **rows) == (
        "The prefix that ends in she has the joint ratio .820, so it carries weight .820. Its branch lacks .256 of "
        "target mass and has .436 too much draft mass: keep chance .256/.436 = .587. u .900 is not below it, so "
        "nothing is kept."
    )
    assert words(0, us=(0.5, 0.9), **rows).endswith("= .587. u .500 is below it. The scan stops here.")


def test_a_threshold_the_ratio_does_not_explain_stands_alone() -> None:
    """A later candidate is judged by other rows than the plain ones the ratio is of."""
    run = fold(worked_events())
    run.rounds[0].verdicts[3].thr = 0.7
    round_tree = Player(run, animate=False).builder.round_tree(0)
    assert node_words(case(run, round_tree, 3)) == (
        "The prefix that ends in ▁45 has accept probability 70 %. u .270 is below .700. The scan stops here."
    )


def test_impossible() -> None:
    assert words(5) == (
        "A token at or before ▁40 is impossible under the target: no draw can keep this prefix. A shorter prefix is "
        "tried."
    )


def test_the_last_position_takes_the_capped_ratio() -> None:
    assert words(1, us=(0.4, 0.6), **draft(HIGH, LOW)) == (
        "Last position: the keep chance is the capped ratio, .500 (it peaked at 2, position 1). u .600 is not below "
        "it, so a shorter prefix is tried."
    )
    assert words(1, us=(0.4, 0.1), **draft(HIGH, LOW)) == (
        "Last position: the keep chance is the capped ratio, .500 (it peaked at 2, position 1). u .100 is below it. "
        "The scan stops here."
    )


def test_the_reference_code_leaves_out_the_cap_and_says_so() -> None:
    assert words(1, verifier="hsd_ref", us=(0.4, 0.6), **draft(HIGH, LOW)) == (
        "Last position: this rule takes the uncapped ratio 1 where a lossless one takes c .500, so it keeps drafts it "
        "should not. The scan stops here."
    )
    assert "with and without the cap" in words(1, verifier="hsd_ref", us=(0.4, 0.6), **draft(LOW, LOW))


def test_a_branch_that_lacks_nothing() -> None:
    assert words(0, us=(0.4, 0.6), **draft(LOW, LOW)).endswith(
        "Its branch lacks no target mass, so a shorter prefix can do without it: keep chance 0. Nothing is kept."
    )


def test_naive_tells_of_the_rounds_to_come() -> None:
    assert words(3, verifier="hsd_naive") == (
        "The prefix that ends in ▁45 has the joint ratio 6.12, not below 1: kept for certain unless a longer one is. "
        "The scan stops here. Its ratio is not capped, so one carried round follows, with a target and a draft call "
        "of its own."
    )


@pytest.mark.parametrize(("verifier", "letter"), [("hsd", "c"), ("hsd_naive", "r")])
def test_the_closing_token_after_a_scan(verifier: str, letter: str) -> None:
    assert close(verifier=verifier).startswith(
        f"No prefix longer than ▁45 passed, so one token is drawn from what the target, weighted with {letter}, has "
        "more than the draft. It drew ▁hours, which had "
    )


def test_slack_says_what_it_adds() -> None:
    lucky = words(0, verifier="slack", us=US)
    assert lucky == (
        "p/q is .820, and slack makes that a keep chance of 1 (not lossless: without slack it would not be kept). "
        "This u accepts it."
    )
    zero = words(4, verifier="slack", us=US)
    assert "keep chance of .250" in zero
    assert zero.endswith("This u rejects it.")


def test_a_carried_round_is_explained() -> None:
    run = fold(make_events(temperature=0.8, verifier="hsd_naive", gamma=5, new_tokens=60, seed=2))
    index = next(record.index for record in run.rounds if record.start.carry is not None)
    sentences = closing_words(run, Player(run, animate=False).builder.round_tree(index))
    assert sentences.startswith("A carried round: the block of the last draft is written to its end")
    assert "max(0, R·p − q), R " in sentences


def test_an_infinite_ratio_is_the_plain_row() -> None:
    events = make_events(temperature=0.8, verifier="hsd_naive", gamma=5, new_tokens=60, seed=2)
    run = fold(events)
    index = next(record.index for record in run.rounds if record.start.carry is not None)
    run.rounds[index].start.carry = 1e9
    sentences = closing_words(run, Player(run, animate=False).builder.round_tree(index))
    assert "comes from the target's plain row" in sentences


def test_nothing_below_a_failed_prefix_counts_as_never_tested() -> None:
    run = fold(worked_events())
    player = Player(run, animate=False)
    round_tree = player.builder.round_tree(0)
    assert case(run, round_tree, 4).n_below == 0
    forward = fold(worked_events("tokenwise"))
    assert case(forward, Player(forward, animate=False).builder.round_tree(0), 0).n_below == 5


def test_the_why_panel_shows_the_prefix_and_its_test() -> None:
    at = Player(fold(worked_events()), animate=False)
    panel = at.frame(Options(selected=0)).why
    assert panel is not None
    rows = {row.label: (row.value, row.note) for row in panel.rows}
    assert rows["r  prefix"] == (".820", "p/q of all tokens up to here")
    assert rows["c  capped"] == (".820", "")
    assert rows["h"] == (".123", "")
    assert rows["u"] == (".900", "≥ .123")  # implied: its own comparison, which did not matter
    naive = Player(fold(worked_events("hsd_naive")), animate=False).frame(Options(selected=3)).why
    assert naive is not None
    assert {row.label for row in naive.rows} == {"q  draft", "p  target", "p/q", "r  prefix", "h", "u"}


@pytest.mark.parametrize(("verifier", "formula"), [("hsd", "c·p − q"), ("hsd_naive", "r·p − q")])
def test_the_residual_of_the_why_panel_names_its_weight(verifier: str, formula: str) -> None:
    panel = Player(fold(worked_events(verifier)), animate=False).frame(Options(selected=4)).why
    assert panel is not None
    assert panel.residual is not None
    assert formula in panel.residual.title
