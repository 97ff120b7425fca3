"""Over real decisions of every kind: sentences agree with the records, flips flip, nothing is said too early."""

import math
from functools import cache

import pytest

from specviz import text
from specviz.events import Closing, Event, Node, Verify, prob
from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.frame.frame import Frame
from specviz.view.words.palette import CLOSING, Phase
from support.traces import Recipe, make_events

RECIPES = [
    Recipe(shape=shape, temperature=t, verifier=v, seed=seed, stops=True, draw=draw, new_tokens=16)
    for seed in (1, 2)
    for shape, t, v, draw in (
        ("chain", 0.0, None, "cdf"),
        ("chain", 0.8, None, "cdf"),
        ("chain", 0.8, "walk", "cdf"),
        ("chain", 0.8, "walk", "race"),
        ("tree", 0.0, None, "cdf"),
        ("tree", 0.8, None, "cdf"),
        ("tree", 0.8, "tokenwise", "cdf"),
        ("none", 0.8, None, "cdf"),
        ("chain", 0.8, "hsd", "cdf"),
        ("chain", 0.8, "blockwise", "race"),
        ("chain", 0.8, "hsd_naive", "cdf"),
        ("chain", 0.8, "hsd_ref", "cdf"),
        ("chain", 0.8, "slack", "cdf"),
    )
]


@pytest.fixture(params=RECIPES, ids=lambda r: f"{r.shape}-T{r.temperature}-{r.rule}-{r.draw}-{r.seed}")
def player(request: pytest.FixtureRequest) -> Player:
    return Player(fold(recorded(request.param)))


@cache
def recorded(recipe: Recipe) -> list[Event]:
    """The events of a recipe, made once."""
    return make_events(recipe)


def every_node(player: Player) -> list[tuple[Frame, Node, Verify | None]]:
    """A frame at the end of each round for each drafted node, selected."""
    out = []
    for record in player.run.rounds:
        player.seek_index(record.index)
        for i, born in record.nodes.items():
            out.append((player.frame(Options(selected=i, folding="none")), born, record.verdicts.get(i)))
    return out


def test_every_node_has_a_sentence_of_its_own_kind(player: Player) -> None:
    for frame, born, verdict in every_node(player):
        assert frame.why is not None
        assert frame.why.node == born.node
        assert "trace does not say" not in frame.why.words
        assert "None" not in frame.why.words
        assert frame.why.words.endswith(".")
        assert len(frame.why.words) < 330
        if verdict is not None and verdict.status == "rejected" and player.run.rounds[0].temperature == 0:
            assert "most likely token" in frame.why.words


def test_panels_hold_no_character_that_a_terminal_obeys(player: Player) -> None:
    """The factory's tokens hold an escape sequence and a stray byte."""
    for frame, _, _ in every_node(player):
        assert frame.why is not None
        lines = [frame.why.title, frame.why.words, frame.why.headline, frame.why.rule, frame.counts.text]
        lines += [n.shown for n in frame.tree.nodes] + [t.running for t in frame.strip.tokens]
        assert all(line.isprintable() for line in lines)


def test_flips_flip(player: Player) -> None:
    """Moved just beyond the flip, the same test decides the other way; just short of it, the same way."""
    seen = 0
    for frame, _, verdict in every_node(player):
        flip = frame.why.flip if frame.why else None
        if flip is None or not flip.caveat or verdict is None or verdict.u is None:
            continue
        seen += 1
        edge = min((flip.lo, flip.hi), key=lambda edge, u=verdict.u: abs(edge - u) if 0 < edge < 1 else math.inf)
        eps = math.copysign(1e-9, edge - verdict.u)
        assert kept(verdict, verdict.u) == (verdict.status == "accepted")
        assert kept(verdict, edge + eps) != kept(verdict, verdict.u)
        assert kept(verdict, edge - eps) == kept(verdict, verdict.u)
    assert (
        seen
        or player.run.rounds[0].temperature == 0
        or not player.run.rounds[0].nodes
        or player.run.rounds[0].closing.u is None
    )


def kept(verdict: Verify, u: float) -> bool:
    """The decision again, from the record."""
    if verdict.kind == "test":
        assert verdict.thr is not None
        return u < verdict.thr
    assert verdict.interval is not None
    return verdict.interval[0] <= u < verdict.interval[1]


def test_greedy_rounds_have_no_flip() -> None:
    player = Player(fold(make_events(Recipe(shape="tree", seed=1))))
    assert all(frame.why is None or frame.why.flip is None for frame, _, _ in every_node(player))


def test_nothing_is_given_away_before_its_time(player: Player) -> None:
    """Until its test is on screen a node shows neither verdict, u, residual nor flip; before the target's pass "
    "not even p."""
    player.first()
    while True:
        cursor = player.cursor
        record = player.run.rounds[cursor.index]
        for verdict in record.verdicts.values():
            if (
                verdict.order is None
                or cursor.phase > Phase.ACCEPT
                or (cursor.phase == Phase.ACCEPT and cursor.step > verdict.order)
            ):
                continue
            frame = player.frame(Options(selected=verdict.node))
            if frame.selected != verdict.node or frame.why is None:
                continue
            assert not frame.why.decided
            assert frame.why.flip is None
            assert frame.why.residual is None
            shown = frame.tree.node(verdict.node)
            assert shown is not None
            assert shown.mark in ("drafted", "testing", "untested")
            assert shown.values.u is None
            assert shown.values.p is None or cursor.phase >= Phase.VERIFY
        if not player.next_step():
            return


def test_the_residual_adds_up_and_holds_the_drawn_token(player: Player) -> None:
    for record in player.run.rounds:
        player.seek_index(record.index)
        why = player.frame(Options(selected=CLOSING)).why
        closing = record.closing
        if why is None or why.residual is None or closing is None or closing.kind == "none" or record.temperature == 0:
            continue
        drawn = [e.shown for e in why.residual.entries if e.drawn]
        listed = closing.interval is not None or closing.token in [entry[0] for entry in closing.row or []]
        assert drawn == ([player.run.word(closing.token or 0)] if listed else [])
        assert sum(e.prob for e in why.residual.entries) < 1 + 1e-6


def test_ratio_shown_is_the_threshold_of_the_test() -> None:
    """p/q capped at 1 is what u was compared with."""
    player = Player(fold(make_events(Recipe(temperature=0.8, seed=4))))
    for _, born, verdict in every_node(player):
        if verdict is not None and verdict.order is not None:
            p, q = prob(verdict.logp), prob(born.logq)
            assert p is not None
            assert q is not None
            assert verdict.thr == pytest.approx(min(1, p / q), rel=1e-5)


@pytest.mark.parametrize("level", ["summary", "none"])
def test_what_is_not_recorded_is_said_to_be_missing(level: str) -> None:
    player = Player(fold(make_events(Recipe(temperature=0.8, seed=2, level=level))))
    frame = player.frame()
    if level == "none":
        player.seek("r1")
        frame = player.frame()
        assert frame.tree.missing is not None
        assert "level none" in frame.tree.missing
        assert [n.id for n in frame.tree.nodes] == [-1]
        assert frame.why is not None
        assert "not on record" in frame.why.words
    else:
        assert frame.tree.missing is None
        player.seek_index(0)
        why = player.frame(Options(selected=CLOSING)).why
        assert why is not None
        assert why.residual is None or all(e.drawn for e in why.residual.entries)


def test_the_wording_survives_ascii() -> None:
    player = Player(fold(make_events(Recipe(shape="tree", temperature=0.8, seed=2))))
    for frame, _, _ in every_node(player):
        assert frame.why is not None
        assert text.ascii_only(frame.why.words).isascii()


def test_a_closing_without_a_token_is_no_node() -> None:
    events = make_events(Recipe(temperature=0.8, seed=3, stops=True))
    ended = [e.r for e in events if isinstance(e, Closing) and e.kind == "none"]
    player = Player(fold(events))
    for r in ended:
        player.seek(f"r{r}")
        frame = player.frame(Options(selected=CLOSING))
        assert frame.tree.node(CLOSING) is None
        assert frame.selected != CLOSING
