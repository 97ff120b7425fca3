"""A round decided again, as the stage paints it: marks are those of the decision, and nothing passes for recorded."""

import pytest

from specviz.errors import SpecvizError
from specviz.runlog.fold import Run
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.what_if import StageWhatIf, what_if_round
from specviz.view.words.palette import CLOSING, ROOT
from specviz.whatif import Change, decide
from support.traces import make_events


@pytest.fixture(scope="module")
def builder() -> FrameBuilder:
    found = FrameBuilder(Run())
    found.run.extend(make_events(temperature=0.8, new_tokens=60))
    return found


def _all(builder: FrameBuilder, change: Change) -> list[StageWhatIf]:
    return [what_if_round(builder, index, change) for index in range(len(builder.run.rounds))]


def test_a_question_that_changes_nothing_is_answered_with_what_may_change(builder: FrameBuilder) -> None:
    for index, found in enumerate(_all(builder, Change())):
        record = builder.run.rounds[index]
        assert found.round is None
        assert found.verifier == found.own == "tokenwise"
        assert {"hsd", "walk"} <= set(found.verifiers)
        values = {knob.name: knob.value for knob in found.knobs}
        assert values == {name: record.knobs[name] for name in values}
        assert "gamma" in values
        tested = {str(v.node): v.u for v in record.verdicts.values() if v.kind == "test" and v.u is not None}
        assert tested or not record.nodes
        assert {node: found.draws[node] for node in tested} == tested


def test_nodes_have_the_fates_of_the_decision(builder: FrameBuilder) -> None:
    change = Change(verifier="hsd")
    n_other = 0
    for index, found in enumerate(_all(builder, change)):
        told = decide(builder.run, builder.run.rounds[index], change)
        assert found.round is not None
        marks = {node: state["mark"] for node, state in found.round.moments[0].nodes.items()}
        for node, mark in told.ways[0].marks.items():
            if told.told:
                assert marks[str(node)] == mark
        n_other += told.changed
        won = {int(node) for node, state in found.round.moments[0].nodes.items() if state["win"]}
        if all(way.accepted == told.ways[0].accepted for way in told.ways):
            assert won - {ROOT, CLOSING} == set(told.ways[0].accepted)
        else:
            assert won <= {ROOT}
    assert n_other, "hsd decides every round as tokenwise did: nothing is tried"


def test_what_a_cut_leaves_out_is_seen_to_be_cut(builder: FrameBuilder) -> None:
    index = next(i for i, record in enumerate(builder.run.rounds) if len(record.nodes) > 2)
    found = what_if_round(builder, index, Change(knobs={"gamma": 1}))
    assert found.round is not None
    marks = [state["mark"] for state in found.round.moments[0].nodes.values()]
    assert marks.count("pruned") == len(builder.run.rounds[index].nodes) - 1
    assert found.certainty == "exact"
    gamma = next(knob for knob in found.knobs if knob.name == "gamma")
    assert (gamma.value, gamma.control.hi) == (1, builder.run.rounds[index].knobs["gamma"])


def test_another_uniform_keeps_or_loses_a_token_and_moves_the_needle(builder: FrameBuilder) -> None:
    index, node = next(
        (i, v.node)
        for i, r in enumerate(builder.run.rounds)
        for v in r.verdicts.values()
        if v.kind == "test" and v.status == "rejected" and v.u is not None and (v.logp or -1e9) > -20
    )
    found = what_if_round(builder, index, Change(uniforms={node: 0.0}))
    assert found.round is not None
    state = found.round.moments[0].nodes[str(node)]
    assert state["mark"] == "accepted"
    why = found.round.whys[state["why"]]
    assert why.headline == "WHAT IF: ACCEPTED"
    assert why.gauge is not None
    assert why.gauge.u == 0 < why.gauge.hi


def test_every_place_is_taken_once(builder: FrameBuilder) -> None:
    for found in _all(builder, Change(verifier="walk")):
        assert found.round is not None
        places = [(node.column, node.row) for node in found.round.nodes]
        assert len(set(places)) == len(places)
        assert max(node.row for node in found.round.nodes) < found.round.n_rows
        assert max(node.column for node in found.round.nodes) < found.round.n_columns
        assert set(found.round.moments[0].nodes) == {str(node.id) for node in found.round.nodes}


@pytest.mark.parametrize(
    ("index", "change", "words"),
    [
        (0, Change(verifier="tokenwize"), "tokenwise"),
        (0, Change(knobs={"temperature": 0.1}), "needs the models"),
        (0, Change(uniforms={9999: 0.5}), "n9999 was not judged"),
        (9999, Change(), "no round 9999"),
    ],
)
def test_what_cannot_be_asked_is_one_line(index: int, change: Change, words: str, builder: FrameBuilder) -> None:
    with pytest.raises(SpecvizError, match=words) as refusal:
        what_if_round(builder, index, change)
    assert "\n" not in str(refusal.value)
