"""Three verifiers on the same drafts: golden numbers of case A, the real verifiers as the judge, the intervals."""

import math
from itertools import product
from typing import Any

import pytest

from specviz import events as ev
from specviz.metrics import measure
from specviz.metrics.replay_rules import ChainPosition, DraftReplay, kept, links, same_draft, survival
from specviz.probability.draft import Draft
from specviz.probability.draws import Keys
from specviz.traits import RULES
from specviz.verifiers import get_verifier
from support.table import Recipe, Run, draft_of, target_rows
from support.traces import make_events, plain_round, plain_run
from support.verdicts import chains
from support.worked_trace import worked_events

# Case A, gamma 2: p = (1/3, 2/3), q = (2/3, 1/3); rows are written with the drafted token first.
DRAWN = {0: ((1 / 3, 2 / 3, 0), (2 / 3, 1 / 3, 0)), 1: ((2 / 3, 1 / 3, 0), (1 / 3, 2 / 3, 0))}


def case_a(first: int, second: int, verifier: str = "hsd") -> list[ev.Event]:
    """The draft `first second` of case A."""
    (p1, q1), (p2, q2) = DRAWN[first], DRAWN[second]
    return worked_events(verifier, us=(0.5, 0.5), p=(p1, p2, p1), q=(q1, q2), texts=("a", "b"))


def test_means_over_all_drafts_are_the_golden_numbers() -> None:
    """What is expected of each draft and what is estimated from it have one mean under the law of the drafts."""
    golden = pytest.approx({"tokenwise": 10 / 9, "hsd": 11 / 9, "hsd_naive": 12 / 9}, abs=1e-5)
    expected, estimated = dict.fromkeys(RULES, 0.0), dict.fromkeys(RULES, 0.0)
    for first, second in product((0, 1), repeat=2):
        weight = DRAWN[first][1][0] * DRAWN[second][1][0]  # Q of the draft
        metrics = measure(case_a(first, second)).same_draft
        assert metrics is not None
        for rule in RULES:
            expected[rule] += weight * (metrics.expected_accepted[rule] or 0.0)
            estimated[rule] += weight * metrics.estimated_accepted[rule]
    assert (expected, estimated) == (golden, golden)


@pytest.mark.parametrize("rule", RULES)
def test_what_is_expected_of_a_draft_is_what_its_verifier_keeps_on_average(rule: str) -> None:
    """Against every outcome that the production verifier has on exactly this draft, with its probability."""
    apart = 0
    for seed in range(20):
        draft, rows, chain = _judged(seed, gamma=3)
        exact = sum(len(path) * float(p) for (path, _), p in get_verifier(rule).plan(draft, rows).law().items())
        chances = survival(chain, rule)  # type: ignore[arg-type]
        assert chances is not None
        assert sum(chances) == pytest.approx(exact, abs=1e-4)
        assert chances == tuple(sorted(chances, reverse=True))  # a chance of at least so many
        apart += abs(exact - sum(link.credit[rule] for link in chain)) > 0.01  # type: ignore[index]
    assert (apart > 0) == (rule != "tokenwise")  # a joint rule looks at what is drafted behind


def test_a_credit_is_the_mean_over_all_that_may_be_drafted_behind() -> None:
    for first in (0, 1):
        tails = {second: measure(case_a(first, second)).same_draft for second in (0, 1)}
        for rule in ("hsd", "hsd_naive"):
            mean = sum(DRAWN[s][1][0] * (by_tail.survival[rule] or {})[1] for s, by_tail in tails.items() if by_tail)
            credits = {
                by_tail.estimated_accepted[rule] - _behind(first, s, rule) for s, by_tail in tails.items() if by_tail
            }
            assert [*credits] == pytest.approx([mean] * len(credits), abs=1e-5)


def _behind(first: int, second: int, rule: str) -> float:
    """The credit of both tokens of case A."""
    ratios = [2.0 if token else 0.5 for token in (first, second)]
    r = ratios[0] * ratios[1]
    return min(1.0, r if rule == "hsd_naive" else min(1.0, ratios[0]) * ratios[1])


@pytest.mark.parametrize(
    ("draft", "hsd", "naive"),
    [
        ((0, 0), (0, 1 / 4), (0, 1 / 4)),
        ((0, 1), (0, 1), (0, 1)),
        ((1, 0), (1, 1 / 2), (1, 1)),
        ((1, 1), (1, 1), (1, 1)),
    ],
)
def test_keep_chances_of_case_a(draft: tuple[int, int], hsd: tuple[float, ...], naive: tuple[float, ...]) -> None:
    events = case_a(*draft, verifier="hsd_ref")  # a rule that is none of the three: nothing is taken from its verdicts
    chances = links(
        [e for e in events if isinstance(e, ev.Node)],
        {e.node: e for e in events if isinstance(e, ev.Verify)},
        {e.node: e for e in events if isinstance(e, ev.Chain)},
        None,
        (0, 37),
    )
    assert [link.keep["hsd"] for link in chances] == pytest.approx(hsd, abs=1e-5)
    assert [link.keep["hsd_naive"] for link in chances] == pytest.approx(naive, abs=1e-5)
    ratios = [2.0 if token else 0.5 for token in draft]
    assert [link.keep["tokenwise"] for link in chances] == pytest.approx([min(1, rho) for rho in ratios], abs=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_a_replay_is_what_the_verifier_would_have_done(rule: str) -> None:
    """The same draft and keys, judged by the production verifier itself. 60 drafts of 5 over rows of 16 tokens."""
    differ = 0
    for seed in range(60):
        draft, rows, chain = _judged(seed, gamma=5)
        outcome = get_verifier(rule).plan(draft, rows).walk(Keys(seed, 3), len(_TEXT))
        assert kept(chain, rule) == len(outcome.accepted)  # type: ignore[arg-type]
        differ += kept(chain, rule) != kept(chain, "tokenwise")
    assert differ > 5 or rule == "tokenwise"  # the comparison compares something


_TEXT = [6, 7, 8, 9, 10, 5]


def _judged(seed: int, gamma: int) -> tuple[Draft, Any, tuple[ChainPosition, ...]]:
    """A drawn chain behind a text, the target's rows over it, and its links as they are recorded."""
    run = Run(Recipe(temperature=0.9, verifier="hsd", gamma=gamma, noise=0.7))
    run.tokens = list(_TEXT)
    draft, born = draft_of(run, Keys(seed, 3), 9)
    rows = target_rows(run, draft)
    verdicts = {
        draft.ids[i]: ev.Verify(
            node=draft.ids[i],
            order=None,
            kind="draw",
            logp=ev.log6(float(rows[draft.parents[i] + 1][t])),
            logq=None,
            thr=None,
            u=None,
            status="untested",
            why="length",
        )
        for i, t in enumerate(draft.tokens)
    }
    nodes = [e for e in born if isinstance(e, ev.Node)]
    return draft, rows, links(nodes, verdicts, {c.node: c for c in chains(draft, rows)}, None, (seed, 3))


def test_the_order_of_the_rules_holds_for_drafts_as_they_are_drawn() -> None:
    """Of single drafts it need not: a joint rule may give up a likely prefix for what comes behind."""
    metrics = measure(make_events(temperature=0.8, verifier="hsd", gamma=6, new_tokens=200)).same_draft
    assert metrics is not None
    token, capped, naive = (metrics.estimated_accepted[rule] for rule in RULES)
    assert token <= capped + 1e-9 <= naive + 2e-9


def test_observed_survival_follows_its_own_rule_within_its_interval() -> None:
    """1 of 20 intervals may miss; here the widest gap must stay within four standard errors."""
    metrics = measure(make_events(temperature=0.8, verifier="hsd", gamma=4, new_tokens=900, seed=5))
    assert metrics.survival is not None
    assert metrics.same_draft is not None
    chances = metrics.same_draft.survival["hsd"]
    assert chances is not None
    for t, seen in metrics.survival.items():
        expected = chances[t]
        assert abs(seen.value - expected) < 4 * math.sqrt(expected * (1 - expected) / seen.n) + 1 / seen.n


def _replay(token: int, hsd: int, q: int = 0) -> DraftReplay:
    kept_by: dict[str, int | None] = {"tokenwise": token, "hsd": hsd, "hsd_naive": None}
    chances = dict.fromkeys(RULES, (0.5, 0.25))
    return DraftReplay(q, 2, kept_by, {**chances, "hsd_naive": None}, chances)


def test_the_paired_difference_by_hand() -> None:
    paired = same_draft([_replay(0, 2), _replay(1, 1), _replay(2, 1), _replay(0, 1)])
    assert paired is not None
    gain = paired.gain["hsd"]
    assert gain is not None
    assert gain.value == (2 + 0 - 1 + 1) / 4
    spread = sum((d - 0.5) ** 2 for d in (2, 0, -1, 1))  # 1.5^2 + .5^2 + 1.5^2 + .5^2 = 5
    half = 1.959963984540054 * math.sqrt(4 / 3 * spread) / 4
    assert gain.interval == pytest.approx((0.5 - half, 0.5 + half))  # below 0 too: it is a difference
    assert paired.gains["hsd"] == {-1: 1, 0: 1, 1: 1, 2: 1}


def test_one_draft_that_cannot_be_told_takes_the_rule_out() -> None:
    """The drafts that can be told are those the tests decided early: their mean alone would be biased."""
    paired = same_draft([_replay(0, 2), _replay(1, 1)])
    assert paired is not None
    assert (paired.accepted["hsd_naive"], paired.gain["hsd_naive"], paired.gains["hsd_naive"]) == (None, None, {})
    assert (paired.survival["hsd_naive"], paired.expected_accepted["hsd_naive"]) == (None, None)
    assert paired.expected_accepted["hsd"] == paired.estimated_accepted["hsd_naive"] == 0.75


def test_from_eight_queries_on_the_queries_are_the_units() -> None:
    paired = same_draft([_replay(0, 1, q) for q in range(8) for _ in range(3)])
    assert paired is not None
    assert paired.gain["hsd"] is not None
    assert paired.gain["hsd"].n == 8


def test_runs_without_a_sampled_chain_have_none() -> None:
    for recipe in ({"temperature": 0.0}, {"shape": "tree", "temperature": 0.7}, {"temperature": 0.7, "level": "none"}):
        assert measure(make_events(**recipe)).same_draft is None  # type: ignore[arg-type]
    assert measure(plain_run([plain_round(1, 5, 4, 2)])).same_draft is None


def test_at_level_summary_only_the_own_rule_is_told() -> None:
    metrics = measure(make_events(temperature=0.8, verifier="tokenwise", level="summary", new_tokens=80)).same_draft
    assert metrics is not None
    assert metrics.accepted["tokenwise"] is not None
    assert metrics.gain == {"hsd": None, "hsd_naive": None}
    full = measure(make_events(temperature=0.8, verifier="tokenwise", new_tokens=80)).same_draft
    assert full is not None
    assert metrics.expected_accepted["hsd"] is None
    assert metrics.expected_accepted["tokenwise"] == pytest.approx(full.expected_accepted["tokenwise"], abs=1e-4)
    assert metrics.estimated_accepted == pytest.approx(full.estimated_accepted, abs=1e-4)  # logp and logq are enough


def test_naive_counts_a_round_and_its_carried_rounds_as_one_block() -> None:
    events = make_events(temperature=0.8, verifier="hsd_naive", gamma=5, new_tokens=120, seed=2)
    starts = [e for e in events if isinstance(e, ev.RoundStart)]
    ends = [e for e in events if isinstance(e, ev.RoundEnd)]
    metrics = measure(events)
    carried = sum(start.carry is not None for start in starts)
    assert carried > 0
    assert (metrics.n_rounds, metrics.n_blocks) == (len(ends), len(ends) - carried)
    total = sum(e.n_emitted for e in ends)
    assert metrics.mean_acceptance_length is not None
    assert metrics.block_efficiency is not None
    assert metrics.mean_acceptance_length.value == pytest.approx(total / (len(ends) - carried))
    assert metrics.block_efficiency.value == pytest.approx(total / len(ends))
    assert (metrics.test_acceptance_rate, metrics.position_acceptance, metrics.depth_acceptance) == (None, None, None)
    assert metrics.survival
