"""What the judge says of counts alone: each fault, and a healthy twin of it."""

import pytest

from specviz.events import Counted, EngineCounts
from specviz.judge import Evidence, Finding, judge

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


def test_counts_that_contradict_each_other_are_said() -> None:
    assert found(totals([100, 200]))["does_not_add_up"].fault == 7


def test_what_is_kept_nearly_always_is_doubted() -> None:
    assert found(totals([400, 399, 398]))["too_good"].fault == 16
    assert "too_good" not in found(totals([390, 370, 350]))


def test_nothing_drafted_is_told_where_text_is_written() -> None:
    silent = Counted(engine="vLLM", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=900)
    assert found(silent)["nothing_drafted"].fault == 15
    assert found(Counted(engine="vLLM", wall=0.0, n_rounds=0, n_drafted=0, n_accepted=0, n_generated=0)) == {}
