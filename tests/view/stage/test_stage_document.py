"""The stage's document against the frames of every recording: the same marks, words and numbers at every moment."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from specviz.events import Closing, Commit, Event, Node
from specviz.numerals import prob
from specviz.trace import read_events
from specviz.view import Cursor, Feed, Options, Player
from specviz.view.frame.frame import TreeNode
from specviz.view.frame.parts import Why
from specviz.view.panels.ranks.build import RanksPanel
from specviz.view.stage.document import document, head, one_round, wire
from specviz.view.stage.parts import StageMoment, StageRound
from specviz.view.words.numbers import ratio
from support.rank_trace import rank_events
from support.recordings import RECORDINGS
from support.traces import make_events

# What the browser works out by itself: the look of a mark, the cursor, what has just changed, the value that is chosen.
NOT_SENT = ("glyph", "word", "cursor", "fresh", "value", "bar")
_AT_BEGIN, _AT_END = 2, 1  # rounds of a recording that are gone through


def _player(events: list[Event]) -> Player:
    player = Player(animate=False)
    player.extend(events)
    return player


def _seen(page: StageRound, moment: StageMoment) -> dict[int, tuple[TreeNode, Why]]:
    """What a painter knows of every node at a moment."""
    return {
        page.looks[at].id: (page.looks[at], page.whys[why]) for at, why in zip(moment.nodes, moment.whys, strict=True)
    }


def _compare(player: Player, index: int) -> int:
    """Every moment of a round; how many reasons were compared."""
    page, builder, n = one_round(player.builder, index), player.builder, 0
    assert len(set(page.looks)) == len(page.looks)
    assert len(set(page.whys)) == len(page.whys)
    steps = builder.steps(index).moments
    assert len(steps) == len(page.moments)
    for (phase, step), moment in zip(steps, page.moments, strict=True):
        cursor = Cursor(index, phase, step)
        frame = builder.frame(cursor, Options(), Feed())
        assert (moment.phase, moment.phase_text) == (int(phase), frame.phase_text)
        assert (moment.selected, moment.counts) == (frame.selected, frame.counts)
        assert [page.texts[at] for at in moment.texts] == [t for t in frame.strip.tokens if t.provisional]
        assert set(moment.fresh) == {node.id for node in frame.tree.nodes if node.fresh}
        seen = _seen(page, moment)
        assert seen.keys() == {node.id for node in frame.tree.nodes}
        for node in frame.tree.nodes:
            look, reasons = seen[node.id]
            assert look == replace(node, **{name: getattr(look, name) for name in NOT_SENT})
            v, texts = node.values, look.texts
            chance = v.q if v.q is not None else v.conf
            assert (texts.q, texts.p, texts.u) == tuple("" if x is None else prob(x) for x in (chance, v.p, v.u))
            assert texts.ratio == ("" if v.ratio is None else ratio(v.ratio))
            chosen = builder.frame(cursor, Options(selected=node.id), Feed()).why
            assert chosen is not None
            assert reasons == replace(chosen, glyph="", decided=True)
            n += 1
    assert [text for text, _, _ in page.knobs] == [item.text for item in frame.knobs.items]
    return n


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_moment_says_what_the_frames_say(name: str) -> None:
    player = _player(read_events(RECORDINGS[name]))
    n = len(player.run.rounds)
    wanted = sorted({*range(min(_AT_BEGIN, n)), *range(max(0, n - _AT_END), n)})
    assert sum(_compare(player, index) for index in wanted) > 10


@pytest.mark.parametrize("name", RECORDINGS)
def test_the_head_holds_the_text_and_every_round(name: str) -> None:
    player = _player(read_events(RECORDINGS[name]))
    page = head(player.builder, name)
    run = player.run
    assert len(page.points) == len(run.rounds) == sum(query.n_rounds for query in page.queries)
    assert [p.rejected for p in page.points] == [record.rejected for record in run.rounds]
    texts = ["".join(text for text, _, _ in p.tokens) for p in page.points]
    for query, entry in zip(run.queries, page.queries, strict=True):
        tokens = [token for token in query.tokens if token.mark != "prompt"]
        written = "".join(token.running.replace("⏎", "⏎\n") for token in tokens)
        assert "".join(texts[entry.first : entry.first + entry.n_rounds]) == written


def test_a_gauge_decides_as_the_test_did() -> None:
    """`u` lies in the band exactly where the node was kept, in every test of a sampled run."""
    player, n = _player(make_events(shape="tree", temperature=0.7, new_tokens=32)), 0
    for index in range(len(player.run.rounds)):
        for look in json.loads(wire(one_round(player.builder, index)))["looks"]:
            v = look["values"]
            if "u" in v and look["mark"] in ("accepted", "rejected"):
                n += 1
                lo, hi = (v["lo"], v["hi"]) if "lo" in v else (0.0, v["thr"])
                assert (lo <= v["u"] < hi) == (look["mark"] == "accepted"), look
    assert n > 10


def test_nothing_is_told_before_its_time() -> None:
    """While the draft grows there is no p; before its test a node has no u and no verdict."""
    player = _player(make_events(temperature=0.8, new_tokens=40))
    seen = 0
    for index in range(len(player.run.rounds)):
        page = one_round(player.builder, index)
        for moment in page.moments:
            for look, why in _seen(page, moment).values():
                if moment.phase == 2 and look.mark == "drafted":
                    seen += 1
                    assert (look.texts.p, look.texts.u) == ("", "")
                    assert (look.values.p, look.values.u) == (None, None)
                    assert "p  target" not in [row.label for row in why.rows]
    assert seen > 10


_HOSTILE = "\x1b[2J</script><img src=x>\u202e"


def test_hostile_tokens_are_escaped() -> None:
    """What moves a cursor or hides is gone from every text; markup stays what it is, characters."""
    player = _player([_spelled(event) for event in make_events(temperature=0.8, new_tokens=40)])
    whole = b"".join(document(player.builder, "hostile")).decode()
    page: dict[str, Any] = json.loads(whole)
    assert len(page["rounds"]) == len(player.run.rounds)
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
                assert "nothing of it is sent" in moment.sentence
            assert moment.sentence.strip() not in ("", ".")
    assert seen


def test_the_last_sentence_counts_what_was_written() -> None:
    """Also where a trace holds no tree: the marks of the text tell it."""
    for level in ("full", "none"):
        player = _player(make_events(temperature=0.8, new_tokens=40, level=level))
        for index, record in enumerate(player.run.rounds):
            words = one_round(player.builder, index).moments[-1].sentence
            assert record.commit is not None
            kept = record.commit.kinds.count("accepted")
            n = len(record.commit.tokens)
            assert f"writes {n} token" in words
            assert (f"{kept} accepted" in words) == bool(kept)
            assert ("recovered one" in words) == ("recovered" in record.commit.kinds)


def test_what_is_folded_is_counted_where_it_stood() -> None:
    player = _player(make_events(shape="tree", temperature=0.7))
    n_folds = 0
    for index in range(len(player.run.rounds)):
        options = Options(folding="losers")
        page = one_round(player.builder, index, options)
        frame = player.builder.frame(_last(player, index), options, Feed())
        assert page.folds == frame.tree.folds
        assert {node.id for node in page.looks} >= {node.id for node in frame.tree.nodes}
        n_folds += len(page.folds)
        assert not one_round(player.builder, index, Options(folding="none")).folds
    assert n_folds


def test_nodes_say_where_they_came_from_where_that_is_asked_for() -> None:
    player = _player(rank_events())
    options = Options(shown=("ranks",))
    panel = RanksPanel.of(player.builder.frame(_last(player, 1), options, Feed()))
    assert panel is not None
    assert panel.badges
    assert one_round(player.builder, 1, options).badges == panel.badges
    assert not one_round(player.builder, 1).badges


def _last(player: Player, index: int) -> Cursor:
    at = player.builder.steps(index)
    return at.cursor(index, len(at.moments) - 1)
