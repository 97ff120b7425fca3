"""The stage's document against the frames of every recording: the same marks, words and numbers at every moment."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from specviz.events import Closing, Commit, Event, Node
from specviz.trace import read_events
from specviz.view import Cursor, Feed, Frame, Options, Player
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.stage.document import document, head, one_round
from specviz.view.stage.parts import StageRound
from specviz.view.words.numbers import prob, ratio
from support.rank_trace import rank_events
from support.recordings import RECORDINGS
from support.traces import make_events

_AT_BEGIN, _AT_END = 2, 1  # rounds of a recording that are gone through


def _player(events: list[Event]) -> Player:
    player = Player(animate=False)
    player.extend(events)
    return player


def _played(page: StageRound) -> Iterator[dict[int, dict[str, Any]]]:
    """What a painter knows of every node at every moment: differences laid upon one another."""
    known: dict[int, dict[str, Any]] = {}
    for moment in json.loads(msgspec.json.encode(page.moments)):
        for node, fields in moment["nodes"].items():
            known.setdefault(int(node), {}).update(fields)
        yield {node: dict(fields) for node, fields in known.items()}


def _compare(player: Player, index: int) -> int:
    """Every moment of a round; how many reasons were compared."""
    page, builder, n = one_round(player.builder, index), player.builder, 0
    places = {node.id: node for node in page.nodes}
    steps = builder.steps(index).moments
    assert len(steps) == len(page.moments)
    for (phase, step), moment, states in zip(steps, page.moments, _played(page), strict=True):
        cursor = Cursor(index, phase, step)
        frame = builder.frame(cursor, Options(), Feed())
        assert (moment.phase, moment.label, moment.at) == (int(phase), frame.phase_text, frame.selected)
        assert moment.counts == frame.counts.text
        assert [places[i].text for i in moment.maybe] == [t.running for t in frame.strip.tokens if t.provisional]
        assert states.keys() == {node.id for node in frame.tree.nodes}
        assert set(moment.fresh) == {node.id for node in frame.tree.nodes if node.fresh}
        for node in frame.tree.nodes:
            here, state = places[node.id], states[node.id]
            assert (here.parent, here.column, here.row, here.shown) == (node.parent, node.column, node.row, node.shown)
            assert state["mark"] == node.mark
            assert (state.get("win") or False, state.get("note") or "") == (node.winning, node.note)
            v = node.values
            assert state.get("p") == (None if v.p is None else prob(v.p))
            assert state.get("q") == (
                prob(v.q if v.q is not None else v.conf) if (v.q, v.conf) != (None, None) else None
            )
            assert state.get("ratio") == (None if v.ratio is None else ratio(v.ratio))
            assert state.get("u") == (None if v.u is None else prob(v.u))
            chosen = builder.frame(cursor, Options(selected=node.id), Feed())
            n += _same_reasons(page, state, chosen)
    assert [text for text, _, _ in page.knobs] == [item.text for item in frame.knobs.items]
    return n


def _same_reasons(page: StageRound, state: dict[str, Any], frame: Frame) -> int:
    told, why = page.whys[state["why"]], frame.why
    assert why is not None
    assert (told.title, told.mark, told.headline, told.rule, told.words) == (
        (why.title, why.mark, why.headline, why.rule, why.words)
    )
    assert [(r.label, r.value, r.note) for r in told.rows] == [(r.label, r.value, r.note) for r in why.rows]
    assert (told.cost, told.rank) == (why.cost or "", why.rank or "")
    caveat = f" ({why.flip.caveat})" if why.flip and why.flip.caveat else ""
    assert told.flip == (f"{why.flip.text}{caveat}" if why.flip else why.otherwise or "")
    left = why.residual
    assert [(e.shown, e.text, e.drawn) for e in told.entries] == (
        [(e.shown, e.text, e.drawn) for e in left.entries] if left else []
    )
    return 1


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_moment_says_what_the_frames_say(name: str) -> None:
    player = _player(read_events(RECORDINGS[name]))
    n = len(player.run.rounds)
    wanted = sorted({*range(min(_AT_BEGIN, n)), *range(max(0, n - _AT_END), n)})
    assert sum(_compare(player, index) for index in wanted) > 10


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_head_holds_the_text_and_every_round(name: str) -> None:
    player = _player(read_events(RECORDINGS[name]))
    found = head(player.builder, name)
    run = player.run
    assert len(found.points) == len(run.rounds) == sum(query.n_rounds for query in found.queries)
    assert [p.rejected for p in found.points] == [record.rejected for record in run.rounds]
    texts = ["".join(text for text, _, _ in p.tokens) for p in found.points]
    for query, told in zip(run.queries, found.queries, strict=True):
        tokens = [token for token in query.tokens if token.mark != "prompt"]
        written = "".join(token.running.replace("⏎", "⏎\n") for token in tokens)
        assert "".join(texts[told.first : told.first + told.n_rounds]) == written


def test_a_gauge_decides_as_the_test_did() -> None:
    """`u` lies in the band exactly where the node was kept, in every test of a sampled run."""
    player, n = _player(make_events(shape="tree", temperature=0.7, new_tokens=32)), 0
    for index in range(len(player.run.rounds)):
        for why in one_round(player.builder, index).whys:
            if why.gauge is not None and why.mark in ("accepted", "rejected"):
                n += 1
                assert (why.gauge.lo <= why.gauge.u < why.gauge.hi) == (why.mark == "accepted"), why
    assert n > 10


def test_nothing_is_told_before_its_time() -> None:
    """While the draft grows there is no p; before its test a node has no u and no verdict."""
    player = _player(make_events(temperature=0.8, new_tokens=40))
    seen = 0
    for index in range(len(player.run.rounds)):
        page = one_round(player.builder, index)
        for moment, states in zip(page.moments, _played(page), strict=True):
            for state in states.values():
                if moment.phase == 2 and state["mark"] == "drafted":
                    seen += 1
                    assert not state.keys() & {"p", "u"}
                    assert "p  target" not in [row.label for row in page.whys[state["why"]].rows]
    assert seen > 10


_HOSTILE = "\x1b[2J</script><img src=x>\u202e"


def test_hostile_tokens_are_escaped() -> None:
    """What moves a cursor or hides is gone from every text; markup stays what it is, characters."""
    player = _player([_spelled(event) for event in make_events(temperature=0.8, new_tokens=40)])
    whole = b"".join(document(player.builder, "hostile")).decode()
    told: dict[str, Any] = json.loads(whole)
    assert len(told["rounds"]) == len(player.run.rounds)
    assert "</script><img src=x>" in whole
    for hidden in ("\x1b", "\u202e", "\\u001b", "\\u202e"):
        assert hidden not in whole
    assert "⟨1B⟩" in whole
    assert "⟨202E⟩" in whole


def _spelled(event: Event) -> Event:
    """Every token of a record spelled by somebody who means harm."""
    if isinstance(event, Node | Closing):
        return msgspec.structs.replace(event, text=_HOSTILE)
    if isinstance(event, Commit):
        return msgspec.structs.replace(event, texts=[_HOSTILE] * len(event.texts))
    return event


def test_a_round_that_is_not_there_is_refused() -> None:
    player = _player(make_events(new_tokens=4))
    with pytest.raises(IndexError):
        one_round(player.builder, len(player.run.rounds))


def test_a_level_of_which_nothing_is_sent_says_so() -> None:
    """Drafts of block drafters go deeper than what is kept of them."""
    player, seen = _player(read_events(RECORDINGS["code-specblock"])), 0
    for index in range(len(player.run.rounds)):
        for moment in one_round(player.builder, index).moments:
            if moment.phase == 2 and not moment.fresh:
                seen += 1
                assert "nothing of it is sent" in moment.say
            assert moment.say.strip() not in ("", ".")
    assert seen


def test_the_last_sentence_counts_what_was_written() -> None:
    """Also where a trace holds no tree: the marks of the text tell it."""
    for level in ("full", "none"):
        player = _player(make_events(temperature=0.8, new_tokens=40, level=level))
        for index, record in enumerate(player.run.rounds):
            said = one_round(player.builder, index).moments[-1].say
            assert record.commit is not None
            kept = record.commit.kinds.count("accepted")
            n = len(record.commit.tokens)
            assert f"writes {n} token" in said
            assert (f"{kept} accepted" in said) == bool(kept)
            assert ("recovered one" in said) == ("recovered" in record.commit.kinds)


def test_what_is_folded_is_counted_where_it_stood() -> None:
    player = _player(make_events(shape="tree", temperature=0.7))
    n_folds = 0
    for index in range(len(player.run.rounds)):
        options = Options(folding="losers")
        page = one_round(player.builder, index, options)
        frame = player.builder.frame(_last(player, index), options, Feed())
        assert page.folds == tuple((fold.column, fold.row, fold.text) for fold in frame.tree.folds)
        assert {node.id for node in page.nodes} >= {node.id for node in frame.tree.nodes}
        n_folds += len(page.folds)
        assert not one_round(player.builder, index, Options(folding="none")).folds
    assert n_folds


def test_nodes_say_where_they_came_from_where_that_is_asked_for() -> None:
    player = _player(rank_events())
    options = Options(shown=("ranks",))
    found = RanksPanel.of(player.builder.frame(_last(player, 1), options, Feed()))
    assert found is not None
    assert found.badges
    for node in one_round(player.builder, 1, options).nodes:
        assert node.badge == found.badges.get(node.id, "")
    assert not any(node.badge for node in one_round(player.builder, 1).nodes)


def _last(player: Player, index: int) -> Cursor:
    at = player.builder.steps(index)
    return at.cursor(index, len(at.moments) - 1)
