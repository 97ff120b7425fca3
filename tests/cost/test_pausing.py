"""When drafting pauses: as it loses, never while it wins; longer each time a try fails, and over once one pays."""

from itertools import pairwise

import pytest

from specviz.cost.pausing import BUDGET, FIRST, LONGEST, SHORTEST, TOLERATED, Pausing

PASS = 1000  # nanoseconds of a plain round


def ran(rule: Pausing, n: int, passes: float, tokens: int) -> tuple[list[bool], list[str]]:
    """`n` rounds, of which those that draft take so many passes and bring so many tokens; and what it said."""
    drafted, notices = [], []
    for number in range(1, n + 1):
        drafted.append(rule.drafts)
        words = rule.take(
            number, round(passes * PASS) if drafted[-1] else PASS, tokens if drafted[-1] else 1, drafted[-1]
        )
        notices += [words] if words else []
    return drafted, notices


def test_what_pays_is_never_paused() -> None:
    drafted, notices = ran(Pausing(), 200, 1.9, 2)
    assert drafted == [False] * FIRST + [True] * (200 - FIRST)
    assert not notices


def test_what_does_not_pay_pauses_longer_and_longer_and_says_so() -> None:
    drafted, notices = ran(Pausing(), 1000, 1.9, 1)
    pauses = [len(run) for run in "".join("d" if one else "p" for one in drafted[FIRST:]).split("d") if run]
    assert pauses[:3] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST]
    assert max(pauses) == LONGEST
    first = FIRST + drafted[FIRST:].index(False)  # the round before it decided
    assert notices[0] == (
        f"not drafting: a round costs 1.9 plain passes and brings 1.0 tokens; next try at r{first + SHORTEST + 1}"
    )
    assert drafted[first + SHORTEST]


@pytest.mark.parametrize("reading", [0, 4, 40])
def test_reading_what_was_written_meanwhile_takes_little_however_dear_it_is(reading: float) -> None:
    """Behind a long prompt the first draft after a pause may take as long as forty passes."""
    rule, lost, last = Pausing(), 0.0, True
    for number in range(1, 20_001):
        drafts = rule.drafts
        read = reading if drafts and rule.pause and not last else 0.0
        lost, last = lost + read, drafts
        rule.take(number, round((1.5 + read if drafts else 1) * PASS), 1, drafts, SHORTEST if read else 0)
    assert lost <= BUDGET * 20_000 + 2 * reading


@pytest.mark.parametrize("prompt", [6, 40])
def test_another_prompt_is_not_read_before_the_last_one_is_paid(prompt: float) -> None:
    """Of short answers behind long prompts, for each of which a draft model must read all."""
    rule, reading = Pausing(), []
    for answer in range(100):
        rule.begin()
        for number in range(1, 51):
            drafts = rule.drafts
            reads = drafts and answer not in reading
            reading += [answer] if reads else []
            rule.take(number, round((1.5 + (prompt if reads else 0) if drafts else 1) * PASS), 1, drafts, 99 * reads)
    waits = [50 * (then - now) for now, then in pairwise(reading)]
    assert waits
    assert min(waits) >= (prompt - TOLERATED) / BUDGET - 50


@pytest.mark.parametrize("passes", [1.5, 3, 5, 9])
def test_tries_lose_little_however_much_a_round_loses(passes: float) -> None:
    """Draft layers that nobody trained: four of them a round, and nothing is kept."""
    drafted, notices = ran(Pausing(), 20_000, passes, 1)
    assert notices[0].startswith(f"not drafting: a round costs {passes:.1f} plain passes and brings 1.0 tokens")
    tries = sum(one and not before for before, one in pairwise(drafted))
    assert sum(drafted) * (passes - 1) <= BUDGET * 20_000 + tries * TOLERATED + 2 * passes


def test_where_passes_are_timed_beside_every_first_round_drafts_and_is_judged_once_one_is() -> None:
    rule = Pausing(beside=True)
    drafted, notices = ran(rule, 20, 3, 1)
    assert drafted == [True] * 20
    assert not notices, "nothing says yet what a plain pass takes"
    rule.price(PASS)
    drafted, notices = ran(rule, 20, 3, 1)
    assert not all(drafted)
    assert notices[0].startswith("not drafting: a round costs 3.0 plain passes")


def test_a_try_that_pays_ends_the_waiting() -> None:
    rule = Pausing()
    ran(rule, 20, 1.9, 1)
    drafted, notices = ran(rule, 100, 1.5, 3)
    assert all(drafted[drafted.index(True) :])
    assert notices[0].startswith("drafting again: ")
    assert rule.pause == 0


def test_one_hiccup_decides_nothing() -> None:
    rule = Pausing()
    ran(rule, 10, 1.5, 2)
    assert rule.take(11, 5_000_000 * PASS, 1, True) is None
    assert rule.drafts


def test_a_hiccup_makes_no_pause_endless() -> None:
    """In the last round but one before drafting pauses."""
    rule, hasty = Pausing(), Pausing()
    for pausing, worst in ((rule, 5_000_000.0), (hasty, 1.4)):
        for number, passes in enumerate([1, 1, 1.4, 1.4, worst, 1.4, 1.4, 1.4], 1):
            pausing.take(number, round(passes * PASS), 1, number > FIRST)
    assert hasty.pause == SHORTEST
    assert rule.pause <= 2 * SHORTEST


def test_rounds_on_record_decide_the_same_again() -> None:
    rounds = [(PASS + 7 * n % 900, 1 + n % 2) for n in range(300)]

    def decided() -> list[bool]:
        rule, out = Pausing(), []
        for number, (ns, tokens) in enumerate(rounds, 1):
            out.append(rule.drafts)
            rule.take(number, ns, tokens if out[-1] else 1, out[-1])
        return out

    assert decided() == decided()
    assert False in decided()[FIRST:]
