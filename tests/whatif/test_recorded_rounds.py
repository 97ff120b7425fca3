"""Every round of every recording comes out as it was when nothing is changed, and as others count it when a rule is."""

from functools import cache

import pytest

from specviz.events import Chain, Verify
from specviz.metrics.replay_rules import kept, links, single_chain
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.trace import Trace
from specviz.trace.bundled import bundled_traces
from specviz.verifiers import all_verifiers
from specviz.whatif import Change, Decision, checked, decide
from support.recordings import RECORDINGS
from support.traces import make_events


@cache
def run_of(name: str) -> Run:
    with Trace(RECORDINGS[name]) as trace:
        return Run().extend(trace.read())


def again(run: Run, record: RoundRecord, **change: object) -> Decision:
    assert run.header is not None
    return decide(run, record, checked(run.header, Change(**change)))  # type: ignore[arg-type]


def as_it_was(decision: Decision) -> bool:
    if (now := decision.now) is None:
        return False
    text = (now.accepted, now.tokens, now.kind) == (decision.was.accepted, decision.was.tokens, decision.was.kind)
    return text and now.marks == decision.was.marks and now.tests == decision.was.tests


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_changed_is_what_was_recorded(name: str) -> None:
    """Fates, tests with their numbers to the last digit, tokens: of every round of every recording."""
    run = run_of(name)
    for record in run.rounds:
        decision = again(run, record)
        assert as_it_was(decision), (record.r, decision)
        assert not decision.changed
        assert decision.parting is not None
        assert decision.parting.pos is None


@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_nothing_changed_in_traces_of_every_rule(shape: str, temperature: float) -> None:
    for verifier, rule in all_verifiers().items():
        replays = rule.traits.order == "prefixes" and not (rule.traits.draws and rule.traits.same_rule_as)
        if not replays or (shape == "tree" and rule.layouts == ("chain",)):
            continue
        for draw in ("cdf", "race"):
            events = make_events(shape=shape, temperature=temperature, verifier=verifier, draw=draw, seed=5, queries=2)
            run = Run().extend(events)
            for record in run.rounds:
                if record.start.carry is None:
                    decision = again(run, record)
                    assert decision.now is not None, (verifier, record.r, decision.why)
                    assert decision.now.marks == decision.was.marks, (verifier, draw, record.r)
                    assert decision.now.accepted == decision.was.accepted


@pytest.mark.parametrize("name", ["prose-draft", "prose-hsd", "code-tree", "code-ngram"])
def test_another_seed_is_not_what_was_recorded(name: str) -> None:
    """The control: were the record only read off, any seed would give it back."""
    run = run_of(name)
    decisions = [again(run, record, seed=123) for record in run.rounds]
    assert sum(as_it_was(decision) for decision in decisions) < len(decisions) * 0.7


def test_a_record_that_contradicts_itself_is_not_given_back() -> None:
    """The control on the other side: thresholds are the record's, uniforms are the key's."""
    events = make_events(temperature=0.9, seed=3, new_tokens=40)
    for event in events:
        if isinstance(event, Verify) and event.thr is not None and event.u is not None:
            event.thr, event.u = 1 - event.thr, 1 - event.u
    run = Run().extend(events)
    assert not all(as_it_was(again(run, record)) for record in run.rounds)


def test_tokens_alike_to_the_last_bit_do_not_part_a_greedy_text() -> None:
    """In bfloat16 two likeliest tokens may be one number; the target takes the first, a list of the likeliest any."""
    with Trace(bundled_traces()["quote-ngram"]) as trace:
        run = Run().extend(trace.read())
    tops = [v.top for record in run.rounds for v in record.verdicts.values() if v.top is not None]
    assert any(top[0][1] == top[1][1] for top in tops)
    for verifier in ("tokenwise", "typical"):  # at temperature 0 an exact match, both
        for record in run.rounds:
            if record.verdicts:
                decision = again(run, record, verifier=verifier)
                assert decision.parting is not None
                assert decision.parting.pos is None, (verifier, record.r)


@pytest.mark.parametrize(("name", "other"), [("prose-draft", "multi_tokenwise"), ("prose-hsd", "blockwise")])
def test_the_same_rule_by_its_other_name_has_the_recorded_thresholds(name: str, other: str) -> None:
    """Of another verifier nothing is read off: what is worked out from the rows must hold what was recorded."""
    run, n = run_of(name), 0
    for record in run.rounds:
        decision = again(run, record, verifier=other)
        assert decision.now is not None
        assert decision.now.marks == decision.was.marks
        for ours, theirs in zip(decision.now.tests, decision.was.tests, strict=True):
            assert (ours.node, ours.u) == (theirs.node, theirs.u)
            assert ours.threshold == pytest.approx(theirs.threshold, abs=2e-4)
            n += 1
    assert n > 50


@pytest.mark.parametrize("name", [name for name in RECORDINGS if name.endswith(("-draft", "-hsd"))])
def test_rules_that_metrics_replay_keep_what_metrics_say(name: str) -> None:
    """Two ways to the same number: joint ratios of the records there, the verifiers' plans on completed rows here."""
    run, n = run_of(name), 0
    rules = {v.name: v.traits.replays_as for v in all_verifiers().values() if v.traits.replays_as is not None}
    assert len(rules) >= 3
    for record in run.rounds:
        chain = single_chain(list(record.nodes.values()), record.start.n - 1)
        prefill = record.query.prefill
        assert prefill is not None
        chains = {e.node: e for e in record.every(Chain)}
        chances = links(chain, record.verdicts, chains, run.rule.replays_as, (prefill.seed, record.r))
        for verifier, rule in rules.items():
            decision = again(run, record, verifier=verifier)
            if decision.now is not None and not record.commit.finish:  # type: ignore[union-attr]
                assert decision.kept == kept(chances, rule), (record.r, verifier)
                n += 1
    assert n >= 40


@pytest.mark.parametrize("name", ["prose-draft", "sums-hsd"])
def test_a_uniform_of_a_test_moves_no_other_draw(name: str) -> None:
    """On the same side of its threshold it changes nothing, the token drawn behind a rejection included."""
    run, n = run_of(name), 0
    for record in run.rounds:
        for verdict in record.verdicts.values():
            if verdict.order is not None and verdict.thr is not None and verdict.u is not None:
                same_side = verdict.thr / 2 if verdict.u < verdict.thr else (1 + verdict.thr) / 2
                draws = again(run, record, uniforms={verdict.node: same_side})
                assert draws.now is not None
                assert (draws.now.marks, draws.now.tokens) == (draws.was.marks, draws.was.tokens)
                n += 1
    assert n > 40


@pytest.mark.parametrize("name", ["code-tree", "code-ngram"])
def test_a_uniform_of_a_draw_decides_among_the_tokens_at_its_place(name: str) -> None:
    """Set into a node's own interval it is kept, set into a sibling's that one is."""
    run, n = run_of(name), 0
    for record in run.rounds:
        for verdict in record.verdicts.values():
            if (
                verdict.kind == "draw"
                and verdict.interval is not None
                and verdict.interval[1] - verdict.interval[0] > 1e-3
            ):
                draws = again(run, record, uniforms={verdict.node: sum(verdict.interval) / 2})
                assert draws.now is None or draws.now.marks[verdict.node] == "accepted"
                n += 1
    assert n > 20
