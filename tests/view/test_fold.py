"""Folding: the same run whether its events come at once or one by one, whatever is missing or comes twice."""

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.view import Player
from support.traces import PROMPT, TEXTS, make_events, plain_round, plain_run


def text_of(events: list[ev.Event]) -> str:
    return "".join(text for e in events if isinstance(e, ev.Commit) for text in e.texts)


def test_rounds_and_text() -> None:
    events = make_events(temperature=0.8, queries=2, seed=1)
    run = fold(events)
    starts = [e for e in events if isinstance(e, ev.RoundStart)]
    assert [(r.q, r.r) for r in run.rounds] == [(s.q, s.r) for s in starts]
    assert [r.index for r in run.rounds] == list(range(len(starts)))
    assert "".join(q.text for q in run.queries) == text_of(events)
    assert run.queries[1].first == len(run.queries[0].rounds)
    assert run.find(1, 1) == run.queries[1].first
    assert run.find(7, 1) is None


def test_strip_tokens_are_the_commits_with_their_nodes() -> None:
    run = fold(make_events(shape="tree", temperature=0.8, seed=1))
    tokens = [t for t in run.queries[0].tokens if t.round]
    commits = [
        (token, "plain" if kind == "bonus" and not r.end.n_drafted else kind)  # the last round had room for one token
        for r in run.rounds
        if r.commit and r.end
        for token, kind in zip(r.commit.tokens, r.commit.kinds, strict=True)
    ]
    assert {"plain", "accepted", "recovered"} <= {kind for _, kind in commits}
    assert [(t.token, t.mark) for t in tokens] == commits
    assert [t.pos for t in tokens] == list(range(len(PROMPT), len(PROMPT) + len(tokens)))
    for token in tokens:
        assert (token.node is not None) == (token.mark == "accepted")
        if token.node is not None:
            assert run.queries[0].nodes[token.node].token == token.token
    assert [t.breaks for t in tokens] == [t.pos in {r.start.n for r in run.rounds} for t in tokens]


def test_growing_and_finished_give_the_same_frame() -> None:
    """Live is replay of a stream that still grows: no mode."""
    events = make_events(shape="tree", temperature=0.8, seed=2, knob_at=2)
    grown, whole = Player(animate=False), Player(animate=False)
    for k, event in enumerate(events):
        grown.extend([event])
        grown.tick(float(k))
        grown.frame()
    whole.extend(events)
    assert grown.frame() == whole.frame()
    for player in (grown, whole):
        player.seek("r2")
    assert grown.frame() == whole.frame()


def test_every_prefix_of_a_stream_can_be_shown() -> None:
    for shape in ("chain", "tree", "none"):
        player = Player()
        for event in make_events(shape=shape, temperature=0.8, seed=3, new_tokens=8, queries=2):
            player.extend([event])
            player.live()
            frame = player.frame()
            assert frame.cursor == player.cursor
        assert frame.round == len(player.run.queries[1].rounds)


def test_an_aborted_round_is_replaced_when_its_number_comes_again() -> None:
    events = make_events(temperature=0.8, seed=1, new_tokens=12)
    at = next(k for k, e in enumerate(events) if isinstance(e, ev.RoundEnd) and e.r == 2)
    begin = next(k for k, e in enumerate(events) if isinstance(e, ev.RoundStart) and e.r == 2)
    aborted = [*events[:at], ev.Warn(r=2, code="aborted_round", message="round 2 was aborted"), *events[begin:]]
    run = fold(aborted)
    assert [r.r for r in run.rounds] == [r.r for r in fold(events).rounds]
    assert run.queries[0].text == text_of(events)
    assert [t.token for t in run.queries[0].tokens] == [t.token for t in fold(events).queries[0].tokens]
    assert run.warnings[0].code == "aborted_round"


def test_an_open_round_is_shown_as_far_as_it_came() -> None:
    events = make_events(temperature=0.8, seed=1)
    at = next(k for k, e in enumerate(events) if isinstance(e, ev.Verify) and e.r == 3)
    player = Player(fold(events[:at]))
    frame = player.frame()
    assert frame.round == 3
    assert not player.run.rounds[-1].complete
    assert frame.phase_text == "phase 2/6 DRAFT"
    assert {n.mark for n in frame.tree.nodes} == {"root", "drafted"}


def test_knobs_take_effect_with_their_round() -> None:
    run = fold(make_events(temperature=0.8, seed=1, knob_at=3, gamma=2))
    assert [r.knobs["gamma"] for r in run.rounds[:4]] == [2, 2, 4, 4]
    assert [r.markers for r in run.rounds[:4]] == ["", "", "◆", ""]


def test_a_knob_acknowledged_after_its_round_began() -> None:
    events = make_events(temperature=0.8, seed=1, gamma=2)
    at = next(k for k, e in enumerate(events) if isinstance(e, ev.Node) and e.r == 3)
    change = ev.Knob(r=3, name="gamma", old=2, new=5, requested_r=2, applied_r=3)
    run = fold([*events[:at], change, *events[at:]])
    assert [r.knobs["gamma"] for r in run.rounds[:4]] == [2, 2, 5, 5]
    assert run.rounds[2].changes == [change]


def test_notes_findings_and_unknown_records_find_their_place() -> None:
    run = fold(make_events(temperature=0.8, seed=1))
    run.apply(ev.Note(text="look", at=ev.At(r=2)))
    run.apply(ev.FindingRecord(detector="cliff", message="after 2", evidence=[2]))
    run.apply(ev.Gap(from_=3, to=4))
    assert run.rounds[1].markers == "⚑"
    assert run.findings[0].evidence == [2]
    assert all(ev.Gap not in r.by_kind for r in run.rounds)


def test_words_name_tokens_the_trace_has_spelled() -> None:
    run = fold(make_events(temperature=0.8, seed=1))
    assert run.word(1) == "▁the"
    assert run.word(15) in ("⟨FF⟩", "#15")
    assert run.word(4711) == "#4711"
    assert run.words[1] == (TEXTS[1], None)


def test_level_none_still_has_text_and_counts() -> None:
    run = fold(plain_run([plain_round(1, 6, 4, 2), plain_round(2, 9, 4, 0)]))
    assert [r.rejected for r in run.rounds] == [True, True]
    assert [t.mark for t in run.queries[0].tokens if t.round] == ["accepted", "accepted", "recovered", "recovered"]


def test_a_second_header_begins_a_second_run() -> None:
    first, second = make_events(temperature=0.8, seed=1), make_events(shape="tree", seed=2, new_tokens=6)
    player = Player()
    player.extend(first + second)
    assert player.run.header is not None
    assert player.run.header.verifier == "walk"
    assert len(player.run.rounds) == len(fold(second).rounds)
    assert player.frame().state.name == "ended"
