"""What the judge says of counts alone: each fault, and a healthy twin of it."""

import pytest

from specviz.check.findings import note
from specviz.engines.watch.picture import MOST_LOOKS
from specviz.events import Counted, EngineCounts
from specviz.judge import Evidence, Finding, judge
from specviz.judge.evidence import PairChecked

SOUND = [280, 190, 130, 90]  # of 400 rounds


def totals(kept: list[int], rounds: int = 400, wall: float = 0.0, **more: object) -> Counted:
    accepted, width = sum(kept), len(kept)
    counts = {"n_rounds": rounds, "n_drafted": width * rounds, "n_accepted": accepted, "n_generated": rounds + accepted}
    return Counted(**{"engine": "vLLM", "wall": wall, "per_position": kept, **counts, **more})  # type: ignore[arg-type]


def found(*looks: Counted) -> dict[str, Finding]:
    return {finding.detector: finding for finding in judge(Evidence.of_looks(looks))}


def test_sound_counts_have_no_finding() -> None:
    assert found(totals(SOUND)) == {}
    assert found(totals([0], 5)) == {}, "five rounds say nothing"


@pytest.mark.parametrize("kept", [[0] * 13, [4, 0, 0]])
def test_a_dead_draft_is_never_a_draft_length(kept: list[int]) -> None:
    (finding,) = found(totals(kept)).values()
    assert (finding.detector, finding.fault, finding.certainty) == ("never_kept", 3, "likely")
    assert {1, 5} <= set(finding.others)
    assert finding.decides


def test_a_dead_draft_is_known_without_positions_and_without_rounds() -> None:
    drafted = Counted(engine="vLLM", wall=0.0, n_generated=2642, n_drafted=42272, n_accepted=0)
    assert "0 of 42,272" in found(drafted)["never_kept"].claim
    means = Counted(engine="SGLang", wall=0.0, accept_length=1.02)
    assert found(means)["never_kept"].fault == 3
    assert found(Counted(engine="SGLang", wall=0.0, accept_length=1.9)) == {}


def test_a_cliff_is_no_draft_length() -> None:
    finding = found(totals([280, 264, 248, 240, 220, 0, 0, 0]))["position_cliff"]
    assert (finding.fault, finding.headline) == (2, "a cliff at position 6")
    assert found(totals([280, 190, 130, 60, 30, 12])).get("position_cliff") is None


def test_a_tail_that_brings_nothing_is() -> None:
    finding = found(totals([280, 190, 120, 60, 20, 3]))["long_tail"]
    assert finding.fault == 14
    assert "Drafting 5 in place of 6" in finding.next_step


def test_long_drafts_of_which_little_is_kept_are_told_without_positions() -> None:
    def look(kept: int, drafted: int = 16) -> Counted:
        return Counted(engine="llama.cpp", wall=0.0, n_rounds=400, n_drafted=drafted * 400, n_accepted=kept)

    finding = found(look(600))["long_tail"]
    assert (finding.fault, finding.certainty, finding.claim) == (
        14,
        "likely",
        "16.0 tokens are drafted a round to keep 1.5.",
    )
    assert "long_tail" not in found(look(2400)), "six of sixteen are kept"
    assert "long_tail" not in found(look(600, 4)), "four are not long"


def test_half_of_a_long_draft_would_do_where_its_second_half_brings_less_than_it_costs() -> None:
    finding = found(totals([240, 160, 110, 80, 60, 48, 40, 34, 30, 26, 24, 24]))["half_would_do"]
    assert (finding.fault, finding.headline) == (14, "half of 12 drafted tokens would do")
    assert finding.next_step.startswith("A draft of 6 tokens keeps nearly as much")
    assert found(totals([360, 330, 300, 280, 260, 240, 220, 200, 190, 180, 170, 160])) == {}, "it pays to the end"
    assert "half_would_do" not in found(totals([6, 4, 2, 1, 1, 0, 0, 0], 10)), "ten rounds: an interval forbids it"


def test_what_threads_tell_of_an_engine_is_quoted_where_the_counts_look_so() -> None:
    cliff, settings = [280, 20, 1], {"method": "mtp"}
    finding = found(totals(cliff, settings=settings))["known_of_engine"]
    assert (finding.certainty, finding.fault) == ("cannot tell", 2)
    assert "vLLM" in finding.claim
    for kept, engine in ((SOUND, "vLLM"), (cliff, "llama.cpp")):
        assert "known_of_engine" not in found(totals(kept, settings=settings, engine=engine))


def test_answers_that_end_with_their_first_token_are_a_template_left_out() -> None:
    finding = found(totals(SOUND, n_answers=12, n_empty=5))["template_left_out"]
    assert (finding.fault, finding.certainty) == (6, "likely")
    assert "In 5 of 12 answers the first token ended it" in finding.claim
    for n, empty in ((12, 2), (200, 12), (12, 0)):
        assert found(totals(SOUND, n_answers=n, n_empty=empty)) == {}, "few, or of so many that it may be chance"


def test_one_of_several_engines_that_is_ill_is_named() -> None:
    def look(*accepted: int) -> Counted:
        engines = [EngineCounts(name=str(k), n_rounds=400, n_accepted=n) for k, n in enumerate(accepted)]
        rounds = 400 * len(accepted)
        return Counted(
            engine="vLLM", wall=0.0, n_rounds=rounds, n_drafted=3 * rounds, n_accepted=sum(accepted), engines=engines
        )

    finding = found(look(760, 720, 40, 800))["sick_engine"]
    assert [place.label for place in finding.evidence] == ["engine 2"]
    assert finding.broken
    assert found(look(760, 720, 700, 800)) == {}


def test_acceptance_that_falls_in_time_cannot_be_told_from_other_requests() -> None:
    def history(later: int) -> list[Counted]:
        looks, kept = [totals([0, 0], 0)], 0
        for k in range(1, 25):
            kept += 320 if k < 12 else later
            looks.append(totals([kept, kept // 2], 400 * k, wall=float(k)))
        return looks

    finding = found(*history(160))["changed_in_time"]
    assert (finding.certainty, finding.evidence[0].kind) == ("cannot tell", "window")
    assert "same prompts" in finding.decides
    assert found(*history(320)) == {}


@pytest.mark.parametrize(("later", "is_healed"), [(320, True), (250, False)])
def test_a_slide_that_a_restart_ended_is_told_as_a_slide(later: int, is_healed: bool) -> None:
    looks, kept = [totals([0], 0)], 0
    for k in range(1, 61):
        kept += 320 if k <= 20 else 290 if k <= 40 else 250
        looks.append(totals([kept], 400 * k, wall=60.0 * k))
    looks += [totals([later * k], 400 * k, wall=3600.0 + 60 * k) for k in range(1, 7)]
    finding = found(*looks)["changed_in_time"]
    assert finding.headline.startswith("acceptance slides since")
    assert ("until a restart at" in finding.headline) is is_healed
    assert finding.certainty == ("likely" if is_healed else "cannot tell")
    assert finding.tokens == pytest.approx((320 - 250) / 400)


def test_counts_that_contradict_each_other_are_said() -> None:
    assert found(totals([100, 200]))["does_not_add_up"].fault == 7


def test_what_is_kept_nearly_always_is_doubted() -> None:
    assert found(totals([400, 399, 398]))["too_good"].fault == 16
    assert "too_good" not in found(totals([390, 370, 350]))


def test_nothing_drafted_is_told_where_text_is_written() -> None:
    silent = Counted(engine="vLLM", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=900)
    assert found(silent)["nothing_drafted"].fault == 15
    assert found(Counted(engine="vLLM", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0)) == {}


def seldom(n_rounds: int, kept: list[int], n_generated: int = 900) -> Counted:
    """Rounds that drafted three tokens each, within so much text."""
    return totals(kept, n_rounds, n_generated=n_generated)


def test_much_text_and_few_drafts_are_named() -> None:
    finding = found(seldom(20, [5, 1, 0]))["hardly_drafted"]
    assert (finding.fault, finding.certainty) == (15, "likely")
    assert "In 20 of 894 rounds something was drafted, and in 5 kept" in finding.claim
    assert "hardly_drafted" not in found(seldom(400, [300, 200, 100], 1000)), "every round drafts"
    assert "hardly_drafted" not in found(seldom(220, [200, 180, 160], 1400)), "few draft, and much is kept"
    assert "hardly_drafted" not in found(seldom(1, [0, 0, 0], 4)), "an interval of four rounds forbids it"


def test_of_several_drops_the_one_is_named_that_surely_keeps_the_least() -> None:
    """The second position loses more, the third all of it."""
    finding = found(totals([320, 144, 0]))["position_cliff"]
    assert finding.headline == "a cliff at position 3"


def windows(kept: list[int], held: list[float], rounds: int = 20) -> list[Counted]:
    """Looks at one position: what each window keeps of so many rounds, and how full the cache is then."""
    looks, total = [totals([0], 0, gauges={"running": 1.0, "cache in use": held[0]})], 0
    for k, (n, share) in enumerate(zip(kept, held, strict=True), 1):
        total += n
        gauges = {"running": 1.0, "cache in use": share}
        looks.append(totals([total], rounds * k, wall=float(k), gauges=gauges))
    return looks


GROWING = [0.1, 0.3, 0.5, 0.7, 0.1, 0.3, 0.5, 0.7]  # two texts, one after another


@pytest.mark.parametrize(
    ("kept", "held", "fault"),
    [
        ([17, 16, 6, 2, 18, 15, 5, 3], GROWING, True),
        ([16, 15, 16, 14, 17, 16, 15, 16], GROWING, False),  # length does nothing
        ([17, 16, 17, 16, 15, 6, 2, 1], GROWING, False),  # one text alone
        ([17, 16, 15, 12, 8, 6, 3, 2], [0.1 * k for k in range(1, 9)], False),  # a length that is no other than time
    ],
)
def test_what_falls_as_texts_grow_is_told_by_the_cache(kept: list[int], held: list[float], fault: bool) -> None:
    finding = found(*windows(kept, held)).get("falls_as_the_cache_fills")
    assert (finding is not None) is fault
    if finding is not None:
        assert (finding.fault, finding.certainty) == (4, "likely")
        assert {place.index for place in finding.evidence} <= {2, 3, 6, 7}, "windows with long texts"


@pytest.mark.parametrize(
    ("kept", "running", "fault"),
    [
        ([18, 17, 18, 18, 17, 2, 1, 1], 1.0, 10),  # the other text grew as long, and was kept
        ([18, 17, 2, 1, 17, 2, 1, 1], 1.0, 4),  # both are lost where they are as long
        ([18, 17, 18, 18, 17, 2, 1, 1], 2.0, 0),  # of two requests the cache tells a mean
        ([18, 17, 18, 18, 17, 11, 12, 11], 1.0, 0),  # less, and more than half
    ],
)
def test_a_text_in_which_the_draft_dies_is_told_beside_another_as_long(
    kept: list[int], running: float, fault: int
) -> None:
    looks = windows(kept, [0.1, 0.3, 0.5, 0.7] * 2)
    for look in looks:
        look.gauges = {"running": running, "cache in use": look.gauges["cache in use"] * running}
    findings = found(*looks)
    named = {finding.fault for finding in findings.values() if finding.certainty == "likely"}
    assert named == ({fault} if fault else set())
    if fault == 10:
        finding = findings["dies_within_an_answer"]
        assert "no matter of length" in finding.claim
        assert [(place.kind, place.index) for place in finding.evidence] == [("window", 5)]


@pytest.mark.parametrize(
    ("rate", "length", "words"),
    [
        ((690 + 400) / 1600, 1 + 690 / 400 + 1, "closing token counts twice"),
        (690 / (400 + 690 - 90), None, "only what was tested counts as drafted"),
        ((690 + 400) / (1600 + 400), None, "counts as drafted and accepted"),
    ],
)
def test_a_mean_that_is_of_other_counts_is_named(rate: float, length: float | None, words: str) -> None:
    finding = found(totals(SOUND, accept_rate=rate, accept_length=length))["reported_otherwise"]
    assert finding.fault == 7
    assert words in finding.claim


def test_a_mean_of_what_was_tested_allows_for_short_drafts_that_were_kept_whole() -> None:
    """Ten tokens are missing at the ends of answers: up to ten rounds tested one token less than they seem to."""

    def reported(n_tested: int, missing: int = 10) -> dict[str, Finding]:
        return found(totals(SOUND, n_drafted=1600 - missing, accept_rate=690 / n_tested))

    assert "only what was tested" in reported(400 + 690 - 90 - 6)["reported_otherwise"].claim
    assert reported(400 + 690 - 90 - 40) == {}, "so many were not short"
    assert "reported_otherwise" not in reported(400 + 690 - 90 - 60, 200), "any mean would do"


def test_a_mean_of_these_counts_or_of_the_newest_window_is_sound() -> None:
    assert found(totals(SOUND, accept_rate=690 / 1600, accept_length=1 + 690 / 400)) == {}
    before, after = totals(SOUND), totals([2 * n for n in SOUND[:2]] + SOUND[2:], 800, wall=10.0)
    newest = 1 + (after.n_accepted - before.n_accepted) / 400  # type: ignore[operator]
    after.accept_length = newest
    assert "reported_otherwise" not in found(totals([0] * 4, 0), before, after)


def test_exact_match_is_told_by_settings_that_somebody_chose() -> None:
    low = [72, 30, 20, 10]
    chosen = {"method": "draft", "verifier": "walk", "temperature": "1"}
    finding = found(totals(low, settings=chosen))["exact_match"]
    assert (finding.fault, finding.certainty) == (8, "likely")
    for other in ({"temperature": "0"}, {"verifier": "tokenwise"}, {"method": "eagle3"}, {"temperature": "warm"}):
        assert "exact_match" not in found(totals(low, settings=chosen | other)), other
    assert "exact_match" not in found(totals(SOUND, settings=chosen)), "enough is kept"


def test_a_text_that_becomes_a_loop_is_doubted_from_there_on() -> None:
    def looks(later: int) -> list[Counted]:
        kept = [6, 10, *[20] * 6, later, *[20] * 3]
        return windows(kept, [0.1] * len(kept))

    assert "Since window 3 of 12" in found(*looks(20))["too_good"].claim
    assert "too_good" not in found(*looks(19)), "one was lost"
    assert "too_good" not in found(*looks(20)[:7]), "so few are kept by chance"


def spread(speeds: list[float], drafted: int, kept: int) -> Evidence:
    """A second each window, of as many tokens."""
    looks, rounds = [totals([0], 0)], 0
    total = 0
    for k, speed in enumerate(speeds, 1):
        total += round(speed)
        rounds = round(total / (1 + kept / 100))
        looks.append(
            Counted(
                engine="vLLM",
                wall=float(k),
                n_rounds=rounds,
                n_drafted=drafted * rounds,
                n_accepted=total - rounds,
                n_generated=total,
                per_position=[total - rounds] if kept else [],
            )
        )
    looks[0] = Counted(engine="vLLM", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0)
    return Evidence.of_looks(looks)


@pytest.mark.parametrize(
    ("speeds", "certainty"),
    [
        ([80, 82, 79, 81, 80, 78], "likely"),
        ([80, 130, 70, 120, 60, 110], "cannot tell"),
        ([130, 131, 129, 130], None),
        ([60, 70], "likely"),
        ([5, 95, 90], "cannot tell"),  # one window stood still, and there are too few for a spread
        ([2], "cannot tell"),  # 80 plain rounds for two drafted tokens: more than any drafter takes
    ],
)
def test_slower_than_its_twin_is_told_by_how_windows_spread(speeds: list[float], certainty: str | None) -> None:
    plain = spread([100] * len(speeds), 0, 0)
    findings = {f.detector: f for f in judge(spread(speeds, 2, 60) + plain)}
    finding = findings.get("dearer_than_it_pays")
    assert (finding.certainty if finding else None) == certainty
    if finding is not None:
        assert finding.fault == 12
        assert finding.decides
    experts = Evidence(pairs=(PairChecked((note("experts", 13, "it has experts", "measure it"),)),))
    with_experts = {f.detector: f for f in judge(spread(speeds, 2, 60) + plain + experts)}.get("dearer_than_it_pays")
    assert (with_experts.fault if with_experts else None) == (13 if certainty else None)


def test_unusual_layers_are_a_fault_where_the_first_token_is_mostly_wrong() -> None:
    unusual = Evidence(pairs=(PairChecked((note("layers-unusual", 1, "it reads layers [1, 2, 3]", "see its card"),)),))
    low, sound = (Evidence.of_looks([totals(kept)]) for kept in ([80, 20, 10], SOUND))
    finding = {f.detector: f for f in judge(unusual + low)}["layers_unusual"]
    assert (finding.fault, finding.certainty) == (1, "likely")
    assert "layers_unusual" not in {f.detector for f in judge(unusual + sound)}
    assert "layers_unusual" not in {f.detector for f in judge(low)}


def test_a_drafter_among_several_that_drafts_nothing_is_named() -> None:
    def look(silent: int) -> Counted:
        parts = [
            EngineCounts(name="map-k", n_rounds=silent, n_accepted=silent, n_drafted=2 * silent, n_calls=282),
            EngineCounts(name="mtp", n_rounds=280, n_accepted=460, n_drafted=560, n_calls=281),
        ]
        rounds, kept = 280 + silent, 460 + silent
        return Counted(
            engine="llama.cpp",
            wall=0.0,
            n_rounds=rounds,
            n_drafted=640,
            n_accepted=kept,
            engines=parts,
            parts_of="drafter",
        )

    finding = found(look(0))["drafters_mixed"]
    assert finding.fault == 15
    assert "nothing drafted in 282 calls" in finding.claim
    assert "drafters_mixed" not in found(look(40))


def test_a_summary_that_says_that_it_does_not_pay_is_taken_at_its_word() -> None:
    note = "a round took 593 ms, as long as 6.7 plain tokens of 89 ms, and brought 6.4: it does not pay"
    finding = found(totals(SOUND, notes=[note]))["dearer_than_it_pays"]
    assert (finding.fault, finding.certainty) == (12, "likely")
    assert finding.claim.startswith("A round took 593 ms")
    assert found(totals(SOUND, notes=["a round took 120 ms, and brought 6.4 tokens: it pays"])) == {}


def test_a_day_of_looks_is_judged_by_as_many_windows_as_a_picture_needs() -> None:
    def day(later: int) -> list[Counted]:
        looks, kept = [totals([0], 0)], 0
        for k in range(1, 43_200):
            kept += 7 if k < 20_000 else later
            looks.append(totals([kept], 10 * k, wall=2.0 * k))
        return looks

    looks = day(4)
    picture = Evidence.of_looks(looks).counts[0].picture
    assert len(picture.points) <= MOST_LOOKS
    assert (picture.n_rounds, picture.n_accepted) == (looks[-1].n_rounds, looks[-1].n_accepted)
    (change,) = picture.changes
    assert change.wall == pytest.approx(40_000, abs=200)
    assert (round(change.before, 1), round(change.after, 1)) == (0.7, 0.4)


def test_a_server_that_began_again_among_many_looks_is_seen() -> None:
    looks = [totals([7 * k], 10 * k, wall=2.0 * k) for k in range(1, 2001)]
    looks += [totals([7 * k], 10 * k, wall=4000.0 + 2 * k) for k in range(1, 2001)]
    picture = Evidence.of_looks(looks).counts[0].picture
    assert picture.restarts == (4002.0,)
    assert picture.n_rounds == 19_990 + 20_000


@pytest.mark.parametrize(("many", "named"), [(1500, True), (2600, False)])
def test_a_batch_that_makes_drafts_dear_is_told_beside_plain_decoding(many: int, named: bool) -> None:
    def load(one: int, batch: int, drafted: int) -> Evidence:
        """Ten windows of one request, ten of 32: tokens a second of each."""
        looks, total = [Counted(engine="e", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0)], 0
        for k in range(1, 21):
            total += (one if k <= 10 else batch) + k % 3
            rounds = total // 3 if drafted else total
            looks.append(
                Counted(
                    engine="e",
                    wall=float(k),
                    n_rounds=rounds,
                    n_drafted=drafted * rounds,
                    n_accepted=total - rounds,
                    n_generated=total,
                    gauges={"running": 1.0 if k <= 10 else 32.0},
                )
            )
        return Evidence.of_looks(looks)

    findings = {f.detector: f for f in judge(load(180, many, 4) + load(100, 1700, 0))}
    assert ("slower_in_a_batch" in findings) is named
    if named:
        assert findings["slower_in_a_batch"].fault == 13
        assert "dearer_than_it_pays" not in findings, "said once"


def test_of_two_falls_each_leads_from_and_to_its_own_stretch() -> None:
    looks, kept = [totals([0], 0)], 0
    for k in range(1, 61):
        kept += 320 if k <= 20 else 240 if k <= 40 else 160
        looks.append(totals([kept], 400 * k, wall=float(k)))
    first, second = Evidence.of_looks(looks).counts[0].picture.changes
    assert (first.before, first.after) == (0.8, 0.6)
    assert (second.before, second.after) == (0.6, 0.4)
