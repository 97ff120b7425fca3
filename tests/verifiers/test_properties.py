"""Properties that hold for every verifier on every draft it takes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.probability.draft import ROOT, Draft
from specviz.probability.draws import Keys
from specviz.probability.plan import Draw, PlanStop, Test, Verifier
from specviz.probability.rows import CertainRows
from specviz.verifiers import all_verifiers, get_verifier
from specviz_lab.prove.enumerate import law_of
from verifiers.strategies import Case, cases, certain_as_array, fitted, padded, relabelled

NAMES = sorted(all_verifiers())
every = pytest.mark.parametrize("verifier", all_verifiers().values(), ids=NAMES)
relaxed = settings(deadline=None, max_examples=60)


def all_steps(plan: Any) -> list[Any]:
    """Every step that can be reached, thresholds 0 and 1 included."""
    open_, seen = [plan.start], set()
    while open_:
        state = open_.pop()
        if state in seen:
            continue
        seen.add(state)
        step = plan.step(state)
        if isinstance(step, Test):
            open_ += [step.kept] * (step.threshold > 0) + [step.failed] * (step.threshold < 1)
        elif isinstance(step, Draw):
            open_ += [state for _, state in step.edges.values()]
    return [plan.step(state) for state in seen]


@every
@relaxed
@given(case=cases())
def test_thresholds_and_rows_are_sound(verifier: Verifier, case: Case) -> None:
    """No NaN anywhere, thresholds in [0, 1], rows without negative entries and with mass."""
    case = fitted(verifier, case)
    for step in all_steps(verifier.plan(case.draft, case.rows)):
        if isinstance(step, Test):
            assert 0 <= step.threshold <= 1
            assert case.draft.tokens[step.node] < case.vocab
        elif isinstance(step, Draw):
            row = certain_as_array(step.row())
            assert np.isfinite(row).all()
            assert min(row) >= 0
            assert sum(row) > 0
        else:
            assert isinstance(step, PlanStop)
            assert not case.draft.has_row(step.node)


@every
@relaxed
@given(case=cases(), seed=st.integers(0, 1000))
def test_a_walk_ends_where_the_law_says(verifier: Verifier, case: Case, seed: int) -> None:
    """Each sampled outcome has probability, spells its accepted nodes, and follows parents from the root."""
    case = fitted(verifier, case)
    plan = verifier.plan(case.draft, case.rows)
    outcome = plan.walk(Keys(seed, 1), 3)
    spelled = tuple(case.draft.tokens[i] for i in outcome.accepted)
    assert plan.law()[spelled, outcome.closing] > 0
    assert [case.draft.parents[i] for i in outcome.accepted] == [ROOT, *outcome.accepted][: len(outcome.accepted)]
    assert (outcome.closing is None) == (bool(outcome.accepted) and not case.draft.has_row(outcome.stop))


@every
@relaxed
@given(case=cases(most=4))
def test_the_law_is_that_of_all_walks(verifier: Verifier, case: Case) -> None:
    """`law()` against every walk by enumeration; both sum to one."""
    case = fitted(verifier, case)
    plan = verifier.plan(case.draft, case.rows)

    def walked(branch: Any) -> Any:
        outcome = plan.walk(branch.keys(1), 3)
        return tuple(case.draft.tokens[i] for i in outcome.accepted), outcome.closing

    law = plan.law()
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    played_law = law_of(walked)
    assert max(abs(law.get(k, 0) - played_law.get(k, 0)) for k in law.keys() | played_law.keys()) < 1e-12


@every
@relaxed
@given(case=cases(), data=st.data())
def test_relabelling_commutes(verifier: Verifier, case: Case, data: Any) -> None:
    names = data.draw(st.permutations(range(case.vocab)))
    case = fitted(verifier, case)
    changed = relabelled(case, names)
    plan, other = verifier.plan(case.draft, case.rows), verifier.plan(changed.draft, changed.rows)
    expected = {
        (tuple(names[t] for t in text), None if closing is None else names[closing]): p
        for (text, closing), p in plan.law().items()
    }
    assert other.law() == pytest.approx(expected, abs=1e-12)


@every
@relaxed
@given(case=cases(), extra=st.integers(1, 3))
def test_padding_changes_nothing(verifier: Verifier, case: Case, extra: int) -> None:
    """Tokens with p = q = 0 beside the others: the same tests, the same law."""
    case = fitted(verifier, case)
    wide = padded(case, extra)
    plan, other = verifier.plan(case.draft, case.rows), verifier.plan(wide.draft, wide.rows)
    middle = case.vocab // 2
    names = [t if t < middle else t + extra for t in range(case.vocab)]
    expected = {
        (tuple(names[t] for t in text), None if closing is None else names[closing]): p
        for (text, closing), p in plan.law().items()
    }
    assert other.law() == pytest.approx(expected, abs=1e-12)


FORWARD = ("slack", "tokenwise", "multi_tokenwise")  # tests from the root on


@pytest.mark.parametrize("name", FORWARD)
@relaxed
@given(case=cases())
def test_siblings_are_tried_in_id_order(name: str, case: Case) -> None:
    """After a failed test of one sibling comes a test of a later id, or the closing draw."""
    verifier = get_verifier(name)
    case = fitted(verifier, case)
    plan = verifier.plan(case.draft, case.rows)
    ids = case.draft.ids
    for step in all_steps(plan):
        following = plan.step(step.failed) if isinstance(step, Test) and step.threshold < 1 else None
        if isinstance(following, Test) and case.draft.depths[following.node] == case.draft.depths[step.node]:
            assert ids[following.node] > ids[step.node]


@every
@relaxed
@given(case=cases())
def test_a_node_is_tested_once_on_every_way(verifier: Verifier, case: Case) -> None:
    """So no uniform is looked at twice; and no two nodes share one."""
    case = fitted(verifier, case)
    plan = verifier.plan(case.draft, case.rows)

    def follow(state: Any, seen: frozenset[int]) -> None:
        step = plan.step(state)
        if isinstance(step, Test):
            assert step.node not in seen
            for reached in [step.kept] * (step.threshold > 0) + [step.failed] * (step.threshold < 1):
                follow(reached, seen | {step.node})

    follow(plan.start, frozenset())
    tests = {step.node: step.ordinal for step in all_steps(plan) if isinstance(step, Test)}
    keys = {(case.draft.depths[node], ordinal) for node, ordinal in tests.items()}
    assert len(keys) == len(tests)


@every
@relaxed
@given(case=cases(), seed=st.integers(0, 100))
def test_torch_rows_give_the_same_plan(verifier: Verifier, case: Case, seed: int) -> None:
    torch = pytest.importorskip("torch")
    case = fitted(verifier, case)
    d = case.draft
    laws = None if d.law_rows is None else torch.tensor(d.law_rows)
    same = Draft(d.tokens, d.parents, d.ids, d.n_judged, d.n_fed, laws, d.row_of)
    plan, other = verifier.plan(d, case.rows), verifier.plan(same, torch.tensor(case.rows))
    assert other.law() == pytest.approx(plan.law(), abs=1e-12)
    ours, theirs = plan.walk(Keys(seed, 1), 3), other.walk(Keys(seed, 1), 3)
    assert (ours.accepted, ours.closing, ours.kind) == (theirs.accepted, theirs.closing, theirs.kind)


@pytest.mark.parametrize("verifier", [v for v in all_verifiers().values() if v.name != "slack"], ids=lambda v: v.name)
@relaxed
@given(case=cases())
def test_a_certain_target_is_greedy(verifier: Verifier, case: Case) -> None:
    """Temperature 0: the path of arg-max tokens is followed as far as it goes, whatever the draft was drawn from.

    `CertainRows` stands for the one-hot rows and gives the same. Rules that take candidate by candidate may end earlier
    where one candidate was kept whole or two spell alike, never elsewhere. (`slack` keeps wrong tokens by design.)
    """
    case = fitted(verifier, case)
    d = case.draft
    best = [int(t) for t in case.rows.argmax(1)]
    text: tuple[int, ...] = ()
    spelled = {d.path(i): i for i in sorted(d.judged, reverse=True)}  # a fed node stands for an unfed one
    while True:
        node = spelled.get(text, ROOT)
        if not d.has_row(node):
            expected = (text, None)
            break
        token = best[node + 1]
        if (*text, token) not in spelled:
            expected = (text, token)
            break
        text = (*text, token)
    one_hot = verifier.plan(d, np.eye(case.vocab)[best]).law()
    assert verifier.plan(d, CertainRows(tuple(best), case.vocab)).law() == pytest.approx(one_hot)
    [(tokens, prob)] = one_hot.items()
    assert prob == pytest.approx(1)
    if verifier.name in ("multi_hsd", "multi_traversal") and len(spelled) < len(d):
        whole = (*text, expected[1])
        assert (*tokens[0], tokens[1])[: len(whole)] == whole[: len(tokens[0]) + 1]
    else:
        assert tokens == expected


@every
@pytest.mark.parametrize("scale", [-200.0, 200.0])
def test_extreme_ratios_over_64_positions(verifier: Verifier, scale: float) -> None:
    """Log ratios of +-200 at every position of a long chain: finite, and decided as the ratio says."""
    gamma = 64
    tiny = np.exp(-200.0)
    low, high = np.array([tiny, 1 - tiny]), np.array([1.0, tiny])
    p, q = (high / high.sum(), low) if scale > 0 else (low, high / high.sum())
    ids = tuple(range(gamma))
    draft = Draft((0,) * gamma, tuple(range(-1, gamma - 1)), ids, gamma, gamma, np.stack([q] * gamma), ids)
    if verifier.refuses(draft) or verifier.name == "slack":  # which keeps a fourth of what it should not
        return
    law = verifier.plan(draft, np.stack([p] * (gamma + 1))).law()
    assert sum(law.values()) == pytest.approx(1)
    accepted = sum(len(text) * prob for (text, _), prob in law.items())
    assert accepted == pytest.approx(gamma if scale > 0 else 0, abs=1e-9)
