"""The card of a run that another engine made."""

from pathlib import Path

import pytest

from specviz.cli.look.stats import measure_file
from specviz.runlog.fold import fold
from specviz.trace import Writer, read_events
from specviz.trace.rules import RULES
from specviz.view import Cursor, Feed, Options
from specviz.view.frame.judgement import RunCard
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.document import head
from specviz.view.words.palette import TONES


def _card(path: Path) -> RunCard:
    card = measure_file(path).judgement.card
    assert card is not None
    return card


def _counts(path: Path, reported: dict[str, int]) -> RunCard:
    """Two unlike requests of four rounds and one, counts alone."""
    with Writer(path, "engine", rule="coin", known="counts", version="7") as writer:
        for kept in ([4, 4, 4, 4], [0]):
            writer.request()
            for n in kept:
                writer.round(n_drafted=4)
                writer.committed([-1] * (n + 1), n_accepted=n)
        writer.reported("engine", n_requests=2, **reported)
    return _card(writer.path)


def test_both_denominators_are_told(tmp_path: Path) -> None:
    card = _counts(tmp_path / "a", {})
    assert dict(card.rows)["accepted / drafted"] == ".80 pooled (16 / 20) · .50 mean of 2 requests"
    assert "accepted / tested" not in dict(card.rows)  # these drafts may be trees: nobody says what was tested
    assert dict(card.rows)["tokens a drafting round"] == "4.2 pooled (5 rounds) · 3 mean of 2 requests"


def test_a_promise_that_is_none_is_not_sound(tmp_path: Path) -> None:
    card = _counts(tmp_path / "a", {})
    assert card.tone == "broken"
    assert dict(card.rows)["promise"].startswith("OUTPUT INVALID")
    assert card.title == "engine 7"


def test_a_promise_has_one_tone_wherever_it_is_told(tmp_path: Path) -> None:
    all_tones = set()
    for name, rule in RULES.items():
        with Writer(tmp_path / name.replace("/", "-"), "engine", rule=name, known="counts") as writer:
            writer.request()
            writer.round(n_drafted=1)
            writer.committed([3], n_accepted=0)
        run = fold(read_events(writer.path))
        builder = FrameBuilder(run)
        shown = builder.frame(Cursor(), Options(), Feed()).run
        tones = {shown.tone, head(builder, "a").tone, _card(writer.path).tone}
        assert tones == {{"same law": "kept", "unknown": "open"}.get(rule.promise, "broken")}
        all_tones |= tones
    assert all_tones == set(TONES)


@pytest.mark.parametrize(
    ("reported", "wrong"),
    [
        ({"n_drafted": 20, "n_accepted": 16, "n_rounds": 5, "n_emitted": 21}, ""),
        ({"n_drafted": 24, "n_accepted": 16}, "counted 24 drafted tokens, its rounds add up to 20"),
        ({"n_drafted": 20, "n_accepted": 21}, "counted 21 accepted tokens of 20 drafted"),
        ({"histogram": [1, 0, 0, 0, 4], "n_rounds": 5, "n_accepted": 16}, ""),
        ({"histogram": [1, 0, 0, 4], "n_rounds": 5, "n_accepted": 16}, "holds 12 accepted tokens, not 16"),
        ({"accepted_per_position": [4, 5, 4, 3], "n_accepted": 16}, "accepted at a position than at the one before"),
        ({"histogram": [0, 1, 0, 1, 3], "n_rounds": 5, "n_accepted": 16}, "0, 1, 0, 1, 3 rounds by tokens kept"),
        ({"accepted_per_position": [4, 4, 4, 4], "n_accepted": 16}, ""),
        ({"accepted_per_position": [5, 4, 4, 3], "n_accepted": 16}, "its rounds add up to 4, 4, 4, 4"),
    ],
)
def test_identities_are_checked_and_violations_said(tmp_path: Path, reported: dict[str, int], wrong: str) -> None:
    card = _counts(tmp_path / "a", reported)
    assert bool(card.violations) == bool(wrong)
    assert wrong in " ".join(card.violations)


def test_of_many_requests_none_is_forgotten(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", "engine", known="counts") as writer:
        for _ in range(5):
            writer.request()
            writer.round(n_drafted=4)
            writer.committed([-1, -1], n_accepted=1)
            writer.reported("engine", n_rounds=1, n_drafted=4, n_accepted=1)
    card = _card(writer.path)
    assert dict(card.rows)["identities checked"].endswith(
        "3 totals that the engine counted itself against the rounds: all agree"
    )
    assert not card.violations


def test_what_was_tested_is_told_where_drafts_are_chains(tmp_path: Path) -> None:
    with Writer(tmp_path / "a", "engine", known="counts", chains=True) as writer:
        for kept in (3, 0):
            writer.request()
            writer.round(n_drafted=4)
            writer.committed([-1] * (kept + 1), n_accepted=kept)
    assert dict(_card(writer.path).rows)["accepted / tested"] == ".60 pooled (3 / 5) · .38 mean of 2 requests"


@pytest.mark.parametrize("rule", ["one-hot", "exact match"])
def test_of_the_likeliest_tokens_all_rules_keep_the_same(tmp_path: Path, rule: str) -> None:
    """p = .5, then .5 again: .5 + .25 tokens are kept, whatever q was."""
    with Writer(tmp_path / "a", "engine", rule=rule, temperature=1.0) as writer:
        writer.round()
        for token in (1, 2):
            writer.drafted(token, q=0.9, p=0.5)
        writer.committed([1, 9])
    words = dict(_card(writer.path).rows)["other rules on these drafts"]
    assert words.startswith("tokenwise, blockwise and walk .75 tokens kept each, expected over 1 draft")


def test_what_other_rules_keep_is_told_of_whole_drafts(tmp_path: Path) -> None:
    """q = .5 everywhere: p/q is min(1, 2p), drawing follows with p."""
    with Writer(tmp_path / "a", "loop", rule="p/q", temperature=1.0) as writer:
        writer.round()
        for token in (1, 2):
            writer.drafted(token, q=0.5, p=0.25)
        writer.committed([1, 9])
    words = dict(_card(writer.path).rows)["other rules on these drafts"]
    assert words == "tokenwise .75 · walk .31 tokens kept, expected over 1 draft · blockwise .75, an estimate"


def test_rounds_that_nobody_timed_say_nothing_of_speed(tmp_path: Path) -> None:
    """Of answers that are decoded beside each other some rounds have no time: those are no plain rounds of 0 ms."""
    with Writer(tmp_path / "a", "engine", known="counts", chains=True) as writer:
        writer.request()
        for _ in range(10):
            writer.round(n_drafted=0)
            writer.committed([-1], n_accepted=0, took_ns=0)
        for _ in range(10):
            writer.round(n_drafted=4)
            writer.committed([-1, -1], n_accepted=1, took_ns=1_000_000)
    judgement = measure_file(writer.path).judgement
    assert "0×" not in judgement.line
    assert "slower than plain" not in judgement.line
