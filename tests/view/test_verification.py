"""The screen HSD as a view: case D as a frame, one step at a time, and every reason for nothing.

Numbers are worked out from its rows (`support.worked_trace`) by hand.
"""

import math
from typing import Any

import pytest

from specviz.runlog.fold import fold
from specviz.view import Options, Player
from specviz.view.frame.frame import Frame
from specviz.view.panels.overview.build import overview
from specviz.view.panels.verification.build import VerificationPanel
from specviz.view.panels.verification.model import Scan, VerificationModel
from support.traces import make_events
from support.worked_trace import P, Q, worked_events

SCREEN = Options(shown=("verification",))


def player(*events: Any, **worked: Any) -> Player:
    return Player(fold(events or worked_events(**worked)), animate=False)


def shown(at: Player, options: Options = SCREEN) -> VerificationModel:
    panel = VerificationPanel.of(at.frame(options))
    assert panel is not None
    return panel


def scan(at: Player, options: Options = SCREEN) -> Scan:
    panel = shown(at, options).scan
    assert panel is not None
    return panel


def cells(table: Scan) -> dict[str, tuple[str, ...]]:
    return {row.key: row.cells for row in table.rows}


def test_case_d_looks_as_designed() -> None:
    panel = scan(player())
    assert panel.title.split(" · ") == [
        "Round 37",
        "γ=6",
        "rule hsd (lossless, = blockwise)",
        "keep the LONGEST prefix that passes, scanning right to left",
    ]
    assert cells(panel) == {
        "t": ("1", "2", "3", "4", "5", "6"),
        "draft": ("she", "▁work", "ed", "▁45", "-", "▁40"),
        "r": (".820", "1.03", "1.59", "6.12", "0", "0"),
        "c": (".820", "1", "1", "1", "0", "0"),
        "d": (".025│.205", ".280│.280", ".453│.453", ".300│.300", "0│1", "—"),
        "h": (".123", "1", "1", "1", "0", "0"),
        "u": (".900", ".350", ".710", ".270", ".440", ".080"),
        "verdict": ("✓ kept*", "✓ kept", "✓ kept", "✓ STOP", "✗ failed", "✗ failed"),
        "token": ("✗ .820", "·", "·", "·", "·", "·"),
    }
    helps = {row.key: row.help for row in panel.rows}
    assert helps["verdict"] == "* alone it would fail: .900 ≥ .123"
    assert helps["token"] == "same u: stops at 1, keeps nothing"


def test_case_d_has_the_numbers_of_the_specification() -> None:
    columns = scan(player()).columns
    assert [c.log_r for c in columns[:4]] == pytest.approx([math.log(r) for r in (0.82, 1.03, 1.59, 6.12)], abs=1e-5)
    assert [c.c for c in columns] == pytest.approx([0.82, 1, 1, 1, 0, 0], abs=1e-6)
    plus, minus = [c.d_plus for c in columns], [c.d_minus for c in columns]
    assert plus[:5] == pytest.approx([0.02525, 0.28, 0.453, 0.3, 0], abs=1e-6)
    assert minus[:5] == pytest.approx([0.20525, 0.28, 0.453, 0.3, 1], abs=1e-6)
    assert (plus[5], minus[5]) == (None, None)
    assert columns[0].h == pytest.approx(101 / 821, abs=1e-9)
    assert [c.alone_failed for c in columns] == [True, False, False, False, False, False]


def test_the_branches_show_the_root_too() -> None:
    branches = shown(player()).branches
    assert [b.t for b in branches] == [0, 1, 2, 3, 4, 5]
    assert (branches[0].d_plus, branches[0].d_minus) == pytest.approx((0.09, 0.09))
    assert [b.agreed + b.d_minus for b in branches] == pytest.approx([1] * 6, abs=1e-6)  # the draft's mass
    weights = [1, 0.82, 1, 1, 1, 0]
    assert [b.agreed + b.d_plus for b in branches] == pytest.approx(weights, abs=1e-5)  # the target's, weighted with c
    assert [b.stop for b in branches] == [False, False, False, False, True, False]


def test_the_staircase_reflects_below_its_running_maximum() -> None:
    stairs = shown(player()).stairs
    assert stairs is not None
    for k in range(5):
        r, c = stairs.log_r[k], stairs.log_c[k]
        assert r is not None
        assert c is not None
        assert stairs.cap[k] == max(0.0, *(x for x in stairs.log_r[: k + 1] if x is not None))
        assert c == pytest.approx(r - stairs.cap[k], abs=1e-5)
    assert stairs.log_r[5:] == (None, None)
    assert stairs.cap[4:] == (stairs.cap[4],) * 3


def test_the_residual_at_the_stop_stands_against_p_and_q() -> None:
    row = shown(player()).closing
    assert row is not None
    assert row.title == "Residual max(0, c·p − q), c 1: mass .300"
    assert [(e.shown, e.p, e.q) for e in row.entries] == [("▁hours", 0.75, 0.5), ("▁h", 0.25, 0.2)]
    assert [e.share for e in row.entries] == pytest.approx([5 / 6, 1 / 6])
    assert [e.left for e in row.entries] == pytest.approx([0.25, 0.05])


def test_naive_shows_its_own_residual() -> None:
    row = shown(player(verifier="hsd_naive")).closing
    assert row is not None
    assert (row.p_label, row.q_label) == ("p", "q/r")
    assert [e.share for e in row.entries] == pytest.approx([0.754613, 0.245387], abs=1e-5)
    assert [e.left for e in row.entries] == pytest.approx([0.75 - 0.5 / 6.12, 0.25 - 0.2 / 6.12], abs=1e-5)


def test_a_step_is_a_column_from_right_to_left() -> None:
    at = player()
    at.seek_index(0)
    for _ in range(5):  # commit, close, three tests
        at.prev_step()
    seen = []
    for _ in range(4):
        panel = scan(at)
        seen.append([c.t for c in panel.columns if c.decided])
        at.next_step()
    assert seen == [[], [6], [5, 6], [1, 2, 3, 4, 5, 6]]  # the third test passes: what is before it is kept with it


def test_nothing_is_given_away_before_its_time() -> None:
    at = player()
    at.seek_index(0)
    while at.prev_step() and at.frame().phase > 2:
        pass
    panel = shown(at)
    assert panel.scan is not None
    assert {row.key for row in panel.scan.rows} == {"t", "draft", "verdict", "token"}
    assert all(not any(row.cells) for row in panel.scan.rows if row.key in ("verdict", "token"))
    assert (panel.stairs, panel.branches, panel.closing, panel.comparison) == (None, (), None, None)
    while at.frame().phase < 4:
        at.next_step()
    us = next(row for row in scan(at).rows if row.key == "u")
    assert us.cells[:4] == ("", "", "", "")


# Other rules on the same draft --------------------------------------------------------------------------------------


def kept(panel: VerificationModel) -> dict[str, int | None]:
    assert panel.comparison is not None
    return {rule.rule: rule.kept for rule in panel.comparison.rules}


def test_three_rules_on_case_d() -> None:
    assert kept(shown(player())) == {"tokenwise": 0, "hsd": 4, "hsd_naive": 4}
    lucky = (0.1, 0.35, 0.71, 0.27, 0.44, 0.08)  # u_1 < .82: token-wise then keeps 4 too
    assert kept(shown(player(us=lucky))) == {"tokenwise": 4, "hsd": 4, "hsd_naive": 4}


@pytest.mark.parametrize("verifier", ["tokenwise", "blockwise", "hsd", "hsd_naive", "hsd_ref"])
def test_the_comparison_does_not_depend_on_who_judged(verifier: str) -> None:
    panel = shown(player(verifier=verifier))
    if verifier == "tokenwise":  # it tested the first position only: the other uniforms come from the key
        assert kept(panel)["tokenwise"] == 0
        return
    assert {rule: n for rule, n in kept(panel).items() if rule != "hsd_ref"} == kept(shown(player()))


def test_the_expected_numbers_are_those_of_the_whole_draft() -> None:
    panel = shown(player()).comparison
    assert panel is not None
    token, capped, naive = panel.rules
    assert token.expected == pytest.approx(0.82 * 4)  # every later ratio up to the fourth is above 1, then 0
    for rule in (capped, naive):  # at least t are kept unless every test from the end down to t fails
        failed = [math.prod(1 - (h or 0.0) for h in rule.keep[t:]) for t in range(len(rule.keep))]
        assert rule.expected == pytest.approx(sum(1 - test for test in failed))


def test_naive_says_how_many_rounds_it_carries() -> None:
    panel = shown(player()).comparison
    assert panel is not None
    assert panel.rules[2].note == "then 1 carried round"  # gamma 6, kept 4: one more position after the closing token


@pytest.mark.parametrize("verifier", ["tokenwise", "hsd", "blockwise", "hsd_naive"])
def test_a_rule_replayed_is_the_rule_that_ran(verifier: str) -> None:
    run = fold(make_events(temperature=0.8, verifier=verifier, gamma=5, new_tokens=120, seed=11, noise=0.6))
    at = Player(run, animate=False)
    checked = 0
    for record in run.rounds:
        at.seek_index(record.index)
        panel = shown(at)
        if panel.comparison is None or record.end is None or record.end.cut:
            continue
        own = next(rule for rule in panel.comparison.rules if rule.own)
        assert own.kept == record.end.n_accepted
        checked += 1
    assert checked > 10


# Empty states -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ({"temperature": 0.0}, "Temperature 0: nothing is drawn"),
        ({"shape": "tree", "temperature": 0.7}, "This run has no sampled chain"),
        ({"shape": "none", "temperature": 0.7}, "Plain decoding drafts nothing"),
        ({"temperature": 0.7, "level": "none"}, "recorded with --level none"),
        ({"temperature": 0.7, "verifier": "walk"}, "This run has no sampled chain"),
    ],
)
def test_a_run_without_a_scan_says_why_and_what_to_run(recipe: dict[str, Any], words: str) -> None:
    at = Player(fold(make_events(**recipe)), animate=False)
    at.seek_index(0)
    panel = shown(at)
    assert panel.scan is None
    assert panel.missing is not None
    assert words in panel.missing
    assert "--temperature 1 --verifier hsd" in panel.missing


def test_before_the_first_round_there_is_a_reason() -> None:
    panel = shown(Player(fold(make_events(temperature=0.7)[:2]), animate=False))
    assert panel.missing == "waiting for the first round"


def test_a_recording_at_summary_says_what_it_lacks() -> None:
    panel = shown(player(level="summary"))
    assert panel.scan is not None
    assert "only --level full" in panel.scan.note
    rows = cells(panel.scan)
    assert rows["c"] == (".820", "1", "1", "1", "0", "0")  # from logp and logq alone
    assert rows["h"] == (".123", "1", "1", "1", "0", "0")  # recorded with the verdict
    assert rows["d"] == ("—",) * 6
    assert panel.branches == ()
    assert panel.branches_missing is not None
    assert "--level full" in panel.branches_missing
    assert panel.closing is not None
    assert panel.closing.missing is not None


def test_what_cannot_be_told_is_not_guessed() -> None:
    """At summary the keep chance of another rule needs whole rows; a rule is then left out of every mean."""
    at = Player(fold(make_events(temperature=0.8, level="summary", new_tokens=60, gamma=5)), animate=False)
    at.seek_index(0)
    panel = shown(at)
    assert panel.comparison is not None
    assert next(rule for rule in panel.comparison.rules if rule.own).kept is not None
    assert [p.missing is not None for p in panel.paired] == [True, True]


def test_carried_rounds_say_what_they_are() -> None:
    run = fold(make_events(temperature=0.8, verifier="hsd_naive", gamma=5, new_tokens=60, seed=2))
    carried = next(record for record in run.rounds if record.start.carry is not None)
    at = Player(run, animate=False)
    at.seek_index(carried.index)
    panel = shown(at)
    assert panel.missing is not None
    assert "carried round" in panel.missing
    assert panel.survival is not None
    assert panel.survival.missing == ""


def test_a_forward_rule_shows_what_hsd_would_do() -> None:
    panel = scan(player(verifier="tokenwise"))
    assert "what hsd would do" in panel.title
    rows = {row.key: row for row in panel.rows}
    assert (rows["verdict"].label, rows["token"].label) == ("hsd", "token-wise")
    assert rows["token"].help == "this run: keeps nothing"


# The badge ----------------------------------------------------------------------------------------------------------


def frame(**worked: Any) -> Frame:
    return player(**worked).frame()


def test_what_is_not_lossless_says_how_far_off_it_is() -> None:
    run = frame(verifier="hsd_ref").run
    assert (run.tone, run.badge) == ("broken", "NOT LOSSLESS · TV 1/9 on the toy")
    kept = frame(verifier="hsd").run
    assert (kept.tone, kept.badge) == ("kept", "lossless: same law as plain decoding")


def test_ratios_of_any_size_have_a_text() -> None:
    steep = ((0.99, 0.005, 0.005),) * 41
    flat = ((0.001, 0.5, 0.499),) * 40
    panel = scan(player(p=steep, q=flat, us=(0.5,) * 40, texts=("a",) * 40))
    assert cells(panel)["r"][-1] == "6.7e+119"  # 990^40
    assert cells(panel)["c"] == ("1",) * 40
    down = scan(player(p=(*flat, flat[0]), q=steep[:40], us=(0.5,) * 40, texts=("a",) * 40))
    assert cells(down)["r"][-1] == "1.5e-120"
    assert all(len(row.cells) == 40 for row in down.rows)


def test_the_rows_of_case_d_are_laws() -> None:
    assert all(sum(row) == pytest.approx(1) for row in (*P, *Q))


# What other screens say of a backward scan --------------------------------------------------------------------------


def test_the_counts_of_a_scan_tell_what_came_along() -> None:
    assert player().frame().counts.text == "6 drafted · tested 3: ✓1 ✗2 · kept with them ✓3 · recovered ↻1"
    none = make_events(temperature=0.8, verifier="hsd", gamma=4, level="none")
    at = Player(fold(none), animate=False)
    for record in at.run.rounds:
        at.seek_index(record.index)
        assert record.end is not None
        counts = at.frame().counts
        if record.end.n_drafted:
            assert f"✗{record.end.n_drafted - record.end.n_accepted}" in counts.text
            assert "tested" not in counts.text


def test_the_overview_counts_what_the_verdicts_say() -> None:
    run = fold(worked_events())
    blocks = overview(run).blocks
    assert blocks is not None
    assert {curve.mark: curve.ys for curve in blocks.marks.curves} == {
        "accepted": (4,),
        "rejected": (2,),
        "untested": (0,),
    }
    none = fold(make_events(temperature=0.8, verifier="hsd", gamma=4, level="none"))
    assert none.end is not None
    parts = overview(none).blocks
    assert parts is not None
    n_drafted = sum(record.end.n_drafted for record in none.rounds if record.end)
    assert sum(curve.ys[0] or 0 for curve in parts.marks.curves) == n_drafted


def test_the_prefix_on_trial_is_in_the_text() -> None:
    at = player()
    at.seek_index(0)
    while at.frame().phase > 4:
        at.prev_step()
    at.prev_step()
    at.prev_step()  # position 5 comes next
    words = [token.shown for token in at.frame().strip.tokens if token.provisional]
    assert words == ["she", "▁work", "ed", "▁45", "-"]


def test_a_per_position_rate_says_why_it_is_missing() -> None:
    blocks = overview(fold(worked_events())).blocks
    assert blocks is not None
    missing = {curve.key: curve.missing for curve in blocks.curves}
    assert "see survival" in missing["position_acceptance"]
    assert missing["survival"] == ""


def test_without_one_chain_survival_is_observed_only() -> None:
    at = Player(fold(make_events(shape="tree", temperature=0.7, new_tokens=40)), animate=False)
    at.seek_index(0)
    survival = shown(at).survival
    assert survival is not None
    assert [curve.name for curve in survival.curves] == ["observed"]
    assert survival.xs
    assert survival.words.startswith("Observed only")


def test_a_drawn_token_outside_the_recorded_row_is_listed() -> None:
    at = player()
    closing = at.run.rounds[0].closing
    assert closing is not None
    assert closing.row is not None
    closing.row = [entry for entry in closing.row if entry[0] != closing.token]
    closing.interval = (0.49, 0.51)
    row = shown(at).closing
    assert row is not None
    drawn = next(e for e in row.entries if e.drawn)
    assert (drawn.shown, drawn.q, drawn.share) == ("▁hours", None, pytest.approx(0.02))
    assert drawn.left == pytest.approx(0.02 * 0.3)
