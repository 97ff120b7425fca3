"""What is said of a round and of a run decided again: marks, sentences, and how sure they are."""

from typing import Any

import pytest

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.view.whatif import WhatIf, WhatIfRun, what_if, what_if_run
from specviz.whatif import Change, checked, decide, decide_run
from support.traces import make_events
from support.worked_trace import worked_events

# One position of two tokens: p = (.29, .71), q = (1/2, 1/2), written with the drafted token first.
ROW = (0.29, 0.71, 0.0)
LAW = (0.5, 0.5, 0.0)


def one_round(u: float, verifier: str = "hsd_ref") -> Run:
    """A round with one drafted token, p/q = .58, judged with this uniform."""
    return Run().extend(worked_events(verifier, us=(u,), p=(ROW, ROW), q=(LAW,), texts=("a",)))


def said(run: Run, index: int = 0, **change: Any) -> WhatIf:
    assert run.header is not None
    header = checked(run.header, Change(**change))
    return what_if(run, decide(run, run.rounds[index], header), header)


def of_run(run: Run, **change: Any) -> WhatIfRun:
    wish = Change(**change)
    return what_if_run(decide_run(run, wish), wish)


def test_a_rejection_by_a_uniform_set_by_hand() -> None:
    run = one_round(0.2)
    answer = said(run, uniforms={0: 0.71})
    n = run.rounds[0].start.n
    assert answer.decided
    assert (answer.kept_was, answer.kept) == (1, 0)
    assert [(node.was, node.now) for node in answer.nodes] == [("accepted", "rejected")]
    assert answer.marks == {0: "rejected"}
    assert answer.parting == n
    assert answer.sentence == (
        f"with u of n0 = .710 n0 a would have been rejected: u .710 ≥ .580 (0 kept instead of 1); "
        f"from position {n} on the text would differ"
    )
    assert answer.note.startswith("decision only")


def test_nothing_is_another_where_the_uniform_falls_on_the_same_side() -> None:
    answer = said(one_round(0.2), uniforms={0: 0.57})
    assert "the same drafted token would have been kept" in answer.sentence
    assert not any(node.changed for node in answer.nodes)
    assert answer.parting is None


@pytest.mark.parametrize(("u", "kept"), [(0.0, True), (0.57999, True), (0.5801, False), (0.999, False)])
def test_the_recorded_threshold_decides(u: float, kept: bool) -> None:
    assert said(one_round(0.3), uniforms={0: u}).kept == kept


def test_every_node_of_a_tree_has_its_mark_and_unknown_ones_are_drafted() -> None:
    run = Run().extend(make_events(shape="tree", temperature=0.9, seed=2))
    for record in run.rounds:
        answer = said(run, record.index, verifier="multi_hsd")
        assert set(answer.marks) == {node.node for node in answer.nodes} == {*decided(run, record.index)}
        if answer.decided:
            assert "drafted" not in answer.marks.values()


def decided(run: Run, index: int) -> list[int]:
    return [i for i, verdict in run.rounds[index].verdicts.items() if verdict.status != "pruned"]


def test_what_cannot_be_told_says_what_would_tell_it() -> None:
    """At level summary no sums over rows are recorded, so a joint rule cannot always be told."""
    run = Run().extend(make_events(temperature=1.2, seed=4, new_tokens=60, level="summary"))
    decisions = [said(run, record.index, verifier="blockwise") for record in run.rounds]
    untold = [decision for decision in decisions if not decision.decided]
    assert untold
    for decision in untold:
        assert "cannot be told: " in decision.sentence
        assert decision.sentence.endswith("on record with --level summary; one with --level full holds more")
        assert all(node.now is None and node.glyphs[1] == "?" for node in decision.nodes)
    full = Run().extend(make_events(temperature=1.2, seed=4, new_tokens=60))
    again = [said(full, record.index, verifier="blockwise") for record in full.rounds]
    assert all(decision.decided for decision in again)
    assert all(decision.kept in (None, exact.kept) for decision, exact in zip(decisions, again, strict=True))


def test_a_level_without_nodes_gives_the_reason() -> None:
    run = Run().extend(make_events(temperature=0.9, seed=1, level="none"))
    answer = said(run, verifier="tokenwise")
    assert not answer.decided
    assert "recorded with --level none" in answer.sentence
    with pytest.raises(SpecvizError, match="recorded with --level none"):
        decide_run(run, Change(verifier="tokenwise"))


def test_a_run_in_words() -> None:
    run = Run().extend(make_events(temperature=0.9, seed=1, new_tokens=120))
    fewer = of_run(run, knobs={"gamma": 1})
    assert fewer.sentence.startswith("with gamma 1 fewer tokens are kept a round: −")
    assert "the text would part in round" in fewer.sentence
    assert "do not add up" in fewer.note
    same = of_run(run, verifier="multi_tokenwise")
    assert "keeps what it kept" in same.sentence
    few = Run().extend(make_events(temperature=0.9, seed=1, new_tokens=9))
    assert "cannot be told yet" in of_run(few, verifier="blockwise").sentence or "keeps" in of_run(few).sentence


def test_a_rule_that_takes_no_draft_of_the_run_is_refused_with_those_that_do() -> None:
    run = Run().extend(make_events(shape="tree", temperature=0.9, seed=2))
    with pytest.raises(SpecvizError, match=r"blockwise does not take this draft.*these do: multi_hsd"):
        decide_run(run, Change(verifier="blockwise"))


def test_a_knob_that_needs_the_models_is_refused() -> None:
    run = Run().extend(make_events(temperature=0.9, seed=2))
    with pytest.raises(SpecvizError, match=r"temperature changes what is drafted.*gamma"):
        decide_run(run, Change(knobs={"temperature": 0.2}))
    with pytest.raises(SpecvizError, match="did you mean 'gamma'"):
        decide_run(run, Change(knobs={"gama": 2}))
