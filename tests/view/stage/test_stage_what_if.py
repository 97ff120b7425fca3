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
    frames = FrameBuilder(Run())
    frames.run.extend(make_events(temperature=0.8, new_tokens=60))
    return frames


def _all(builder: FrameBuilder, change: Change) -> list[StageWhatIf]:
    return [what_if_round(builder, index, change) for index in range(len(builder.run.rounds))]


def test_a_question_that_changes_nothing_is_answered_with_what_may_change(builder: FrameBuilder) -> None:
    for index, answer in enumerate(_all(builder, Change())):
        record = builder.run.rounds[index]
        assert answer.round is None
        assert answer.verifier == answer.own == "tokenwise"
        assert {"hsd", "walk"} <= set(answer.verifiers)
        values = {knob.knob.name: knob.knob.value for knob in answer.knobs}
        assert values == {name: record.knobs[name] for name in values}
        assert "gamma" in values
        tested = {str(v.node): v.u for v in record.verdicts.values() if v.kind == "test" and v.u is not None}
        assert tested or not record.nodes
        assert {node: answer.draws[node] for node in tested} == tested


def test_nodes_have_the_fates_of_the_decision(builder: FrameBuilder) -> None:
    change = Change(verifier="hsd")
    n_other = 0
    for index, answer in enumerate(_all(builder, change)):
        decision = decide(builder.run, builder.run.rounds[index], change)
        assert answer.round is not None
        marks = {look.id: look.mark for look in answer.round.looks}
        assert decision.now is not None
        for node, mark in decision.now.marks.items():
            assert marks[node] == mark
        n_other += decision.changed
        won = {look.id for look in answer.round.looks if look.winning}
        assert won - {ROOT, CLOSING} == set(decision.now.accepted)
    assert n_other, "hsd decides every round as tokenwise did: nothing is tried"


def test_what_a_cut_leaves_out_is_seen_to_be_cut(builder: FrameBuilder) -> None:
    index = next(i for i, record in enumerate(builder.run.rounds) if len(record.nodes) > 2)
    changed_round = what_if_round(builder, index, Change(knobs={"gamma": 1}))
    assert changed_round.round is not None
    marks = [look.mark for look in changed_round.round.looks]
    assert marks.count("pruned") == len(builder.run.rounds[index].nodes) - 1
    assert changed_round.decided
    gamma = next(knob.knob for knob in changed_round.knobs if knob.knob.name == "gamma")
    assert (gamma.value, gamma.hi) == (1, builder.run.rounds[index].knobs["gamma"])


def test_another_uniform_keeps_or_loses_a_token_and_moves_the_needle(builder: FrameBuilder) -> None:
    index, node = next(
        (i, v.node)
        for i, r in enumerate(builder.run.rounds)
        for v in r.verdicts.values()
        if v.kind == "test" and v.status == "rejected" and v.u is not None and (v.logp or -1e9) > -20
    )
    draws = what_if_round(builder, index, Change(uniforms={node: 0.0}))
    assert draws.round is not None
    look, why = next(pair for pair in zip(draws.round.looks, draws.round.whys, strict=True) if pair[0].id == node)
    assert look.mark == "accepted"
    assert why.headline == "WHAT IF: ACCEPTED"
    assert look.values.thr is not None
    assert look.values.u == 0 < look.values.thr


def test_every_place_is_taken_once(builder: FrameBuilder) -> None:
    for answer in _all(builder, Change(verifier="walk")):
        assert answer.round is not None
        looks = answer.round.looks
        places = [(node.column, node.row) for node in looks]
        assert len(set(places)) == len(places)
        assert max(node.row for node in looks) < answer.round.n_rows
        assert max(node.column for node in looks) < answer.round.n_columns
        assert answer.round.moments[0].nodes == answer.round.moments[0].whys == tuple(range(len(looks)))
        assert [why.node for why in answer.round.whys] == [look.id for look in looks]


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
    changed_round = what_if_round(builder, 0, Change())
    assert "hsd_ref" in changed_round.lossy
    assert not {"walk", "tokenwise", "hsd"} & set(changed_round.lossy)
    assert changed_round.warns == ""
    assert "not lossless" in what_if_round(builder, 0, Change(verifier="hsd_ref")).warns
    assert what_if_round(builder, 0, Change(verifier="walk")).warns == ""


# Early exit ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exits() -> FrameBuilder:
    frames = FrameBuilder(Run())
    frames.run.extend(read_events(RECORDINGS["code-specbound"]))
    return frames


def test_exit_settings_may_be_changed_where_the_heads_were_asked(exits: FrameBuilder) -> None:
    for index, record in enumerate(exits.run.rounds):
        changed_round = what_if_round(exits, index, Change())
        alone = {knob.knob.name: knob.knob for knob in changed_round.knobs if knob.alone}
        assert set(alone) == {"alpha", "tau", "d_max", "w_max"}
        assert len({knob.knob.name for knob in changed_round.knobs}) == len(changed_round.knobs)
        assert (alone["tau"].value, alone["w_max"].value) == (record.knobs["tau"], record.knobs["w_max"])
        assert changed_round.missing == ""


def test_a_round_of_exits_is_painted_as_the_replay_has_it(exits: FrameBuilder) -> None:
    change = {"tau": 0.9}
    replay, n_other = ExitReplay(exits.run, change), 0
    for index, record in enumerate(exits.run.rounds):
        replayed, answer = replay.decide(record), what_if_round(exits, index, Change(knobs=change))
        assert answer.round is not None
        looks = {look.id: look for look in answer.round.looks}
        marks = [looks[k].mark for k in range(len(replayed.drafts))]
        assert marks == ["accepted"] * replayed.kept + ["rejected"] * replayed.wrong
        badges = answer.round.badges
        assert [badges[k] for k in range(len(replayed.exits))] == [f"layer {layer}" for layer in replayed.exits]
        assert all(conf >= 0.9 for conf in replayed.confs), "a row stopped below its threshold"
        assert (CLOSING in looks) == (replayed.closing is not None)
        written = [*replayed.drafts[: replayed.kept], *([replayed.closing] if replayed.closing is not None else [])]
        assert follows(record)[: len(written)] == tuple(written), "the text is another one"
        assert "the text is the same" in answer.sentence
        assert str(replayed.ends) in answer.sentence
        assert answer.decided
        places = [(node.column, node.row) for node in answer.round.looks]
        assert len(set(places)) == len(places)
        n_other += replayed.kept != replayed.was
    assert n_other, "the threshold decides nothing: nothing is tried"


def _own_tau(exits: FrameBuilder, index: int) -> dict[str, float]:
    knobs = [knob.knob for knob in what_if_round(exits, index, Change()).knobs if knob.alone]
    return {knob.name: knob.value for knob in knobs if knob.name == "tau"}


def test_the_recorded_exit_settings_give_the_recorded_round(exits: FrameBuilder) -> None:
    for index, record in enumerate(exits.run.rounds):
        own = _own_tau(exits, index)
        changed_round = what_if_round(exits, index, Change(knobs=own))
        assert changed_round.round is not None
        marks = [look.mark for look in changed_round.round.looks if look.id >= 0]
        assert marks.count("accepted") == sum(v.status == "accepted" for v in record.verdicts.values())


def test_without_what_the_heads_say_the_reason_is_told() -> None:
    events = [event for event in read_events(RECORDINGS["code-specbound"]) if not isinstance(event, ExitTable)]
    frames = FrameBuilder(Run())
    frames.run.extend(events)
    answer = what_if_round(frames, 0, Change())
    assert not any(knob.alone for knob in answer.knobs)
    assert "--sweep" in answer.missing


def test_a_run_that_nobody_holds_goes_with_its_texts() -> None:
    frames = FrameBuilder(Run())
    frames.run.extend(read_events(RECORDINGS["code-specbound"]))
    assert what_if_round(frames, 0, Change(knobs={"tau": 0.9})).round is not None
    run = weakref.ref(frames.run)
    del frames
    gc.collect()
    assert run() is None
