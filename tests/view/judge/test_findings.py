"""Every rule on a run that has the fault and on runs that have not; and what a finding leads to."""

import msgspec
import pytest

from specviz import events as ev
from specviz.events import Event
from specviz.judge.finding import Finding
from specviz.methods import get_method
from specviz.metrics.along_text import AlongTally
from specviz.metrics.draft_confidence import TokenPosition
from specviz.runlog.fold import Run, fold
from specviz.view import Feed, Options, Player
from specviz.view.frame.judgement import NO_JUDGEMENT, RunJudgement
from specviz.view.frame.series import Meter
from specviz.view.judge.kept import counted, read_counted
from specviz.view.panels.overview.build import overview
from specviz.view.play.build import FrameBuilder
from support.judged import MS, chain_round, judged_run, many
from support.traces import make_events

GOOD = [0.9, 0.8, 0.85]  # three drafted tokens, of which the target thinks as the draft does
SOUND = many(40, GOOD, [3, 3, 2, 3, 1, 3, 3, 0])
COSTS = ev.Calibration(t_ns=MS, c=10.0, widths=[1, 2], target_ns=[10 * MS, 11 * MS])


def judged(events: list[Event]) -> RunJudgement:
    return Player(fold(events), animate=False).frame().judgement


def findings(rounds: list[list[Event]], costs: ev.Calibration | None = None) -> dict[str, Finding]:
    return {finding.detector: finding for finding in judged(judged_run(rounds, costs)).findings}


def tree_round(r: int, n: int, n_kept: int, draft_ms: float = 1.0, target_ms: float = 2.0) -> list[Event]:
    """`n` siblings, of which the last is kept or none."""
    records = chain_round(r, [0.1] * n, 0, draft_ms=draft_ms, target_ms=target_ms)
    for event in records:
        if isinstance(event, ev.Node):
            event.parent, event.depth, event.pos = -1, 1, 10
        if isinstance(event, ev.Verify):
            last = event.node % 100 == n - 1
            event.order = event.node % 100
            event.status = "accepted" if last and n_kept else "rejected"
        if isinstance(event, ev.RoundEnd):
            event.n_accepted, event.n_tested, event.n_emitted = n_kept, n, n_kept + 1
    return records


def test_a_sound_run_has_none_and_says_so() -> None:
    judgement = judged(judged_run(SOUND, COSTS))
    assert judgement.findings == ()
    assert judgement.line.endswith("nothing stands out")


@pytest.mark.parametrize("rounds", [SOUND, many(20, GOOD, [0]), many(40, [0.8] * 4, [2, 2, 2, 2, 4, 1])])
def test_a_judgement_that_was_kept_is_the_same(rounds: list[list[Event]]) -> None:
    run = fold(judged_run(rounds, COSTS))
    judgement = read_counted(counted(run, Meter(), {}))
    assert judgement is not None
    assert judgement.judgement == judged(judged_run(rounds, COSTS))
    again = FrameBuilder(run, judgement).frame(Player(run, animate=False).cursor, Options(), Feed())
    assert again.judgement == judgement.judgement
    assert read_counted(b"something else") is None


def test_a_few_rounds_say_nothing() -> None:
    assert findings(many(7, GOOD, [0])) == {}


def test_a_dead_draft_is_told_with_the_rounds_that_show_it() -> None:
    finding = findings(many(20, GOOD, [0]))["never_kept"]
    assert finding.headline == "the draft is never kept"
    assert "Of 60 drafted tokens 0 were kept" in finding.claim
    assert finding.where == "r1, r2, r3, r4, r5, r6"
    assert [place.index for place in finding.places] == [0, 1, 2, 3, 4, 5]
    assert "never_kept" not in findings(many(20, GOOD, [0, 0, 1]))


def test_a_drafter_that_drafts_nothing_any_more_is_told_since_when() -> None:
    silent = [chain_round(r, [], 0) for r in range(41, 60)]
    finding = findings([*SOUND, *silent])["nothing_drafted"]
    assert "In the last 19 rounds nothing was drafted" in finding.claim
    assert finding.where == "r41"
    assert "nothing_drafted" not in findings([*SOUND, *silent[:5]])


def test_a_drafter_that_never_drafted_is_plain_decoding_under_another_name() -> None:
    finding = findings([chain_round(r, [], 0) for r in range(1, 12)])["nothing_drafted"]
    assert "In 11 rounds not one token was drafted" in finding.claim


def test_plain_decoding_is_not_blamed_for_drafting_nothing() -> None:
    judgement = judged(make_events(shape="none", new_tokens=30))
    assert judgement.findings == ()
    assert judgement.speed == "plain decoding (baseline)"


def test_a_cliff_names_its_position_and_the_nodes_that_fell() -> None:
    rounds = many(40, [0.8] * 4, [2, 2, 2, 2, 4, 1])
    finding = findings(rounds)["position_cliff"]
    assert finding.headline == "a cliff at position 3"
    assert finding.places[0].node is not None
    assert finding.places[0].node % 100 == 2, "the third token of its round"
    assert "lower γ" in finding.next_step
    assert "position_cliff" not in findings(many(40, [0.8] * 4, [0, 1, 2, 3, 4, 4, 4, 4]))


def test_a_draft_that_is_never_wrong_is_doubted() -> None:
    rounds = many(60, GOOD, [3])
    finding = findings(rounds)["too_good"]
    assert finding.headline.startswith("too good to be true")
    assert f"Of {3 * len(rounds)} tested tokens {3 * len(rounds)} were kept" in finding.claim
    assert "too_good" not in findings(many(20, GOOD, [3])), "60 tokens are too few to say so"
    assert "too_good" not in findings(many(60, GOOD, [3, 3, 3, 2])), "a good draft is wrong now and then"


def test_a_backward_scan_that_keeps_what_it_never_tests_is_not_doubted() -> None:
    rounds = many(60, GOOD, [3])
    for event in (event for records in rounds for event in records if isinstance(event, ev.RoundEnd)):
        event.n_tested = 1
    events = judged_run(rounds, verifier="hsd_naive")
    assert "too_good" not in {finding.detector for finding in judged(events).findings}


def test_a_tail_that_is_hardly_kept_is_told_without_a_cliff() -> None:
    kept = [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]
    by_name = findings(many(80, [0.8] * 8, kept))
    assert set(by_name) & {"long_tail", "position_cliff"} == {"long_tail"}
    assert by_name["long_tail"].headline == "drafts are longer than what is kept: 4 of 8"
    assert "long_tail" not in findings(many(80, [0.8] * 4, kept))


def test_an_overconfident_draft_is_told_by_what_the_target_says() -> None:
    rounds = [chain_round(r, [0.95, 0.95], r % 3, ps=[0.5, 0.6]) for r in range(1, 41)]
    finding = findings(rounds)["overconfident_draft"]
    assert "Tokens that the draft gives .9 or more (.95 on average" in finding.claim.replace(".90", ".9")
    assert finding.places[0].node is not None
    assert "overconfident_draft" not in findings([chain_round(r, [0.95, 0.95], r % 3) for r in range(1, 41)])


def test_an_underconfident_draft_is_no_fault() -> None:
    rounds = [chain_round(r, [0.6, 0.6], 2, ps=[0.95, 0.95]) for r in range(1, 41)]
    assert "overconfident_draft" not in findings(rounds)


def test_a_draft_dearer_than_it_pays_is_told_beside_plain_rounds() -> None:
    dear = many(30, GOOD, [1, 0, 1], draft_ms=25.0, target_ms=11.0)
    finding = findings(dear, COSTS)["dearer_than_it_pays"]
    assert finding.headline.startswith("slower than plain decoding: .")
    assert "A round costs as much as 3.6 plain rounds and brings 1.7 tokens" in finding.claim
    cheap = many(30, GOOD, [3, 2, 3], draft_ms=5.0, target_ms=11.0)
    assert "dearer_than_it_pays" not in findings(cheap, COSTS)


def test_what_the_machine_did_is_no_finding_about_the_draft() -> None:
    """A pass took 50 ms in the run and 10 ms when timed alone: no ratio of the two says anything."""
    busy = judged(judged_run(many(30, GOOD, [1, 0, 1], draft_ms=25.0, target_ms=55.0), COSTS))
    assert busy.speed_text == "× plain decoding: cannot tell, the machine changed under the run"
    assert "took 42.3 ms by the run's own passes, 10 ms when timed alone;" in busy.basis_words
    assert "dearer_than_it_pays" not in {finding.detector for finding in busy.findings}


def test_how_old_a_timing_is_is_told() -> None:
    old = msgspec.structs.replace(COSTS, age_s=754.0)
    judgement = judged(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), old))
    assert "10 ms timed alone 13 minutes earlier and" in judgement.basis_words


@pytest.mark.parametrize("n", [3, 7])
def test_a_ratio_far_below_one_never_stands_beside_nothing(n: int) -> None:
    judgement = judged(judged_run(many(n, GOOD, [1, 0], draft_ms=100.0, target_ms=11.0), COSTS))
    assert judgement.speed_text == ".13× plain decoding (measured)" if n == 7 else judgement.speed.startswith(".1")
    assert judgement.found == f"{n} rounds: too few for findings"


def test_one_round_gives_no_ratio() -> None:
    judgement = judged(judged_run(many(1, GOOD, [1]), COSTS))
    assert (judgement.speed, judgement.basis) == ("speed-up over plain decoding not known after one round", "")


def test_rows_that_must_be_padded_to_be_exact_are_priced() -> None:
    """A padded pass takes 10 ms, one without 4: plain decoding need not be exact, and is the faster one."""
    padded = msgspec.structs.replace(COSTS, plain_ns=4 * MS)
    run = judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), padded)
    assert judged(run).speed_text == ".88× plain decoding (measured)"
    finding = findings(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), padded)["dear_exact_rows"]
    assert finding.headline == "exact rows cost 2.5× a pass"
    assert "dear_exact_rows" not in findings(SOUND, COSTS)


def test_a_large_tree_of_which_nothing_is_kept_is_told_with_its_knob() -> None:
    specs = [*get_method("eagle3").table.specs]
    rounds = [tree_round(r, 12, int(r % 3 == 0)) for r in range(1, 31)]
    by_name = {finding.detector: finding for finding in judged(judged_run(rounds, knob_specs=specs)).findings}
    assert by_name["tree_thrown_away"].headline == "97 % of the tree is thrown away"
    assert by_name["tree_thrown_away"].next_step.endswith("lower node_budget.")
    pays = msgspec.structs.replace(COSTS, target_ns=[10 * MS, 10 * MS])
    quick = judged(judged_run([tree_round(r, 12, int(r % 3 > 0), 0.1, 10.0) for r in range(1, 31)], pays))
    assert quick.speed == "1.7× plain decoding"
    assert "tree_thrown_away" not in {finding.detector for finding in quick.findings}


def test_recording_that_takes_a_large_part_is_told() -> None:
    assert "dear_recording" in findings(many(20, GOOD, [3], probe_ms=2.0))
    assert "dear_recording" not in findings(many(20, GOOD, [3], probe_ms=0.1))


def test_the_line_says_tokens_speed_and_how_it_was_had() -> None:
    judgement = judged(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), COSTS))
    assert judgement.tokens.endswith("tokens a round")
    assert judgement.speed_text == "2.2× plain decoding (measured)"
    assert "over one row takes 10 ms timed alone and 8.5 ms by the run's own passes" in judgement.basis_words
    modelled = judged(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0)))
    assert modelled.speed_text == "2.4× plain decoding (modelled)"


def test_a_speed_up_that_may_be_a_loss_is_told_by_its_ends() -> None:
    """One round of thirty stood still: the mean is far below 1, and nothing can be said against the draft."""
    rounds = many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0)
    rounds[11] = many(12, GOOD, [3, 2], draft_ms=5000.0, target_ms=11.0)[11]
    judgement = judged(judged_run(rounds, COSTS))
    low, high = judgement.speed.removesuffix("× plain decoding").split("–")
    assert float(low) < 1 < float(high)
    assert "dearer_than_it_pays" not in {finding.detector for finding in judgement.findings}


def test_a_model_of_rows_on_a_processor_is_a_range() -> None:
    models = ev.Models(target=ev.ModelInfo(name="t", device="cpu"))
    judgement = judged(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), models=models))
    assert judgement.speed_text == "1.9–2.5× plain decoding (modelled)"
    assert judgement.basis_words.startswith("No plain round was timed")


def test_costs_that_come_behind_the_text_are_taken_in() -> None:
    """Passes of most methods are timed once the text is there, when somebody looks at the run already."""
    player = Player(fold(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0))[:-1]), animate=False)
    assert player.frame().judgement.basis == "modelled"
    player.extend([COSTS])
    assert player.frame().judgement.speed_text == "2.2× plain decoding (measured)"


def test_the_page_about_the_whole_run_judges_as_every_screen_does() -> None:
    run = fold(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0))[:-1])
    run.extend([COSTS])
    assert overview(run).judgement == Player(run, animate=False).frame().judgement
    assert overview(run).judgement.basis == "measured"


def test_findings_of_the_trace_itself_are_shown_and_escaped() -> None:
    events = judged_run(SOUND)
    events.insert(-1, ev.FindingRecord(detector="mine", message="odd \x1b[31m[red]", evidence=[3, 99]))
    (finding,) = judged(events).findings
    assert finding.claim == "odd ⟨1B⟩[31m[red]"
    assert finding.where == "r3"


def test_before_the_first_round_nothing_is_judged() -> None:
    assert Player(Run(), animate=False).frame().judgement is NO_JUDGEMENT
    assert judged(judged_run([])) is NO_JUDGEMENT


@pytest.mark.parametrize("method", ["draft", "specbound", "eagle3"])
def test_advice_names_a_knob_the_method_has(method: str) -> None:
    specs = [*get_method(method).table.specs]
    knobs = {spec.name: spec.default for spec in specs}
    events = judged_run(many(40, [0.8] * 4, [2, 2, 2, 2, 4, 1]), knob_specs=specs, knobs=knobs)
    (advice,) = [finding for finding in judged(events).findings if finding.detector == "position_cliff"]
    symbols = {name for spec in specs if spec.cuts == "depth" for name in (spec.symbol, spec.name)}
    assert advice.next_step.rpartition("lower ")[2].rstrip(".") in symbols


def test_a_run_without_findings_says_what_was_looked_for() -> None:
    assert judged(judged_run(many(5, GOOD, [3, 2]))).nothing.startswith("5 rounds: too few for findings")
    pays = judged(judged_run(many(30, GOOD, [3, 2], draft_ms=5.0, target_ms=11.0), COSTS))
    assert pays.nothing.endswith("or a draft dearer than it pays.")
    busy = judged(judged_run(many(30, GOOD, [3, 2], target_ms=55.0), COSTS))
    assert busy.nothing.endswith("whether it pays is not known.")


def test_a_draft_that_falls_along_the_text_is_told() -> None:
    """In one answer by its blocks, and by answers where there are several; a draft that is always bad does not fall."""
    falling = [chain_round(r, GOOD, 3 if r <= 40 else 1 if r <= 80 else 0) for r in range(1, 121)]
    finding = findings(falling)["falls_along_the_text"]
    assert finding.headline == "acceptance decays with the length of the text: 100 % to 0 %"
    assert finding.places[-1].label == "r120"
    for sound in (
        many(120, GOOD, [3, 1, 0]),
        many(120, GOOD, [0, 1, 0, 0]),
        list(reversed(falling)),
        falling[:20],
        falling[20:100],
    ):
        assert "falls_along_the_text" not in findings(sound)


@pytest.mark.parametrize("n", [24, 60, 250, 1000])
def test_thirds_are_those_of_every_answer(n: int) -> None:
    """By blocks of rounds where an answer is long: their ends need not be those of the thirds."""
    tally, third = AlongTally(), n // 3
    for q in range(4):
        for r, kept in enumerate([4] * third + [2] * (n - 2 * third) + [q % 2] * third):
            tally.take(TokenPosition(q, r), 4, kept)
    along = tally.along()
    assert along is not None
    assert (along.n, along.difference.n) == (4, 4)
    assert along.begins == pytest.approx(1, abs=0.03)
    assert along.ends == pytest.approx(1 / 8, abs=0.03)
    assert along.lost[-1].r == n - 1


def test_short_answers_do_not_count() -> None:
    tally = AlongTally()
    for q in range(9):
        for r in range(23):
            tally.take(TokenPosition(q, r), 4, 4 if r < 9 else 0)
    assert tally.along() is None
