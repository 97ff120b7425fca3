"""Proofs by enumeration: golden numbers, and that what is wrong is seen to be wrong."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from specviz.errors import SpecvizError
from specviz.probability.draws import race, uniforms
from specviz.probability.plan import Verifier
from specviz.probability.table_models import (
    CASE_A,
    CASE_B,
    CASE_C,
    Iid,
    Problem,
    exact_row,
    law,
)
from specviz.verifiers import all_verifiers, get_verifier
from specviz_lab.prove import known
from specviz_lab.prove.controls import CONTROLS, WrongRule, catch, registered
from specviz_lab.prove.jobs import QUICK, Job, Subject, case_jobs, case_subjects
from specviz_lab.prove.known import closed_form, shared_by_race
from specviz_lab.prove.layouts import LAYOUTS, draw, meant_for, misfit
from specviz_lab.prove.proof import Proof, Rule, prove, rounds_of
from specviz_lab.prove.report import ProvedJob, as_object, full, number, verdict
from specviz_lab.prove.rounds import RoundPlayer

WHOLE = [job for job in case_jobs([], case_subjects("ABC", None, None, True), None) if job.within(QUICK)]
CHAIN = LAYOUTS["chain"]


MADE: dict[Any, ProvedJob] = {}


def done(job: Job) -> ProvedJob:
    """The proof of a job, made once for all tests."""
    key = (*job.place, job.problem.candidates, job.problem.replacement)
    if key not in MADE:
        MADE[key] = ProvedJob(job, prove(job.problem, job.verifier, job.layout))
    return MADE[key]


@pytest.mark.parametrize(
    "job", [job for job in WHOLE if job.n_drafts <= QUICK], ids=lambda job: "-".join(job.place).replace(" ", "")
)
def test_every_verifier_keeps_the_law_and_its_golden_numbers(job: Job) -> None:
    proved = done(job)
    proof = proved.proof
    assert (proof.max_abs_err, proof.tv, proof.chained_max_abs_err, proof.chained_tv) == (0, 0, 0, 0)
    assert proof.law == proof.target
    assert sum(proof.accepted_law) == 1
    assert proof.exact
    assert proof.lossless
    assert proved.agrees is not False
    assert proof.closed_form_holds is not False
    assert proved.is_sound


def test_the_whole_table_of_golden_numbers_is_asked_for() -> None:
    """A vector nobody looks up would be no check."""
    wanted = {(job.subject.case, job.subject.problem.gamma, job.layout.name, job.verifier.name): job for job in WHOLE}
    wanted |= {(c.case, c.gamma, "chain", c.name): c for c in (*registered(), *CONTROLS)}  # type: ignore[misc]
    for (case, gamma, layout, candidates, replacement), name in known._TABLE:
        if (candidates < 3 and replacement and name != "tokenwise") or layout == "chain":
            assert (case, gamma, layout, name) in wanted


@pytest.mark.parametrize(("name", "expected"), [("multi_tokenwise", "1087/729"), ("multi_hsd", "1136/729")])
def test_three_parallel_chains(name: str, expected: str) -> None:
    (job,) = case_jobs([name], case_subjects("A", 2, 3, True), "parallel")
    proof = done(job)
    assert proof.proof.expected_accepted == Fraction(expected)
    assert proof.agrees
    assert proof.proof.lossless


def test_chains_with_distinct_first_tokens() -> None:
    (job,) = case_jobs(["multi_tokenwise"], case_subjects("B", 2, None, False), "parallel")
    assert done(job).proof.expected_accepted == Fraction(85, 56)
    assert done(job).agrees


def test_calls_of_the_naive_rule_are_counted() -> None:
    proof = prove(replace(CASE_B, gamma=3), get_verifier("hsd_naive"), CHAIN)
    assert proof.target_calls == Fraction(3, 2)
    assert proof.tokens_per_call == Fraction(3589, 1500)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("name", ["tokenwise", "hsd", "hsd_naive", "walk"])
def test_the_accepted_law_names_every_length_also_those_that_never_come(name: str, gamma: int) -> None:
    """A draft that is always wrong keeps nothing: `1, 0, .., 0`, gamma + 1 entries, never cut short."""
    right, wrong = Iid(exact_row([1, 0])), Iid(exact_row([0, 1]))
    proof = prove(Problem(2, gamma, right, wrong), get_verifier(name), CHAIN)
    assert proof.accepted_law == (1, *[0] * gamma)
    job = Job(Subject("t", proof.problem), get_verifier(name), CHAIN)
    assert as_object(ProvedJob(job, proof))["accepted_law"] == [1.0, *[0.0] * gamma]


@pytest.mark.parametrize("name", ["tokenwise", "hsd", "hsd_naive", "walk"])
def test_float_rows_give_the_same_numbers(name: str) -> None:
    exact = prove(CASE_B, get_verifier(name), CHAIN)
    floats = prove(CASE_B.in_floats(), get_verifier(name), CHAIN)
    assert not floats.exact
    assert floats.lossless
    assert 0 < floats.max_abs_err < 1e-14  # floats do round: what is compared is no constant
    assert floats.expected_accepted == pytest.approx(float(exact.expected_accepted), abs=1e-13)


# What must be seen to be wrong


@pytest.mark.parametrize("control", [*registered(), *CONTROLS], ids=lambda c: f"{c.name}-{c.case}{c.gamma}")
def test_a_wrong_rule_is_caught(control: WrongRule) -> None:
    proof = catch(control)
    assert proof.fails
    assert control.distance in (None, proof.tv)


def test_every_verifier_that_is_not_lossless_is_among_the_controls() -> None:
    assert {c.name for c in registered()} == {v.name for v in all_verifiers().values() if not v.lossless}


def test_a_control_that_keeps_the_law_or_misses_its_size_is_not_caught() -> None:
    (right,) = [c for c in CONTROLS if c.name == "key without round"]
    assert not catch(replace(right, chained=False)).fails  # one block cannot see it
    assert not catch(replace(right, distance=Fraction(1, 2))).fails
    assert not verdict([], [catch(replace(right, chained=False))]).holds


def test_a_false_claim_is_a_false_claim() -> None:
    liar = replace(get_verifier("hsd_ref"), name="liar", lossless=True)
    proof = ProvedJob(Job(Subject("t", CASE_A), liar, CHAIN), prove(CASE_A, liar, CHAIN))
    assert (proof.proof.lossless, proof.proof.is_false_claim, proof.is_sound) == (False, True, False)
    assert proof.proof.tv == Fraction(1, 9)
    conclusion = verdict([proof], [])
    assert not conclusion.holds
    assert conclusion.lines[0] == (False, "liar (t, chain) is NOT lossless: TV 1/9")


def test_a_rule_that_says_it_is_not_lossless_makes_no_false_claim() -> None:
    proof = ProvedJob(Job(Subject("t", CASE_A), get_verifier("hsd_ref"), CHAIN), _proof("hsd_ref", CASE_A))
    assert verdict([proof], []).holds
    one = ProvedJob(
        Job(Subject("t", CASE_A), get_verifier("hsd_ref"), CHAIN), _proof("hsd_ref", replace(CASE_A, gamma=1))
    )
    assert "these tables do not show it" in verdict([one], []).lines[0][1]


def _proof(name: str, problem: Problem) -> Proof:
    return prove(problem, get_verifier(name), CHAIN)


def test_a_missed_golden_number_or_closed_form_is_told() -> None:
    job = Job(Subject("case A, gamma 2", CASE_A, "A"), get_verifier("hsd"), CHAIN)
    right = prove(CASE_A, job.verifier, CHAIN)
    wrong = replace(right, expected_accepted=Fraction(10, 9))
    lines = verdict([ProvedJob(job, wrong)], []).lines
    assert (False, "hsd (case A, gamma 2, chain) misses its golden vector: E[accepted] 10/9, must be 11/9") in lines
    assert (False, "hsd (case A, gamma 2, chain) misses its closed form: E[accepted] 10/9, must be 11/9") in lines
    assert ProvedJob(job, replace(right, accepted_law=(Fraction(1), Fraction(0), Fraction(0)))).agrees is False


def test_two_rules_that_are_one_are_compared() -> None:
    jobs = [Job(Subject("t", CASE_A), get_verifier(name), CHAIN) for name in ("hsd", "blockwise")]
    pair = [done(job) for job in jobs]
    assert (True, "hsd and blockwise are one rule: the same law of the accepted length (1 comparison)") in verdict(
        pair, []
    ).lines
    changed = ProvedJob(jobs[0], replace(pair[0].proof, accepted_law=(Fraction(1),)))
    assert not verdict([changed, pair[1]], []).holds


# The machinery


@pytest.mark.parametrize("name", ["hsd_naive", "walk", "tokenwise", "blockwise"])
@pytest.mark.parametrize("problem", [CASE_A, CASE_B], ids="AB")
def test_a_short_memory_changes_nothing(problem: Problem, name: str) -> None:
    """Rounds enumerated once for all texts that end alike, or anew after every text."""
    layouts = [CHAIN, LAYOUTS["shared"]] if name == "walk" else [CHAIN]
    for layout in layouts:
        short = _rounds(problem, get_verifier(name), layout)
        assert short.memory is not None
        assert short.law(3) == replace(short, memory=None, seen={}).law(3)


def test_a_memory_that_is_too_short_is_seen() -> None:
    rounds = _rounds(CASE_B, get_verifier("tokenwise"), CHAIN)
    assert replace(rounds, memory=0, seen={}).law(3) != law(CASE_B.p, 3)


def _rounds(problem: Problem, verifier: Verifier, layout: Any) -> RoundPlayer[Any]:
    return rounds_of(problem, Rule(lambda keys, text: draw(keys, text, problem, layout), verifier.plan))


@pytest.mark.parametrize(("gamma", "candidates", "name"), product((0, 1, 3), (2, 3), LAYOUTS))
def test_the_number_of_drawn_tokens_is_known_before(gamma: int, candidates: int, name: str) -> None:
    from specviz_lab.prove.enumerate import EnumeratedPath

    problem, layout = replace(CASE_C, gamma=gamma, candidates=candidates), LAYOUTS[name]
    drafted = draw(EnumeratedPath().keys(1), (), problem, layout)
    drawn = sum(row >= 0 for row in drafted.row_of)
    assert drawn == layout.n_drawn(problem)
    assert all(depth <= max(gamma, 1) for depth in drafted.depths) or not gamma


def test_no_verifier_is_shown_on_a_draft_it_refuses() -> None:
    for verifier in all_verifiers().values():
        shown = meant_for(verifier, CASE_B)
        assert shown, verifier.name
        for name in shown:
            assert misfit(verifier, replace(CASE_B, candidates=2), LAYOUTS[name]) is None


def test_a_named_misfit_is_refused_and_an_unnamed_one_left_out() -> None:
    subjects = case_subjects("A", 2, 2, True)
    with pytest.raises(SpecvizError, match=r"blockwise cannot judge the draft \(2 chains\)"):
        case_jobs(["blockwise"], subjects, "parallel")
    names = {job.verifier.name for job in case_jobs([], subjects, "parallel")}
    assert "multi_hsd" in names
    assert "blockwise" not in names


@pytest.mark.parametrize("name", ["multi_hsd", "multi_traversal"])
def test_closed_forms_are_for_what_they_are_for(name: str) -> None:
    assert closed_form(name, CHAIN, CASE_B) == Fraction("1.45")
    assert closed_form(name, LAYOUTS["parallel"], replace(CASE_B, candidates=2)) is None


def test_a_slack_rule_need_not_keep_what_lossless_rules_keep_of_a_tree() -> None:
    """What every lossless rule keeps of a fixed tree has a closed form; `slack` keeps more, and says what it is."""
    problem = replace(CASE_A, tree=((0, 1),))
    slack, walk = (prove(problem, get_verifier(name), LAYOUTS["tree"]) for name in ("slack", "walk"))
    assert slack.closed_form is None
    assert slack.expected_accepted > walk.expected_accepted == walk.closed_form


def test_noise_shared_by_race_agrees_as_often_as_drawn_races_do() -> None:
    """20 000 rounds of the draws of production; a false alarm once in 15 000 runs."""
    p, q = (case.row(()).astype(float) for case in (CASE_B.p, CASE_B.q))
    noise = uniforms(1, "target", 0, 0, 0, 60_000).reshape(-1, 3)
    agreed = np.mean([race(p, u) == race(q, u) for u in noise])
    expected = float(shared_by_race(replace(CASE_B, gamma=1)))
    assert abs(agreed - expected) < 4 * (expected * (1 - expected) / len(noise)) ** 0.5
    distance = abs(p - q).sum() / 2
    assert (1 - distance) / (1 + distance) <= expected <= 1 - distance


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(11, 9), "11/9"),
        (Fraction("1.45"), "1.45"),
        (Fraction(0), "0"),
        (2, "2"),
        (Fraction(5, 2), "2.5"),
        (Fraction(123456789, 987654321), "0.125.."),
        (0.1, "0.1"),
        (3e-17, "3e-17"),
        (Fraction(1, 7), "1/7"),
    ],
)
def test_numbers_are_exact_where_they_are_short(value: Any, text: str) -> None:
    assert number(value).startswith(text[:5]) if text.endswith("..") else number(value) == text


def test_a_fraction_has_its_decimal_beside_it() -> None:
    assert full(Fraction(11, 9)) == "11/9 = 1.222222"
    assert full(Fraction("1.45")) == "1.45"
