"""What the judge says of rounds beyond the screens' own tests: each fault, and a healthy twin of it."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from specviz import events as ev
from specviz.check.findings import error, note
from specviz.events import Counted, Event
from specviz.judge import Evidence, Finding, judge
from specviz.judge.evidence import PairChecked
from specviz.judge.reading import evidence_of_trace
from specviz.metrics.texts import class_of, is_loop
from specviz.runlog.fold import fold
from specviz.trace import Writer
from specviz.traits import VerifierTraits
from support.judged import MS, chain_round, judged_run, many

GOOD = [0.9, 0.8, 0.85]
SOUND = many(60, GOOD, [3, 3, 2, 3, 1, 3, 3, 0])


def run_of(rounds: Sequence[Sequence[Event]], calibration: ev.Calibration | None = None, **header: object) -> Evidence:
    return Evidence.of_run(fold(judged_run(rounds, calibration, **header)))


def found(evidence: Evidence) -> dict[str, Finding]:
    return {finding.detector: finding for finding in judge(evidence)}


def with_tokens(rounds: list[list[Event]], tokens: Sequence[int]) -> list[list[Event]]:
    """The same rounds, which write these tokens round and round."""
    at = 0
    for commit in (event for records in rounds for event in records if isinstance(event, ev.Commit)):
        commit.tokens = [tokens[(at + k) % len(tokens)] for k in range(len(commit.tokens))]
        at += len(commit.tokens)
    return rounds


def test_a_sound_run_has_no_finding() -> None:
    assert found(run_of(with_tokens(SOUND, range(1000)))) == {}


def test_what_leads_to_a_fault_stands_first_and_every_finding_is_whole() -> None:
    evidence = run_of(many(20, [0.95, 0.95], [0], ps=[0.5, 0.6], probe_ms=2.0))
    findings = judge(evidence)
    assert [bool(finding.fault) for finding in findings] == sorted((bool(f.fault) for f in findings), reverse=True)
    for finding in findings:
        assert finding.headline
        assert finding.claim.endswith(".")
        assert finding.certainty == "sure" or finding.decides or not finding.fault
        assert finding.as_object()["name"] == finding.name


@pytest.mark.parametrize(("kept", "fault", "certainty"), [([0], 3, "likely"), ([0] * 9 + [1], 1, "cannot tell")])
def test_nothing_kept_is_an_unloaded_head_and_a_little_a_wrong_one(kept: list[int], fault: int, certainty: str) -> None:
    finding = found(run_of(many(100, GOOD, kept)))["never_kept"]
    assert (finding.fault, finding.certainty) == (fault, certainty)


def test_exact_match_is_told_by_what_the_ratio_test_would_keep() -> None:
    """A draft's token that the target gives .45 is drawn in 45 % of the rounds, and kept by p/q in 90 %."""
    rounds = [chain_round(r, [0.5], int(r % 20 < 9), ps=[0.45]) for r in range(1, 81)]
    draws = {"verifier": "walk", "verifier_traits": VerifierTraits(draws=True)}
    finding = found(run_of(rounds, **draws))["exact_match"]
    assert (finding.fault, finding.certainty) == (8, "sure")
    assert finding.tokens == pytest.approx(0.45)
    assert "exact_match" not in found(run_of(rounds)), "the ratio test itself"
    likely = [chain_round(r, [0.99], int(r % 50 > 0), ps=[0.98]) for r in range(1, 101)]
    assert "exact_match" not in found(run_of(likely, **draws)), "both keep as much"


def test_tokens_that_the_target_rules_out_are_told_of_a_run_that_draws() -> None:
    def masked(share: int) -> list[list[Event]]:
        rounds = many(80, GOOD, [1, 2])
        refused = [e for records in rounds for e in records if isinstance(e, ev.Verify) and e.status == "rejected"]
        for verdict in refused[::share] if share else []:
            verdict.logp = ev.ZERO
        return rounds

    finding = found(run_of(masked(2)))["ruled_out"]
    assert (finding.fault, finding.certainty) == (11, "likely")
    assert [place.node is not None for place in finding.places] == [True] * 6
    assert "ruled_out" not in found(run_of(masked(0)))
    cut = {"temperature": 0.8, "top_k": 40}
    assert "ruled_out" not in found(run_of(masked(2), sampling=cut)), "its own setting rules them out"


def test_drafts_that_fail_behind_a_rejection_are_told() -> None:
    """Behind what was kept whole all goes on; behind a rejection hardly anything."""
    behind: list[int] = []
    for k in range(160):
        before = behind[-1] if behind else 3
        behind.append(3 if before == 3 and k % 4 else 1 if before == 3 else 3 if k % 7 == 0 else 0)
    rounds = [chain_round(r, GOOD, n) for r, n in enumerate(behind, 1)]
    finding = found(run_of(rounds))["worse_behind_a_rejection"]
    assert (finding.fault, finding.certainty) == (10, "likely")
    assert all(behind[place.index] == 0 and behind[place.index - 1] < 3 for place in finding.places)
    assert "worse_behind_a_rejection" not in found(run_of(SOUND))


def greedy(tokens: Sequence[int], exact: bool) -> Evidence:
    env = {"exact": "bitwise"} if exact else {}
    sampling = {"temperature": 0.0}
    return run_of(with_tokens(many(20, GOOD, [3]), tokens), sampling=sampling, knobs=sampling, env=env)


@pytest.mark.parametrize("exact", [True, False])
def test_greedy_texts_that_part_are_a_fault_only_where_rounding_is_ruled_out(exact: bool) -> None:
    text = [*range(100)]
    other = [*range(40), 999, *range(41, 100)]
    finding = found(greedy(text, exact) + greedy(other, exact))["greedy_texts_part"]
    assert (finding.fault, finding.certainty) == (9, "sure" if exact else "cannot tell")
    assert finding.evidence[0].label == "token 41"
    assert "greedy_texts_part" not in found(greedy(text, exact) + greedy(text, exact))
    assert "greedy_texts_part" not in found(run_of(with_tokens(SOUND, text)) + run_of(with_tokens(SOUND, other)))


def test_a_dear_pass_over_several_rows_is_no_dear_draft() -> None:
    costs = ev.Calibration(t_ns=MS, c=10.0, widths=[1, 4], target_ns=[10 * MS, 40 * MS])
    wide = found(run_of(many(30, GOOD, [1, 0, 1], draft_ms=5.0, target_ms=40.0), costs))["dearer_than_it_pays"]
    flat = msgspec.structs.replace(costs, target_ns=[10 * MS, 11 * MS])
    dear = found(run_of(many(30, GOOD, [1, 0, 1], draft_ms=25.0, target_ms=11.0), flat))["dearer_than_it_pays"]
    assert (wide.fault, dear.fault) == (13, 12)
    assert dear.time is not None
    assert dear.time > 0


def test_a_pass_over_a_drafts_rows_that_costs_several_is_told_without_its_speed() -> None:
    """Behind a run that nobody timed: whether it is slower for it is not known."""

    def costs(wide: int) -> Evidence:
        timed = ev.Calibration(t_ns=MS, c=10.0, widths=[1, 4], target_ns=[10 * MS, wide * MS])
        return run_of(many(30, GOOD, [3, 2, 3], draft_ms=0.0, target_ms=0.0), timed)

    finding = found(costs(34))["dear_verifying"]
    assert (finding.fault, finding.certainty) == (13, "likely")
    assert "over 4 rows takes 3.4× as long" in finding.claim
    assert found(costs(14)) == {}


def test_half_of_a_long_draft_would_do_by_rounds_too() -> None:
    slope = [0, 0, 1, 0, 2, 1, 3, 2, 4, 1, 12, 2, 0, 5, 1, 9]
    finding = found(run_of(many(160, [0.9] * 12, slope)))["half_would_do"]
    assert (finding.fault, finding.headline) == (14, "half of 12 drafted tokens would do")
    assert "half_would_do" not in found(run_of(many(160, [0.9] * 12, [12, 11, 9, 12, 6, 12])))


@pytest.mark.parametrize(("text", "fed", "twice"), [("<|im_start|>user", 2, True), ("<|im_start|>user", 1, False)])
def test_a_template_that_went_in_twice_is_told_by_its_marks(text: str, fed: int, twice: bool) -> None:
    """What the text holds of them, and what the models read."""
    events = judged_run(SOUND)
    for prefill in (event for event in events if isinstance(event, ev.Prefill)):
        prefill.text, prefill.prompt = text, [1, *[7] * 8, 1][: 10 if fed == 2 else 9]
    finding = found(Evidence.of_run(fold(events))).get("template_twice")
    assert (finding is not None) is twice
    if finding is not None:
        assert (finding.fault, finding.certainty) == (6, "likely")


def test_a_loop_is_told_by_its_text() -> None:
    assert is_loop([1, 2, 3] * 30)
    assert not is_loop([*range(90)])
    assert not is_loop([1, 2] * 20), "too few tokens"
    rounds = with_tokens(many(60, GOOD, [3]), [7, 8])
    assert "1 of 1 answer end in a loop" in found(run_of(rounds))["too_good"].claim


@pytest.mark.parametrize(
    ("hash", "dtype", "certainty"), [("a", "bfloat16", "sure"), ("b", "int4", None), ("b", "bfloat16", "likely")]
)
def test_a_target_that_drafts_for_itself_is_known_by_its_weights(hash: str, dtype: str, certainty: str | None) -> None:
    """In fewer bits it nearly always agrees, and that is no news; another model of the same shape may be a copy."""
    target = ev.ModelInfo(
        name="t", arch="LlamaForCausalLM", n_layers=4, width=8, n_params=100, dtype="bfloat16", hash="a"
    )
    models = ev.Models(target=target, draft=msgspec.structs.replace(target, name="d", dtype=dtype, hash=hash))
    finding = found(run_of(with_tokens(many(60, GOOD, [3]), range(1000)), models=models)).get("too_good")
    assert (finding.certainty if finding else None) == certainty
    loop = found(run_of(with_tokens(many(60, GOOD, [3]), [7, 8]), models=models))["too_good"]
    assert loop.certainty == (certainty or "likely"), "any drafter guesses a loop"


def test_findings_of_a_pair_keep_their_fault_and_gravity() -> None:
    seen = [error("width-differs", 1, "fc takes 240", "use its target"), note("known", 10, "known of vLLM", "look")]
    first, second = judge(Evidence(pairs=(PairChecked(seen),)))
    assert (first.fault, first.certainty, second.fault, second.certainty) == (1, "sure", 10, "cannot tell")


def totals(kept: list[int], **more: object) -> Evidence:
    counts = {"n_rounds": 400, "n_drafted": 400 * len(kept), "n_accepted": sum(kept), "per_position": kept}
    return Evidence.of_looks([Counted(**{"engine": "vLLM", "wall": 0.0, **counts, **more})])  # type: ignore[arg-type]


def test_of_two_the_worse_is_told_from_where_on_and_by_what_differs() -> None:
    good, later, first = [290, 230, 180], [286, 110, 30], [12, 1, 0]
    assert found(totals(good) + totals(later))["worse_beside"].fault == 2
    other = found(totals(good, settings={"K/V": "f16"}) + totals(first, settings={"K/V": "q8_0"}))["worse_beside"]
    assert other.fault == 10
    assert "K/V f16 and q8_0" in other.claim
    assert "worse_beside" not in found(totals(good) + totals([288, 232, 178]))


def test_a_run_beside_plain_decoding_says_whether_it_pays() -> None:
    def history(rounds: int, accepted: int, drafted: int, seconds: float) -> Evidence:
        looks = [
            Counted(engine="e", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0),
            Counted(
                engine="e", wall=seconds, n_rounds=rounds, n_drafted=drafted, n_accepted=accepted, n_generated=1500
            ),
        ]
        return Evidence.of_looks(looks)

    plain = history(1500, 0, 0, 30.0)
    finding = found(plain + history(480, 1020, 2400, 40.0))["dearer_than_it_pays"]
    assert (finding.fault, finding.certainty) == (12, "likely")
    assert ".75 times plain decoding" in finding.claim
    assert found(plain + history(480, 1020, 2400, 15.0)) == {}
    assert msgspec.json.encode(finding.as_object())


def test_a_class_of_tokens_that_is_lost_is_told() -> None:
    def signs(kept: int) -> list[list[Event]]:
        """Every second round drafts a sign, and keeps it in so many of ten."""
        rounds = [chain_round(r, [0.8], int(r % 10 < 9) if r % 2 else int(r // 2 % 10 < kept)) for r in range(1, 161)]
        for node in (event for records in rounds[1::2] for event in records if isinstance(event, ev.Node)):
            node.text = " {"
        return rounds

    finding = found(run_of(signs(1)))["one_class_is_lost"]
    assert (finding.fault, finding.certainty, finding.headline) == (11, "cannot tell", "signs are hardly ever kept")
    assert "one_class_is_lost" not in found(run_of(signs(7)))


@pytest.mark.parametrize(
    ("text", "name"),
    [("<|im_start|>", "mark"), (" the", "word"), ("▁x1", "word"), ("42", "number"), ('{"', "sign"), ("\n", "space")],
)
def test_tokens_have_a_class(text: str, name: str) -> None:
    assert class_of(text) == name


def answers(kept: Sequence[int]) -> Evidence:
    """One answer of ten rounds for each, which keep their first token in so many of them."""
    events = judged_run([])
    end = events.pop()
    prefill = events.pop()
    for q, n in enumerate(kept):
        events.append(msgspec.structs.replace(prefill, q=q))  # type: ignore[type-var]
        for r in range(1, 11):
            records = chain_round(r, [0.8], int(r <= n))
            for record in records:
                record.q = q
            events += records
    for i, event in enumerate([*events, end]):
        event.i = i
    return Evidence.of_run(fold([*events, end]))


def test_answers_that_fare_worse_from_one_on_are_told_by_its_number() -> None:
    finding = found(answers([8, 9, 8, 8, 9, 8, 2, 1, 2, 2, 1, 2]))["answers_change"]
    assert finding.headline == "acceptance fell at answer 7"
    assert finding.places[0].label == "q6 r1"
    assert finding.certainty == "cannot tell"
    assert "answers_change" not in found(answers([8, 7, 9, 8, 7, 8, 8, 7, 9, 8, 8, 7]))


def test_why_nothing_was_drafted_is_told() -> None:
    rounds = [chain_round(r, [], 0) for r in range(1, 15)]
    for end in (event for records in rounds for event in records if isinstance(event, ev.RoundEnd)):
        end.draft_end = "no_match"
    assert (
        "Why, in 14 of 14 rounds without a draft: a lookup found no match."
        in found(run_of(rounds))["nothing_drafted"].claim
    )
    for end in (event for records in rounds for event in records if isinstance(event, ev.RoundEnd)):
        end.draft_end = "pausing"
    assert "nothing_drafted" not in found(run_of(rounds)), "the run said itself that drafting did not pay"


@pytest.mark.parametrize(("n_drafting", "named"), [(2, True), (30, False)], ids=["now and then", "every other"])
def test_a_run_that_drafts_now_and_then_and_keeps_nothing_is_named(n_drafting: int, named: bool) -> None:
    rounds = [chain_round(r, [0.9] if r % (60 // n_drafting) == 0 else [], 0) for r in range(1, 61)]
    for end in (event for records in rounds for event in records if isinstance(event, ev.RoundEnd)):
        end.draft_end = "no_match"
    findings = found(run_of(rounds))
    assert ("hardly_drafted" in findings) is named
    assert not named or "Why, mostly: a lookup found no match." in findings["hardly_drafted"].claim


def test_a_low_rate_without_positions_names_what_would_decide() -> None:
    low = Counted(engine="llama.cpp", wall=0.0, n_rounds=135, n_drafted=347, n_accepted=65, n_generated=200)
    finding = found(Evidence.of_looks([low]))["little_kept"]
    assert (finding.certainty, finding.headline) == ("cannot tell", "19 % of what is drafted is kept")
    high = msgspec.structs.replace(low, n_accepted=200, n_generated=335)
    assert found(Evidence.of_looks([high])) == {}


def test_a_report_that_counts_otherwise_than_its_rounds_is_told(tmp_path: Path) -> None:
    def reported(more: int) -> Evidence:
        """Twenty rounds that keep two of three; the report counts so many more as kept."""
        with Writer(tmp_path / f"{more}.sv.jsonl", "vLLM", rule="p/q", known="decisions", chains=True) as out:
            out.request([1, 2, 3])
            for _ in range(20):
                out.round()
                for token in (5, 6, 7):
                    out.drafted(token, "a")
                out.committed([5, 6, 8], ["a", "a", "b"], n_accepted=2)
            out.reported("vLLM", whole=True, n_rounds=20, n_drafted=60, n_accepted=40 + more)
        return evidence_of_trace(out.path)

    finding = found(reported(20))["counted_otherwise"]
    assert (finding.fault, finding.certainty) == (7, "sure")
    assert "the token that closes a round is counted as accepted" in finding.claim
    assert [(place.kind, place.label) for place in finding.evidence] == [("line", "report of vLLM")]
    assert "counted_otherwise" not in found(reported(0))


@pytest.mark.parametrize(
    ("rounds", "certainty", "others"),
    [
        (many(60, [0.9] * 4, [2, 2, 2, 1, 0]), "likely", {14}),
        (many(60, [0.9] * 4, [0, 0, 1]), "cannot tell", {1, 6}),  # no edge to fall off
        (many(20, [0.9] * 4, [2, 2, 2, 1, 0]), "cannot tell", {14}),  # few
    ],
)
def test_a_cliff_is_doubted_where_something_else_looks_so(
    rounds: list[list[Event]], certainty: str, others: set[int]
) -> None:
    finding = found(run_of(rounds))["position_cliff"]
    assert (finding.fault, finding.certainty, set(finding.others)) == (2, certainty, others)
    assert finding.decides


def test_a_slope_is_no_cliff() -> None:
    """All keep two, three of five the third: clearly less than before, and still most of it."""
    assert "position_cliff" not in found(run_of(many(60, [0.9] * 4, [4, 4, 4, 2, 2])))


def test_equal_lengths_are_no_equal_texts_and_equal_drafts_no_cliff(tmp_path: Path) -> None:
    def counts_alone(name: str) -> Evidence:
        with Writer(tmp_path / name, "vLLM", rule="exact match", known="counts", chains=True, temperature=0.0) as out:
            out.request(n_prompt=4)
            for _ in range(40):
                out.round(n_drafted=3)
                out.committed([-1, -1], ["", ""], n_accepted=1)
        return evidence_of_trace(out.path)

    alone = counts_alone("a.sv.jsonl")
    finding = found(alone + counts_alone("b.sv.jsonl"))["texts_unknown"]
    assert (finding.fault, finding.certainty) == (9, "cannot tell")
    assert "texts_unknown" not in found(alone)
    cliff = found(alone)["position_cliff"]
    assert (cliff.certainty, cliff.others) == ("cannot tell", (7, 14)), "no drafter is that even, a limit is"
    assert "texts_unknown" not in found(alone + run_of(SOUND)), "one of them is known"


def test_a_request_that_is_counted_otherwise_leads_to_its_rounds(tmp_path: Path) -> None:
    with Writer(tmp_path / "run.sv.jsonl", "vLLM", rule="p/q", known="decisions", chains=True) as out:
        for more in (0, 3):
            out.request([1, 2, 3])
            for _ in range(10):
                out.round()
                out.drafted(5, "a")
                out.committed([5, 8], ["a", "b"], n_accepted=1)
            out.reported("vLLM", n_rounds=10, n_drafted=10, n_accepted=10 + more)
    finding = found(evidence_of_trace(out.path))["counted_otherwise"]
    assert (finding.fault, finding.certainty) == (7, "likely")
    assert [place.label for place in finding.places] == ["q1 r1"]


@pytest.mark.parametrize(
    ("temperature", "rule", "named"), [(1.0, "exact match", True), (0.0, "exact match", False), (1.0, "p/q", False)]
)
def test_exact_match_of_another_engine_is_told_by_its_rule(
    tmp_path: Path, temperature: float, rule: str, named: bool
) -> None:
    """Where nobody recorded a probability: the rule is known, what another would keep is not."""
    with Writer(
        tmp_path / "run.sv.jsonl", "llama.cpp", rule=rule, known="decisions", chains=True, temperature=temperature
    ) as out:
        out.request([1, 2, 3])
        for r in range(60):
            out.round()
            out.drafted(5, "a")
            out.committed(
                [5, 8] if r % 4 == 0 else [8], ["a", "b"] if r % 4 == 0 else ["b"], n_accepted=int(r % 4 == 0)
            )
    finding = found(evidence_of_trace(out.path)).get("exact_match")
    assert (finding is not None) is named
    if finding is not None:
        assert (finding.fault, finding.certainty) == (8, "likely")
        assert "temperature 0" in finding.decides


@pytest.mark.parametrize(
    ("kept", "certainty", "fault"),
    [
        ((1, 1, 1), None, 0),
        ((1, 0, 1), "likely", 10),  # the others grow as long, and are kept
        ((0, 0), "likely", 4),  # the other one dies where it is as long
        ((0,), "cannot tell", 10),
    ],
)
def test_a_draft_that_dies_within_an_answer_is_told_by_its_round(
    kept: tuple[int, ...], certainty: str | None, fault: int
) -> None:
    """Sixty rounds an answer, three of four drafts keep something; of some answers from round 20 on next to none."""
    events: list[Event] = []
    header, prefill, end = judged_run([])
    events.append(header)
    for q, sound in enumerate(kept):
        events.append(msgspec.structs.replace(prefill, q=q))
        for r in range(1, 61):
            records = chain_round(r, [0.8], int(r % 4 > 0) if r <= 20 or sound else int(r % 20 == 0), n=10 + 2 * r)
            for record in records:
                record.q = q
            events += records
    for i, event in enumerate([*events, end]):
        event.i = i
    finding = found(Evidence.of_run(fold([*events, end]))).get("dies_within_an_answer")
    assert (finding.certainty if finding else None) == certainty
    if finding is not None:
        assert finding.fault == fault
        assert finding.places[0].at.endswith("r20"), "which keeps nothing, as those behind it"
