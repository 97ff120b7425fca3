"""What `walk` and `tokenwise` do step by step: streams, ordinals, kinds, residuals, refusals."""

import numpy as np
import pytest

from specviz.errors import SpecvizError
from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Keys
from specviz.probability.plan import Draw, PlanStop, Test, Verifier
from specviz.verifiers import all_verifiers, get_verifier

WALK, TOKENWISE = get_verifier("walk"), get_verifier("tokenwise")
P = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
Q = np.array([[0.25, 0.5, 0.25], [0.5, 0.0, 0.5]])


def drawn_chain(tokens: tuple[int, ...], n_fed: int | None = None) -> Draft:
    n = len(tokens)
    fed = n if n_fed is None else n_fed
    return Draft(tokens, tuple(range(-1, n - 1)), tuple(range(n)), fed, fed, Q[:n], tuple(range(n)))


def siblings(*tokens: int) -> Draft:
    n = len(tokens)
    return Draft(tokens, (-1,) * n, tuple(range(n)), n, n, row_of=(-1,) * n)


def test_registry() -> None:
    assert {"walk", "tokenwise"} <= set(all_verifiers())
    assert all(name == verifier.name for name, verifier in all_verifiers().items())
    assert WALK.keeps_tokens
    assert not TOKENWISE.keeps_tokens
    with pytest.raises(SpecvizError, match="did you mean 'tokenwise'"):
        get_verifier("tokenwize")


def test_tokenwise_thresholds_and_rows() -> None:
    plan = TOKENWISE.plan(drawn_chain((1, 0)), P)
    first = plan.step(plan.start)
    assert isinstance(first, Test)
    assert (first.node, first.threshold, first.p, first.q) == (0, 0.6, 0.3, 0.5)
    second, failed = plan.step(first.kept), plan.step(first.failed)
    assert isinstance(second, Test)
    assert isinstance(failed, Draw)
    assert second.threshold == 1
    assert (failed.node, failed.stream, failed.kind, failed.fallback) == (ROOT, "residual", "recovered", False)
    assert failed.row() == pytest.approx([1, 0, 0])  # (p - q)+ = .25, 0, 0
    last = plan.step(second.kept)
    assert isinstance(last, Draw)
    assert (last.node, last.stream, last.kind) == (1, "target", "bonus")
    assert last.row() == pytest.approx(P[2])


def test_point_masses_leave_the_row_one_by_one() -> None:
    """As a screen shows it: p(c) over what the earlier siblings left."""
    plan = TOKENWISE.plan(siblings(2, 0), P)
    first = plan.step(plan.start)
    second = plan.step(first.failed)  # type: ignore[union-attr]
    assert (first.threshold, first.q, second.threshold) == (0.2, None, pytest.approx(0.5 / 0.8))  # type: ignore[union-attr]
    assert plan.step(second.failed).row() == pytest.approx([0, 1, 0])  # type: ignore[union-attr]


def test_ordinals_count_the_judged_nodes_of_a_depth_in_id_order() -> None:
    """Two at depth 1, three at depth 2; feed order differs from id order."""
    draft = Draft((0, 1, 0, 1, 2), (-1, -1, 0, 0, 1), (1, 0, 4, 2, 3), 5, 5, row_of=(-1,) * 5)
    plan = TOKENWISE.plan(draft, np.full((6, 3), 1 / 3))
    seen, open_ = {}, [plan.start]
    while open_:
        step = plan.step(open_.pop())
        if isinstance(step, Test):
            seen[step.node] = step.ordinal
            open_ += [step.kept, step.failed]
    assert seen == {1: 0, 0: 1, 3: 0, 4: 1, 2: 2}


def test_walk_follows_edges_and_names_the_kind() -> None:
    plan = WALK.plan(siblings(2, 0), P)
    root = plan.step(plan.start)
    assert isinstance(root, Draw)
    assert {token: node for token, (node, _) in root.edges.items()} == {2: 0, 0: 1}
    assert (root.stream, root.kind) == ("target", "recovered")
    leaf = plan.step(root.edges[2][1])
    assert isinstance(leaf, Draw)
    assert (leaf.node, leaf.edges, leaf.kind) == (0, {}, "bonus")
    assert leaf.row().tolist() == P[1].tolist()


@pytest.mark.parametrize("verifier", [WALK, TOKENWISE], ids=lambda v: v.name)
def test_a_kept_stop_token_closes_with_none(verifier: Verifier) -> None:
    plan = verifier.plan(drawn_chain((0, 2), n_fed=1), P[:2])
    outcomes = {outcome for outcome, prob in plan.law().items() if prob}
    assert ((0, 2), None) in outcomes
    assert not any(text == (0, 2) and closing is not None for text, closing in outcomes)


@pytest.mark.parametrize("verifier", [WALK, TOKENWISE], ids=lambda v: v.name)
def test_an_empty_draft_is_plain_decoding(verifier: Verifier) -> None:
    """gamma 0: the target stream, so the very token of plain decoding."""
    plan = verifier.plan(Draft(), P[:1])
    for n in range(30):
        outcome = plan.walk(Keys(5, n), n)
        assert outcome.closing == Keys(5, 99).draw("target", n, P[0]).token
        assert (outcome.accepted, outcome.kind) == ((), "bonus")


def test_a_bonus_token_is_that_of_plain_decoding() -> None:
    """Drawn with the target stream at its position, under tokenwise too."""
    plan = TOKENWISE.plan(drawn_chain((0, 0)), P)
    seen = 0
    for r in range(60):
        outcome = plan.walk(Keys(5, r), 7)
        if len(outcome.accepted) == 2:
            assert outcome.closing == Keys(5, 0).draw("target", 9, P[2]).token
            seen += 1
    assert seen > 10


def test_a_residual_without_mass_falls_back_to_the_plain_row() -> None:
    """Rows that coincide: the test passes for certain, and rounding cannot leave the draw without a row."""
    draft = Draft((0,), (-1,), (0,), 1, 1, P[:1], (0,))
    plan = TOKENWISE.plan(draft, P[:2])
    first = plan.step(plan.start)
    assert isinstance(first, Test)
    assert first.threshold == 1
    failed = plan.step(first.failed)
    assert isinstance(failed, Draw)
    assert failed.fallback
    assert failed.row().tolist() == P[0].tolist()


def test_a_drafted_token_its_law_never_gives_is_rejected() -> None:
    """q(x) = 0 breaks the contract; the kernel must not turn it into infinity."""
    plan = TOKENWISE.plan(Draft((1,), (-1,), (0,), 1, 1, Q[1:], (0,)), P[:2])
    assert plan.step(plan.start).threshold == 0  # type: ignore[union-attr]


def test_refusals() -> None:
    shared = Draft((0,), (-1,), (0,), 1, 1, Q[:1], (0,), shared=True)
    assert "walk" in (TOKENWISE.refuses(shared) or "")
    assert WALK.refuses(shared) is None
    for draft in (Draft(), siblings(1, 2), drawn_chain((1, 0))):
        assert TOKENWISE.refuses(draft) is None


def test_two_accepted_branch_tokens_end_at_one_stop() -> None:
    """Unfed siblings that spell the same: either test leads to the same stop."""
    draft = Draft((1, 1), (-1, -1), (0, 1), 0, 0, row_of=(-1, -1))
    plan = TOKENWISE.plan(draft, P[:1])
    first = plan.step(plan.start)
    assert isinstance(plan.step(first.kept), PlanStop)  # type: ignore[union-attr]
    assert plan.law() == pytest.approx({((1,), None): 0.3, ((), 0): 0.5, ((), 2): 0.2})


@pytest.mark.parametrize("verifier", [WALK, TOKENWISE], ids=lambda v: v.name)
def test_an_unfed_node_spelled_like_a_fed_one_goes_on_from_there(verifier: Verifier) -> None:
    """The unfed one has the lower id and is tried first; the row is there all the same, so nothing ends at it."""
    draft = Draft((1, 1), (-1, -1), (1, 0), 1, 1, row_of=(-1, -1))
    law = verifier.plan(draft, P[:2]).law()
    assert ((1,), None) not in law
    assert law == pytest.approx({((), 0): 0.5, ((), 2): 0.2, **{((1,), t): 0.3 * P[1][t] for t in range(3)}})


def test_other_names_are_the_rule_itself() -> None:
    """One plan under each name; what differs is declared with the name."""
    aliases = {alias.name: rule for rule in all_verifiers().values() for alias in rule.aliases}
    assert {name: rule.name for name, rule in aliases.items()} == {
        "hsd": "blockwise",
        "multi_tokenwise": "tokenwise",
        "tree_hsd": "walk",
        "tree_tokenwise": "walk",
    }
    for name, rule in aliases.items():
        other = get_verifier(name)
        assert other.plan is rule.plan
        assert other.traits.same_rule_as == rule.name
        assert (other.lossless, other.keeps_tokens) == (rule.lossless, rule.keeps_tokens)
        assert other.help != rule.help
        assert not other.aliases
