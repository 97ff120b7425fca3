"""A round decided again is the round that a run of its own would have had, on the same keyed draws.

The same prompt and seed are decoded under two verifiers (or with two lengths of a draft). As long as the texts are the
same the drafts are, so the first round in which they may differ is decided by both: once with models, once without.
What is told must be what happened.
"""

from typing import Any

import pytest

pytest.importorskip("torch")

from specviz.commands import Start
from specviz.engine.run.local import LocalRun, load_pair
from specviz.events import Event
from specviz.methods import get_method
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.sources.bundled import bundled_prompts
from specviz.verifiers import all_verifiers
from specviz.whatif import Change, RoundAgain, checked, decide, decide_run
from specviz.whatif.again import as_recorded
from whatif.recorded_sessions import LAYOUTS, run_of

METHOD = get_method("draft")


def fitting(layout: str, temperature: float = 0.9) -> list[str]:
    return METHOD.fitting(METHOD.table.knobs({"temperature": temperature, **LAYOUTS[layout]}).values)


def shared_rounds(one: Run, other: Run) -> list[tuple[RoundRecord, RoundRecord]]:
    """The rounds of two runs of one prompt as far as both begin with the same text and draft."""
    out: list[tuple[RoundRecord, RoundRecord]] = []
    for ours, theirs in zip(one.rounds, other.rounds, strict=False):
        if ours.start.carry is not None or theirs.start.carry is not None:
            break
        out.append((ours, theirs))
        assert ours.commit is not None
        assert theirs.commit is not None
        if ours.commit.tokens != theirs.commit.tokens:
            break
    return out


def agrees(way: RoundAgain, truth: RoundAgain) -> bool:
    """Whether this is what happened, but for a closing token that is not told.

    Nodes by their order: the numbers of a run of its own count other drafts.
    """
    fates = [[way.marks[node] for node in sorted(way.marks)] for way in (way, truth)]
    same = fates[0] == fates[1] and len(way.accepted) == len(truth.accepted)
    if not same or len(way.tokens) != len(truth.tokens) or way.closing is not None:
        return same and way.tokens == truth.tokens
    return way.tokens[:-1] == truth.tokens[:-1]


def compared(one: Run, other: Run, change: Change) -> tuple[int, int]:
    """How many rounds were told, and how many were not; every one told is what really happened."""
    assert one.header is not None
    n_told = left = 0
    for ours, theirs in shared_rounds(one, other):
        decision = decide(one, ours, checked(one.header, change))
        truth = as_recorded(RoundTree(theirs))
        assert decision.now is None or agrees(decision.now, truth), (decision.now, truth)
        n_told, left = n_told + (decision.now is not None), left + (decision.now is None)
    return n_told, left


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_rule_on_every_layout(layout: str) -> None:
    """All rows on record (`topk` the whole vocabulary): whatever decides, nearly everything is told, and is right."""
    rules, n_told, left = fitting(layout), 0, 0
    assert len(rules) >= 3
    runs = {rule: run_of(rule, topk=260, seed=1, **LAYOUTS[layout]) for rule in rules}
    for one in rules[:2]:
        for other in rules:
            n, m = compared(runs[one], runs[other], Change(verifier=other))
            n_told, left = n_told + n, left + m
    assert n_told > 20 * left
    assert n_told >= 2 * len(rules)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("level", "topk"), [("full", 3), ("summary", 8)])
def test_what_is_not_on_record_is_not_told_and_never_wrong(layout: str, level: Any, topk: int) -> None:
    rules, n_told = fitting(layout), 0
    runs = {rule: run_of(rule, level, topk, seed=3, **LAYOUTS[layout]) for rule in rules}
    for one in rules[:2]:
        for other in rules:
            n_told += compared(runs[one], runs[other], Change(verifier=other))[0]
    assert n_told


@pytest.mark.parametrize("layout", ["chain", "tree", "drawn tree"])
def test_at_temperature_0_every_rule_keeps_what_the_target_would_write(layout: str) -> None:
    rules = fitting(layout, 0.0)
    runs = {rule: run_of(rule, temperature=0.0, **LAYOUTS[layout]) for rule in rules}
    for rule in rules:
        compared(runs[rules[0]], runs[rule], Change(verifier=rule))


@pytest.mark.parametrize("verifier", ["walk", "tokenwise", "hsd", "multi_hsd"])
@pytest.mark.parametrize("gamma", [0, 1, 3])
def test_a_shorter_draft(verifier: str, gamma: int) -> None:
    n_told = 0
    for seed in range(2):
        long, short = (run_of(verifier, topk=260, seed=seed, gamma=g) for g in (5, gamma))
        n_told += compared(long, short, Change(knobs={"gamma": gamma}))[0]
    assert n_told >= 2


@pytest.mark.parametrize("verifier", ["walk", "tokenwise"])
@pytest.mark.parametrize(("deep", "knob"), [(3, {"d_max": 1}), (3, {"d_max": 2}), (2, {"w_max": 1})])
def test_a_smaller_tree(verifier: str, deep: int, knob: dict[str, int]) -> None:
    """Nothing is left out by the budget or by what a level expands: the smaller tree is a part of the larger one."""
    wide: dict[str, Any] = {"shape": "tree", "d_max": deep, "w_max": 2, "k_max": 3, "node_budget": 60}
    n_told = 0
    for seed in range(2):
        large, small = (run_of(verifier, topk=260, seed=seed, **{**wide, **less}) for less in ({}, knob))
        n_told += compared(large, small, Change(knobs=knob))[0]
    assert n_told >= 2


def test_a_smaller_tree_whose_budget_goes_elsewhere() -> None:
    """Under walk the text is the same, so rounds at one place are compared: what is told really happened."""
    pair = load_pair(threads=1)

    def decoded(prompt: str, **less: int) -> Run:
        tree = {"shape": "tree", "d_max": 4, "w_max": 3, "k_max": 4, "node_budget": 6}
        knobs = {"temperature": 1.0, "seed": 7, "max_new_tokens": 40, **tree, **less}
        events: list[Event] = []
        start = Start(prompt=bundled_prompts()[prompt], method="draft", verifier="walk", knobs=knobs)
        list(LocalRun(pair, start, events.append).rounds())
        return Run().extend(events)

    sure = open_ = 0
    for prompt in ("code-stack", "sums-story"):
        large = decoded(prompt)
        assert large.header is not None
        for knob in ({"d_max": 1}, {"d_max": 2}, {"w_max": 1}):
            begins = {record.start.n: RoundTree(record) for record in decoded(prompt, **knob).rounds}
            for record in large.rounds:
                if record.verdicts and (truth := begins.get(record.start.n)) is not None:
                    decision = decide(large, record, checked(large.header, Change(knobs=knob)))
                    sure, open_ = sure + (decision.kept is not None), open_ + (decision.kept is None)
                    assert decision.kept in (None, len(truth.accepted)), (prompt, knob, record.r)
    assert open_  # a node in place of those cut off may have been kept
    assert sure > 5 * open_  # it must spell the token that the target drew there


@pytest.mark.parametrize("rule", [name for name, rule in all_verifiers().items() if rule.carries])
@pytest.mark.parametrize("own", ["tokenwise", "hsd", "hsd_ref"])
def test_a_rule_that_carries_is_not_foretold_fresh_drafts_behind_a_stop(own: str, rule: str) -> None:
    """Over whole runs: where a round is told, a run of the rule's own drafts anew there and keeps so many."""
    n_told = carried = 0
    for seed in range(8):
        one, other = (run_of(name, topk=260, n=24, gamma=6, seed=seed) for name in (own, rule))
        assert one.header is not None
        texts = [[token for record in run.rounds for token in record.commit.tokens] for run in (one, other)]  # type: ignore[union-attr]
        same = next((k for k, (ours, theirs) in enumerate(zip(*texts, strict=False)) if ours != theirs), 24)
        begins = {record.start.n: record for record in other.rounds if record.start.n <= one.rounds[0].start.n + same}
        for gain in decide_run(one, Change(verifier=rule)).rounds:
            record = one.rounds[gain.index]
            if gain.kept is None or (beginning := begins.get(record.start.n)) is None:
                continue
            n_told += 1
            assert beginning.start.carry is None, (seed, gain)
            assert gain.kept == len(RoundTree(beginning).accepted), (seed, gain)
            now = decide(one, record, checked(one.header, Change(verifier=rule))).now
            assert now is not None
            behind = [
                one_round.start.carry is not None for one_round in other.rounds[beginning.index + 1 :][: now.carries]
            ]
            assert all(behind)
            carried += len(behind)
    assert n_told >= 8  # the first round of every seed
    assert carried > 4
