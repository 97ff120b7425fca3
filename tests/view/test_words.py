"""The sentences, word for word. Each round is the smallest in which the thing happens."""

import re

import msgspec
import pytest

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import ROOT, Options, Player
from specviz.view.blocks import Plot
from specviz.view.panels.lanes.text import steps
from specviz.view.words import palette
from specviz.view.words.palette import CLOSING, Phase
from support.recordings import RECORDINGS
from support.traces import make_events, plain_round, plain_run
from view.small_rounds import a_round, closing, drawn, judged, node, panel, untested, words

RUG = closing("recovered", " rug", mass=0.38, logp=-0.5)


# tokenwise over drawn tokens: u against p/q -------------------------------------------------------------------------


def test_too_sure_and_unlucky() -> None:
    run = a_round(node(0, " mat", q=0.41), judged(0, 0.12, 0.713, 0.12 / 0.41, 0, q=0.41), RUG)
    assert words(run, 0) == "The draft was 3.4× too sure. Accept probability 29 %; this u rejects it."


def test_too_sure_and_lucky() -> None:
    run = a_round(node(0, " mat", q=0.41), judged(0, 0.12, 0.2, 0.12 / 0.41, 0, q=0.41), closing("bonus", " rug", 0))
    assert words(run, 0) == "The draft was 3.4× too sure. Accept probability 29 %; this u accepts it."


def test_hardly_too_sure() -> None:
    run = a_round(node(0, " mat", q=0.5), judged(0, 0.48, 0.97, 0.96, 0, q=0.5), RUG)
    expected = (
        "The draft was slightly too sure: .500 against the target's .480. Accept probability 96 %; this u rejects it."
    )
    assert words(run, 0) == expected


def test_the_target_wants_it_more() -> None:
    run = a_round(node(0, " the", q=0.93), judged(0, 0.95, 0.999, 1.0, 0, q=0.93), closing("bonus", " cat", 0))
    expected = "The target wants ▁the at least as much as the draft did (p .950 ≥ q .930), so no draw can reject it."
    assert words(run, 0) == expected


def test_no_chance() -> None:
    run = a_round(node(0, " zzz", q=0.1), judged(0, 0.0, 0.0, 0.0, 0, q=0.1), RUG)
    assert words(run, 0) == "The target gives ▁zzz no chance here: no draw can keep it."


def test_a_failed_sibling_changes_what_is_left() -> None:
    first = [node(0, " mat", q=0.4), judged(0, 0.1, 0.9, 0.25, 0, q=0.4)]
    second = [node(1, " sofa", q=0.2), judged(1, 0.1, 0.9, 0.5, 1, q=0.2)]
    assert words(a_round(*first, *second, RUG), 1) == (
        "The draft was 2× too sure of what is left after its sibling failed. Accept probability 50 %; this u "
        "rejects it."
    )
    gone = [node(1, " sofa", q=0.2), judged(1, 0.0, 0.9, 0.0, 1, q=0.2)]
    assert words(a_round(*first, *gone, RUG), 1) == (
        "Nothing of ▁sofa is left in the target's row after its sibling failed: no draw can keep it."
    )
    liked = [node(1, " sofa", q=0.2), judged(1, 0.3, 0.9, 1.0, 1, q=0.2)]
    assert words(a_round(*first, *liked, closing("bonus", " x", 1)), 1) == (
        "What the target has left after its sibling failed wants ▁sofa at least as much as the draft did, so no "
        "draw can reject it."
    )


# tokenwise over point masses: u against p ---------------------------------------------------------------------------


def test_a_named_token_stays_with_the_targets_own_chance() -> None:
    run = a_round(node(0, " mat"), judged(0, 0.62, 0.213, 0.62, 0), closing("bonus", " x", 0))
    assert words(run, 0) == (
        "The draft only names ▁mat; the target gives it 62 %, and that is its chance to stay. u .213 is below "
        ".620, so it stays."
    )


def test_a_named_token_goes() -> None:
    run = a_round(node(0, " mat"), judged(0, 0.62, 0.913, 0.62, 0), RUG)
    assert words(run, 0) == (
        "The draft only names ▁mat; the target gives it 62 %, and that is its chance to stay. u .913 is not "
        "below .620, so it goes."
    )


def test_a_named_token_after_a_failed_sibling() -> None:
    run = a_round(node(0, " mat"), node(1, " sofa"), judged(0, 0.5, 0.9, 0.5, 0), judged(1, 0.24, 0.1, 0.24, 1), RUG)
    assert words(run, 1) == (
        "After its sibling failed the target has 24 % left for ▁sofa; that is its chance to stay. u .100 is "
        "below .240, so it stays."
    )


# walk: the target draws ---------------------------------------------------------------------------------------------


def walk(*records: object, temperature: float = 0.7, **rest: object):  # type: ignore[no-untyped-def]
    return a_round(*records, verifier="walk", temperature=temperature, **rest)


def test_drawn_and_drafted() -> None:
    run = walk(node(0, " the"), drawn(0, 0.31, (0.10, 0.72), 0), closing("bonus", " x", 0))
    assert words(run, 0) == "The target drew ▁the itself (u .310 falls in [.10, .72)); the draft had it ready."


def test_drawn_and_not_drafted() -> None:
    last = closing("recovered", " rug", interval=(0.61, 0.74))
    two = walk(node(0, " mat"), node(1, " sofa"), drawn(0, 0.713, (0.1, 0.2), 0), drawn(1, 0.713, (0.3, 0.4), 1), last)
    assert words(two, 0) == "The target drew ▁rug (u .713 falls in [.61, .74)); no drafted child is that token."
    one = walk(node(0, " mat"), drawn(0, 0.713, (0.1, 0.2), 0), last)
    assert words(one, 0) == "The target drew ▁rug (u .713 falls in [.61, .74)); the draft had only ▁mat here."


def test_drawn_is_a_sibling() -> None:
    run = walk(
        node(0, " mat"),
        node(1, "("),
        drawn(0, 0.35, (0.1, 0.2), 0),
        drawn(1, 0.35, (0.3, 0.4), 1),
        closing("bonus", " x", 1),
    )
    assert words(run, 0) == "The target drew “(” (u .350 falls in [.30, .40)), a sibling of ▁mat."


def test_no_chance_to_be_drawn() -> None:
    last = closing("recovered", " rug", interval=(0.61, 0.74))
    run = walk(node(0, " mat"), node(1, " sofa"), drawn(0, 0.713, (0.2, 0.2), 0), drawn(1, 0.713, (0.3, 0.4), 1), last)
    assert words(run, 0).endswith("no drafted child is that token. ▁mat has no chance here at all.")


def test_a_race_has_no_interval_to_show() -> None:
    verdict = drawn(0, 0.5, (0.1, 0.2), 0)
    verdict.u = verdict.interval = None
    run = walk(node(0, " mat"), verdict, closing("recovered", " rug", u=None))
    assert words(run, 0) == "The target drew ▁rug; the draft had only ▁mat here."


# Temperature 0 ------------------------------------------------------------------------------------------------------


def test_greedy_hit_and_miss() -> None:
    run = walk(
        node(0, " the"),
        node(1, " mat", parent=0, depth=2),
        drawn(0, 0.4, (0, 1), 0),
        drawn(1, 0.4, (1, 1), 1),
        closing("recovered", " rug", 0),
        temperature=0,
    )
    assert words(run, 0) == "▁the is the target's most likely token here, as the draft guessed."
    assert words(run, 1) == "The target's most likely token here is ▁rug, not ▁mat."
    assert words(run, CLOSING) == "▁rug is the target's most likely token here; it is written in place of ▁mat."


def test_a_greedy_tie_is_said_to_be_one() -> None:
    tied = {"margin": 0.0, "rank_p": 1}
    run = walk(
        node(0, " the"),
        node(1, " mat", parent=0, depth=2),
        msgspec.structs.replace(drawn(0, 0.4, (0, 1), 0), **tied),
        msgspec.structs.replace(drawn(1, 0.4, (1, 1), 1), **tied),
        closing("recovered", " rug", 0),
        temperature=0,
    )
    assert words(run, 0).endswith("as the draft guessed. Another token is exactly as likely: a tie.")
    assert words(run, 1) == "▁rug and ▁mat are equally likely to the target: a tie, of which it takes ▁rug."


def test_greedy_miss_because_of_a_sibling() -> None:
    run = walk(
        node(0, " mat"),
        node(1, " rug"),
        drawn(0, 0.4, (0, 0), 0),
        drawn(1, 0.4, (0, 1), 1),
        closing("bonus", " x", 1),
        temperature=0,
    )
    assert words(run, 0) == "The target's most likely token here is ▁rug, not ▁mat."


def test_greedy_tests_read_like_greedy_draws() -> None:
    run = a_round(node(0, " mat"), judged(0, 0.0, 0.4, 0.0, 0), RUG, temperature=0)
    assert words(run, 0) == "The target's most likely token here is ▁rug, not ▁mat."


# Never tested -------------------------------------------------------------------------------------------------------


def round_tree():  # type: ignore[no-untyped-def]
    """▁mat (rejected) - ▁was - ▁red ; ▁sofa (accepted) ; ▁bed (sibling kept) - ▁old."""
    return a_round(
        node(0, " mat"),
        node(1, " sofa"),
        node(2, " bed"),
        node(3, " was", 0, 2),
        node(4, " old", 2, 2),
        node(5, " red", 3, 3),
        judged(0, 0.5, 0.9, 0.5, 0),
        judged(1, 0.5, 0.1, 0.5, 1),
        untested(2, "sibling_kept"),
        untested(3, "parent_rejected"),
        untested(4, "sibling_kept"),
        untested(5, "prefix_rejected"),
        closing("bonus", " x", 1),
    )


@pytest.mark.parametrize(
    ("i", "expected"),
    [
        (2, "Its sibling ▁sofa was kept at this place, and a text has one token per place."),
        (3, "Its parent ▁mat was rejected, so the text never got here."),
        (4, "Its parent ▁bed lost its place to ▁sofa, so the text never got here."),
        (5, "▁mat, 2 levels up, was rejected, so the text never got here."),
    ],
)
def test_never_tested(i: int, expected: str) -> None:
    assert words(round_tree(), i) == expected


def test_pruned_by_the_budget() -> None:
    run = a_round(node(0, " mat"), node(1, " zoo", kept=False), judged(0, 0.5, 0.9, 0.5, 0), RUG)
    assert words(run, 1) == "Pruned before the target saw it: the node budget (8) went to likelier nodes."


def test_places_behind_a_confidence_bound_name_it_and_no_budget() -> None:
    """A block is filled as a whole and sent as far as it is sure: the rest was lost to the bound."""
    filled = [node(0, " mat"), node(1, " zoo", 0, 2, kept=False), node(2, " rug", 1, 3, kept=False)]
    stop = ev.DraftStep(r=1, pos=filled[1].pos, conf=0.1949, bound=0.2, stopped=True)
    run = a_round(*filled, stop, judged(0, 0.5, 0.9, 0.5, 0), RUG)
    behind = ", where its confidence .195 is below the bound .200."
    assert words(run, 1) == f"Filled with those before it, and not verified: the draft ended here{behind}"
    assert words(run, 2) == f"Filled with those before it, and not verified: the draft ended 1 place before it{behind}"
    assert panel(run, 1).otherwise == "verified with a bound of .194"
    assert panel(run, 2).otherwise is None
    looks, *_ = steps(run, run.rounds[0], {})
    assert isinstance(looks, Plot)
    assert (looks.xs, looks.curves[0].marks) == ((f"{filled[1].pos} {run.word(filled[1].token)}",), ("exit",))


@pytest.mark.parametrize(
    ("finish", "why", "expected"),
    [
        ("eos", "after_stop", "The text ended before it: the end-of-text token came."),
        ("stop", "after_stop", "The text ended before it: a stop text was complete."),
        ("length", "length", "The text reached its length limit before it."),
    ],
)
def test_cut(finish: str, why: str, expected: str) -> None:
    nodes = [node(0, " end"), node(1, " x", 0, 2), judged(0, 0.5, 0.1, 0.5, 0), untested(1, why)]
    assert words(a_round(*nodes, closing("none", None, 0), finish=finish), 1) == expected


def test_a_verdict_that_never_came() -> None:
    assert words(a_round(node(0, " mat")), 0) == "The trace does not say what became of it."


# Backward scans -----------------------------------------------------------------------------------------------------


def scan():  # type: ignore[no-untyped-def]
    kept = judged(0, 0.1, 0.90, 0.123, 2, q=0.2)
    kept.status, kept.why, kept.implied = "accepted", "implied", True
    return a_round(
        node(0, " she", q=0.2),
        node(1, " work", 0, 2, q=0.2),
        node(2, "ed", 1, 3, q=0.2),
        kept,
        judged(1, 0.1, 0.35, 0.7, 1, q=0.2),
        judged(2, 0.1, 0.6, 0.2, 0, q=0.2),
        closing("recovered", " s", 1),
        verifier="hsd",
    )


def test_backward_scan() -> None:
    run = scan()
    assert (
        words(run, 0)
        == "Kept with a longer prefix: the test at depth 2 passed. Alone it would have failed: .900 ≥ .123."
    )
    assert words(run, 1) == (
        "The prefix that ends in ▁work has accept probability 70 %. u .350 is below .700. The scan stops here."
    )
    assert words(run, 2) == (
        "The prefix that ends in ed has accept probability 20 %. u .600 is not below .200, so a shorter prefix is "
        "tried."
    )
    assert panel(run, 0).flip is None  # its own u decided nothing


# The closing token --------------------------------------------------------------------------------------------------


def test_recovered_from_the_residual() -> None:
    last = closing("recovered", " rug", mass=0.38, row=[(900, 0.4, 0.02, 0.31, 0.82), (901, 0.1, 0.0, 0.07, 0.18)])
    run = a_round(node(0, " mat", q=0.41), judged(0, 0.12, 0.713, 0.12 / 0.41, 0, q=0.41), last)
    assert words(run, CLOSING) == (
        "▁mat failed, so one token is drawn from the residual, what the target wants more than the draft gave. It "
        "drew ▁rug, which had 82 % of that."
    )
    residual = panel(run, 0).residual
    assert residual is not None
    assert residual.title == "Residual max(0, p − q): mass .38"
    assert [(e.shown, e.text, e.drawn) for e in residual.entries] == [("▁rug", ".82", True), ("#901", ".18", False)]


def test_recovered_from_a_row_without_what_failed() -> None:
    run = a_round(node(0, " mat"), node(1, " sofa"), judged(0, 0.5, 0.9, 0.5, 0), judged(1, 0.2, 0.9, 0.2, 1), RUG)
    expected = (
        "▁mat and ▁sofa failed, so one token is drawn from the residual, the target's row without what failed. It drew "
        "▁rug."
    )
    assert words(run, CLOSING) == expected


def test_a_residual_without_mass() -> None:
    last = closing("recovered", " rug", mass=0.0, fallback=True)
    run = a_round(node(0, " mat", q=0.5), judged(0, 0.5, 0.99, 0.98, 0, q=0.5), last)
    assert (
        words(run, CLOSING)
        == "▁mat failed, but nothing was left over to draw from, so ▁rug comes from the target's plain row."
    )


def test_bonus() -> None:
    last = closing("bonus", " cat", 0, logp=-0.693147, interval=(0.5, 1.0))
    run = a_round(node(0, " the", q=0.93), judged(0, 0.95, 0.9, 1.0, 0, q=0.93), last)
    assert words(run, CLOSING) == (
        "A drafted path was kept to its end, and the same target pass has one more row after ▁the: a token for free. "
        "It drew ▁cat with chance 50 % (u .713 falls in [.50, 1))."
    )


def test_nothing_drafted() -> None:
    last = closing("bonus", " cat")
    lookup = a_round(last, temperature=0, draft_end="no_match")
    assert words(lookup, CLOSING) == (
        "Nothing earlier in the text matches its last words, so nothing was drafted; the target decodes one "
        "token as in plain "
        "decoding. ▁cat is the target's most likely token there."
    )
    plain = a_round(last, temperature=0, method="ar")
    assert (
        words(plain, CLOSING)
        == "Plain decoding: one target pass, one token. ▁cat is the target's most likely token there."
    )


def test_a_token_with_no_draft_before_it_is_plain_and_no_bonus() -> None:
    """As in plain decoding, and where a drafter found nothing: nothing was kept that it could be a bonus to."""
    lookup = Player(a_round(closing("bonus", " cat"), temperature=0, draft_end="no_match"))
    frame = lookup.frame(Options(selected=CLOSING))
    assert [n.mark for n in frame.tree.nodes] == ["root", "plain"]
    assert frame.strip.tokens[-1].mark == "plain"
    assert palette.glyph(frame.strip.tokens[-1].mark) == "◦"
    assert frame.counts.text == "0 drafted · plain ◦1"
    assert frame.why is not None
    assert (frame.why.glyph, frame.why.headline) == ("◦", "PLAIN · depth 1 · closes the round")
    assert frame.why.title == 'plain "▁cat"'
    lookup.prev_step()
    assert lookup.frame().phase_text == "phase 5/6 PLAIN TOKEN"


def test_a_token_behind_a_kept_draft_is_a_bonus() -> None:
    kept = [node(0, " the", q=0.93), judged(0, 0.95, 0.9, 1.0, 0, q=0.93)]
    player = Player(a_round(*kept, closing("bonus", " cat", 0)))
    assert [n.mark for n in player.frame().tree.nodes] == ["root", "accepted", "bonus"]
    assert [t.mark for t in player.frame().strip.tokens[-2:]] == ["accepted", "bonus"]
    assert player.frame(Options(selected=CLOSING)).why.headline == "BONUS · depth 2 · closes the round"  # type: ignore[union-attr]


@pytest.mark.parametrize(("kept", "mark"), [(0, "plain"), (2, "bonus")])
def test_at_level_none_the_commit_tells_plain_from_bonus(kept: int, mark: str) -> None:
    events = plain_run([plain_round(1, 6, kept, kept, closing="bonus")])
    frame = Player(fold(events)).frame()
    assert frame.strip.tokens[-1].mark == mark


def test_no_headline_gives_away_how_many_tests_there_will_be() -> None:
    """No test follows one that fails: `test 1 of 1` before the verdict is the verdict."""
    player = Player(fold(make_events(temperature=0.8, seed=2, new_tokens=24)))
    player.first()
    before = after = 0
    while player.next_step():
        frame = player.frame()
        if frame.why is None or "test " not in (frame.why.headline + frame.why.words).lower():
            continue
        tests = player.builder.round_tree(frame.cursor.index).tests
        n_made = frame.cursor.step if frame.phase == Phase.ACCEPT else 0 if frame.phase < Phase.ACCEPT else len(tests)
        if n_made < len(tests):
            before += 1
            assert not re.search(r"[Tt]est \d+ of", f"{frame.why.headline} {frame.why.words}")
        elif "test " in frame.why.headline:
            after += 1
            assert f" of {len(tests)}" in frame.why.headline
    assert before > 5
    assert after > 5


def test_guesses_for_a_pool_do_not_wait_for_a_test() -> None:
    """Nodes of lookahead's window stay in no round's verdicts; once theirs is over, nothing is pending."""
    player = Player(fold(read_events(RECORDINGS["code-lookahead"])))
    seen = 0
    for index, record in enumerate(player.run.rounds):
        player.seek_index(index)
        marks = {n.id: n.mark for n in player.frame().tree.nodes}
        seen += not record.verdicts
        assert "drafted" not in marks.values(), record.r
    assert seen > 3, "rounds in which the pool had nothing to offer"


def test_no_closing_token() -> None:
    ended = a_round(node(0, " end"), judged(0, 0.5, 0.1, 0.5, 0), closing("none", None, 0), finish="eos")
    assert words(ended, CLOSING) == "The text ends here: the end-of-text token came. Nothing is drawn after it."
    unfed = a_round(node(0, " end"), judged(0, 0.5, 0.1, 0.5, 0), closing("none", None, 0))
    assert words(unfed, CLOSING) == "The last kept token has no target row of its own, so nothing is drawn after it."


def test_the_root() -> None:
    assert words(round_tree(), ROOT) == (
        "The last token of the text, at position 9: committed, not yet in the target's cache. "
        "The target's pass reads it first, and everything drafted hangs below it."
    )


# The panel around the sentence --------------------------------------------------------------------------------------


def test_the_panel_of_the_mock() -> None:
    run = a_round(
        node(14, " mat", q=0.41),
        node(15, " was", 14, 2, q=0.5),
        judged(14, 0.12, 0.713, 0.12 / 0.41, 0, q=0.41, rank_p=4, rank_q=1),
        untested(15, "parent_rejected"),
        RUG,
    )
    why = panel(run, 14)
    assert why.title == 'n14 "▁mat"'
    assert why.headline == "REJECTED · depth 1 · test 1 of 1"
    assert why.rule == "tokenwise: keep if u < p/q"
    rows = [f"{r.label} {r.value} {r.note}".strip() for r in why.rows]
    assert rows == ["q  draft .410", "p  target .120", "p/q .293", "keep .293", "u .713 ≥ .293"]
    assert why.cost == "1 node below never tested"
    assert why.rank == "the draft ranked it 1st, the target ranks it 4th"
    assert why.flip is not None
    assert why.flip.text == "would be accepted for u < .293, or slack ≥ .42 (lossy rule: no guarantee)"
    assert why.flip.caveat == "this token only"
