"""A round decided again, as the stage paints it: marks are those of the decision, and nothing passes for recorded."""

import gc
import weakref

import pytest

from specviz.errors import SpecvizError
from specviz.events import ExitTable
from specviz.runlog.fold import Run
from specviz.trace import read_events
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.parts import StageWhatIf
from specviz.view.stage.what_if import what_if_round
from specviz.view.words.palette import CLOSING, ROOT
from specviz.whatif import Change, ExitReplay, decide
from specviz.whatif.recorded import follows
from support.recordings import RECORDINGS
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
        values = {each.knob.name: each.knob.value for each in found.knobs}
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
        marks = {look.id: look.mark for look in found.round.looks}
        assert told.now is not None
        for node, mark in told.now.marks.items():
            assert marks[node] == mark
        n_other += told.changed
        won = {look.id for look in found.round.looks if look.winning}
        assert won - {ROOT, CLOSING} == set(told.now.accepted)
    assert n_other, "hsd decides every round as tokenwise did: nothing is tried"


def test_what_a_cut_leaves_out_is_seen_to_be_cut(builder: FrameBuilder) -> None:
    index = next(i for i, record in enumerate(builder.run.rounds) if len(record.nodes) > 2)
    found = what_if_round(builder, index, Change(knobs={"gamma": 1}))
    assert found.round is not None
    marks = [look.mark for look in found.round.looks]
    assert marks.count("pruned") == len(builder.run.rounds[index].nodes) - 1
    assert found.decided
    gamma = next(each.knob for each in found.knobs if each.knob.name == "gamma")
    assert (gamma.value, gamma.hi) == (1, builder.run.rounds[index].knobs["gamma"])


def test_another_uniform_keeps_or_loses_a_token_and_moves_the_needle(builder: FrameBuilder) -> None:
    index, node = next(
        (i, v.node)
        for i, r in enumerate(builder.run.rounds)
        for v in r.verdicts.values()
        if v.kind == "test" and v.status == "rejected" and v.u is not None and (v.logp or -1e9) > -20
    )
    found = what_if_round(builder, index, Change(uniforms={node: 0.0}))
    assert found.round is not None
    look, why = next(pair for pair in zip(found.round.looks, found.round.whys, strict=True) if pair[0].id == node)
    assert look.mark == "accepted"
    assert why.headline == "WHAT IF: ACCEPTED"
    assert look.values.thr is not None
    assert look.values.u == 0 < look.values.thr


def test_every_place_is_taken_once(builder: FrameBuilder) -> None:
    for found in _all(builder, Change(verifier="walk")):
        assert found.round is not None
        looks = found.round.looks
        places = [(node.column, node.row) for node in looks]
        assert len(set(places)) == len(places)
        assert max(node.row for node in looks) < found.round.n_rows
        assert max(node.column for node in looks) < found.round.n_columns
        assert found.round.moments[0].nodes == found.round.moments[0].whys == tuple(range(len(looks)))
        assert [why.node for why in found.round.whys] == [look.id for look in looks]


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


def test_a_rule_that_is_not_lossless_is_marked_so(builder: FrameBuilder) -> None:
    found = what_if_round(builder, 0, Change())
    assert "hsd_ref" in found.lossy
    assert not {"walk", "tokenwise", "hsd"} & set(found.lossy)
    assert found.warns == ""
    assert "not lossless" in what_if_round(builder, 0, Change(verifier="hsd_ref")).warns
    assert what_if_round(builder, 0, Change(verifier="walk")).warns == ""


# Early exit ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exits() -> FrameBuilder:
    found = FrameBuilder(Run())
    found.run.extend(read_events(RECORDINGS["code-specbound"]))
    return found


def test_exit_settings_may_be_changed_where_the_heads_were_asked(exits: FrameBuilder) -> None:
    for index, record in enumerate(exits.run.rounds):
        found = what_if_round(exits, index, Change())
        alone = {each.knob.name: each.knob for each in found.knobs if each.alone}
        assert set(alone) == {"alpha", "tau", "d_max", "w_max"}
        assert len({each.knob.name for each in found.knobs}) == len(found.knobs)
        assert (alone["tau"].value, alone["w_max"].value) == (record.knobs["tau"], record.knobs["w_max"])
        assert found.missing == ""


def test_a_round_of_exits_is_painted_as_the_replay_has_it(exits: FrameBuilder) -> None:
    change = {"tau": 0.9}
    replay, n_other = ExitReplay(exits.run, change), 0
    for index, record in enumerate(exits.run.rounds):
        told, found = replay.decide(record), what_if_round(exits, index, Change(knobs=change))
        assert found.round is not None
        looks = {look.id: look for look in found.round.looks}
        marks = [looks[k].mark for k in range(len(told.drafts))]
        assert marks == ["accepted"] * told.kept + ["rejected"] * told.wrong
        badges = found.round.badges
        assert [badges[k] for k in range(len(told.exits))] == [f"layer {layer}" for layer in told.exits]
        assert all(conf >= 0.9 for conf in told.confs), "a row stopped below its threshold"
        assert (CLOSING in looks) == (told.closing is not None)
        written = [*told.drafts[: told.kept], *([told.closing] if told.closing is not None else [])]
        assert follows(record)[: len(written)] == tuple(written), "the text is another one"
        assert "the text is the same" in found.sentence
        assert str(told.ends) in found.sentence
        assert found.decided
        places = [(node.column, node.row) for node in found.round.looks]
        assert len(set(places)) == len(places)
        n_other += told.kept != told.was
    assert n_other, "the threshold decides nothing: nothing is tried"


def _own_tau(exits: FrameBuilder, index: int) -> dict[str, float]:
    knobs = [each.knob for each in what_if_round(exits, index, Change()).knobs if each.alone]
    return {knob.name: knob.value for knob in knobs if knob.name == "tau"}


def test_the_recorded_exit_settings_give_the_recorded_round(exits: FrameBuilder) -> None:
    for index, record in enumerate(exits.run.rounds):
        own = _own_tau(exits, index)
        found = what_if_round(exits, index, Change(knobs=own))
        assert found.round is not None
        marks = [look.mark for look in found.round.looks if look.id >= 0]
        assert marks.count("accepted") == sum(v.status == "accepted" for v in record.verdicts.values())


def test_without_what_the_heads_say_the_reason_is_told() -> None:
    events = [event for event in read_events(RECORDINGS["code-specbound"]) if not isinstance(event, ExitTable)]
    found = FrameBuilder(Run())
    found.run.extend(events)
    answer = what_if_round(found, 0, Change())
    assert not any(knob.alone for knob in answer.knobs)
    assert "--sweep" in answer.missing


def test_a_run_that_nobody_holds_goes_with_its_texts() -> None:
    found = FrameBuilder(Run())
    found.run.extend(read_events(RECORDINGS["code-specbound"]))
    assert what_if_round(found, 0, Change(knobs={"tau": 0.9})).round is not None
    run = weakref.ref(found.run)
    del found
    gc.collect()
    assert run() is None
