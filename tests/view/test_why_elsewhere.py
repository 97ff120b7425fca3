"""Why of a run that another engine decided: by its rule, with the numbers that are on record, and no others."""

import itertools
from pathlib import Path

import pytest

from specviz.runlog.fold import fold
from specviz.runlog.tree import RoundTree
from specviz.trace import Writer, read_events
from specviz.trace.rules import RULES
from specviz.view import Options, Player
from specviz.view.frame.parts import Why
from specviz.view.why.node_context import why_no_chain
from specviz.view.words.palette import CLOSING


def _whys(path: Path, rule: str, q: float | None, p: float | None, u: float | None, t: float) -> dict[int, Why]:
    """Of a round of three tokens, of which the second was refused, and of the token that closed it."""
    with Writer(path, "engine", rule=rule, temperature=t) as trace:
        trace.request(n_prompt=3)
        trace.round()
        for k, word in enumerate("abc"):
            number = None if u is None else u if k == 0 else 0.99
            trace.drafted(k, word, q=q, p=p, u=number)
        trace.committed([0, 9], ["a", "z"], p=p)
    player = Player(fold(read_events(trace.path)))
    player.seek_index(0)
    whys = {}
    for node in (*player.run.rounds[0].nodes, CLOSING):
        why = player.frame(Options(selected=node)).why
        assert why is not None
        whys[node] = why
    return whys


@pytest.mark.parametrize("rule", RULES)
def test_no_sentence_leans_on_a_number_that_is_not_there(rule: str, tmp_path: Path) -> None:
    numbers = itertools.product((None, 0.5), (None, 0.3), (None, 0.2), (0.0, 0.8))
    for n, (q, p, u, t) in enumerate(numbers):
        for why in _whys(tmp_path / f"{n}", rule, q, p, u, t).values():
            assert "—" not in why.words, (q, p, u, t)


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if not rule.verifier and name != "unknown"])
def test_a_rule_of_its_own_is_told_in_its_own_words(rule: str, tmp_path: Path) -> None:
    """At temperature 0 as well: what a coin keeps says nothing of the target's likeliest token."""
    for t in (0.0, 0.8):
        whys = _whys(tmp_path / f"{t}", rule, 0.5, None, None, t)
        kept, refused, _, closing = whys.values()
        for why, done in ((kept, "kept"), (refused, "refused")):
            assert RULES[rule].how[1:] in why.words
            assert f"The engine {done} it" in why.words
            assert why.rule == f"{rule}: the engine's own rule"
        assert closing.rule == "the engine's own rule"
        assert closing.words == "b did not stay, and the engine closes the round with z."


def test_a_refused_token_that_nobody_named_is_not_blamed(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", "engine", rule="p/q", known="decisions", temperature=1.0) as trace:
        trace.round()
        trace.drafted(-1, "(not told)", top=[(1, 0.6), (2, 0.2)])
        trace.committed([7], ["x"])
    player = Player(fold(read_events(trace.path)))
    player.seek_index(0)
    why = player.frame(Options(selected=0)).why
    assert why is not None
    assert why.words == "The engine refused what it had drafted here; which token that was is not on record."
    assert why.rule == "tokenwise: keep if u < p/q"
    assert "decisions are known: a scan needs p and q" in why_no_chain(
        player.run,
        RoundTree(player.run.rounds[0]),
    )
