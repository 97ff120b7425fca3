"""The speed-up over plain decoding from the run alone: by hand for every basis, and where there is none."""

import msgspec
import pytest
from scipy.stats import binom

from specviz import events as ev
from specviz.cost.row_cost import row_cost
from specviz.events import Event
from specviz.metrics import PlainSpeed, Tally, plain_speed
from specviz.metrics.against_plain import LEAST_PLAIN
from specviz.metrics.estimate import Estimate
from support.judged import MS, chain_round, judged_run
from support.traces import make_events


def speed(events: list[Event]) -> PlainSpeed | None:
    return plain_speed(Tally().add_all(events))


def plain(r: int, ms: float = 10.0, probe_ms: float = 0.0) -> list[Event]:
    """A round in which nobody drafted."""
    return chain_round(r, [], 0, draft_ms=0.0, target_ms=ms, probe_ms=probe_ms)


def drafted(r: int, probe_ms: float = 0.0) -> list[Event]:
    """20 ms, 4 tokens."""
    return chain_round(r, [0.9] * 3, 3, draft_ms=8.0, target_ms=12.0, probe_ms=probe_ms)


COSTS = ev.Calibration(t_ns=MS, c=10.0, widths=[1, 2], target_ns=[15 * MS, 16 * MS])


def test_plain_rounds_of_the_run_itself_are_trusted_most() -> None:
    rounds = [plain(r) for r in range(1, LEAST_PLAIN + 1)] + [drafted(LEAST_PLAIN + 1), drafted(LEAST_PLAIN + 2)]
    gain = speed(judged_run(rounds, COSTS))
    assert gain is not None
    assert (gain.basis, gain.measured, gain.plain_ms) == ("rounds", True, 10.0)
    tokens, ms = LEAST_PLAIN + 8, 10 * LEAST_PLAIN + 40
    assert gain.times.value == pytest.approx(tokens / ms * 10)
    assert gain.times.interval is not None
    assert gain.times.interval[0] < gain.times.value < gain.times.interval[1]


def test_a_few_slow_plain_rounds_widen_the_interval_to_their_mean() -> None:
    """The median is the number: one pass that waited for another program does not shift it. The whole run is added up
    all the same, waiting and all, so what plain decoding would have taken ends at the mean."""

    def times(slow_ms: float) -> Estimate:
        rounds = [*(plain(r) for r in range(1, 11)), plain(11, slow_ms), *(drafted(r) for r in range(12, 60))]
        gain = speed(judged_run(rounds, COSTS))
        assert gain is not None
        assert (gain.basis, gain.plain_ms) == ("rounds", 10.0)
        return gain.times

    even, uneven = times(10.0), times(120.0)
    assert even.interval is not None
    assert uneven.interval is not None
    assert sum(even.interval) == pytest.approx(2 * even.value), "mean and median are one"
    low, high = uneven.interval
    assert low / 10 + high / 20 == pytest.approx(2 * uneven.value / 10), "the mean is 20 ms"


def timed(r: int, ms: float) -> list[Event]:
    """A round before which a pass of plain decoding was timed."""
    *records, end = drafted(r)
    assert isinstance(end, ev.RoundEnd)
    return [*records, msgspec.structs.replace(end, plain_ns=round(ms * MS))]


def test_passes_between_the_rounds_come_before_all_else() -> None:
    """Whatever a timing before the run says: they were slowed down by what slowed the rounds down."""
    took = [30.0, 24.0, 27.0, 40.0, 26.0]
    gain = speed(judged_run([timed(r, ms) for r, ms in enumerate(took, 1)], COSTS))
    assert gain is not None
    assert (gain.basis, gain.measured, gain.agrees, gain.plain_ms) == ("timed", True, True, 27.0)
    assert gain.times.value == pytest.approx(20 / 100 * 27)
    assert gain.times.interval == pytest.approx((20 / 100 * 24, 20 / 100 * 40)), "of few, all of them"


def test_the_interval_of_many_passes_is_that_of_their_median() -> None:
    took = [float(ms) for ms in range(1, 101)]
    gain = speed(judged_run([timed(r, ms) for r, ms in enumerate(took, 1)]))
    assert gain is not None
    assert gain.times.interval is not None
    inside = binom(100, 0.5)
    low, high = (end * 100 * 20 / 400 for end in gain.times.interval)  # 4 tokens in 20 ms: back to milliseconds
    assert inside.cdf(round(high) - 1) - inside.cdf(round(low) - 1) >= 0.95
    assert high - low < 25


def test_below_three_those_behind_the_text_count_where_the_runs_own_passes_agree() -> None:
    behind = msgspec.structs.replace(COSTS, behind_ns=[14 * MS, 11 * MS, 12 * MS])
    gain = speed(judged_run([timed(1, 30.0), drafted(2)], behind))
    assert gain is not None
    assert (gain.basis, gain.measured, gain.agrees, gain.plain_ms) == ("behind", True, True, 12.0)
    far = msgspec.structs.replace(COSTS, behind_ns=[40 * MS] * 3)
    other = speed(judged_run([drafted(1), drafted(2)], far))
    assert other is not None
    assert (other.basis, other.agrees, other.trusted) == ("behind", False, None)
    alone = speed(judged_run([drafted(1), drafted(2)], ev.Calibration(behind_ns=[12 * MS] * 3)))
    assert alone is not None
    assert (alone.basis, alone.times.value) == ("behind", pytest.approx(8 / 40 * 12))


def test_then_a_pass_that_was_timed_at_the_start() -> None:
    gain = speed(judged_run([drafted(1), drafted(2)], COSTS))
    assert gain is not None
    assert (gain.basis, gain.measured) == ("pass", True)
    assert gain.times.value == pytest.approx(8 / 40 * 15)


def test_then_the_passes_of_the_run_which_is_a_model() -> None:
    gain = speed(judged_run([drafted(1), drafted(2)]))
    assert gain is not None
    assert (gain.basis, gain.measured) == ("stage", False)
    assert gain.times.interval is None, "rows cost nothing where the device is not known"
    assert gain.times.value == pytest.approx(8 / 40 * 12)


def test_on_a_processor_rows_may_cost_and_the_model_is_a_range() -> None:
    target = ev.ModelInfo(name="t", device="cpu")
    gain = speed(judged_run([drafted(1), drafted(2)], models=ev.Models(target=target)))
    assert gain is not None
    assert gain.times.interval == pytest.approx((8 / 40 * 12 / row_cost("cpu", 4), 8 / 40 * 12))


def costs(*target_ms: int, **more: int) -> ev.Calibration:
    """Passes of 1, 4, .. rows timed alone."""
    widths = [1, 4, 8][: len(target_ms)]
    return ev.Calibration(widths=widths, target_ns=[ms * MS for ms in target_ms], **more)


def test_passes_of_the_run_are_held_against_those_timed_alone_at_their_width() -> None:
    """Passes of the run have 4 rows and take 12 ms."""
    rounds = [drafted(1), drafted(2)]
    gain = speed(judged_run(rounds, costs(6, 12)))
    assert gain is not None
    assert (gain.agrees, gain.own_ms, gain.alone_ms) == (True, 6.0, 6.0)
    assert gain.trusted is not None
    for changed in (costs(2, 4), costs(30, 60)):  # three times as fast alone, and five times as slow
        gain = speed(judged_run(rounds, changed))
        assert gain is not None
        assert gain.trusted is None
        assert not gain.costs_hold


def test_within_a_quarter_the_interval_takes_both_in() -> None:
    gain = speed(judged_run([drafted(1), drafted(2)], costs(5, 10)))
    assert gain is not None
    assert gain.own_ms == 6.0
    assert gain.trusted is not None
    assert gain.trusted.interval == pytest.approx((8 / 40 * 5, 8 / 40 * 6))


def test_a_drafter_beside_the_pass_may_slow_it_down() -> None:
    rounds = [drafted(1), drafted(2)]
    gain = speed(judged_run(rounds, costs(4, 8), lanes="threads"))
    assert gain is not None
    assert gain.trusted is not None
    assert gain.trusted.value == pytest.approx(8 / 40 * 4)


def test_plain_rounds_that_other_passes_belie_are_not_trusted() -> None:
    """Plain rounds of 50 ms among passes over more rows that take 12: they were slow for another reason."""
    rounds = [plain(r, 50.0) for r in range(1, LEAST_PLAIN + 1)] + [drafted(r) for r in range(9, 20)]
    gain = speed(judged_run(rounds))
    assert gain is not None
    assert (gain.basis, gain.trusted) == ("rounds", None)


def test_plain_decoding_is_counted_without_the_padding_of_exact_rows() -> None:
    padded = costs(6, 12, plain_ns=3 * MS)
    gain = speed(judged_run([drafted(1), drafted(2)], padded))
    assert gain is not None
    assert (gain.price, gain.times.value) == (2.0, pytest.approx(8 / 40 * 3))
    rounds = [plain(r) for r in range(1, LEAST_PLAIN + 1)]
    gain = speed(judged_run(rounds, padded))
    assert gain is not None
    assert (gain.basis, gain.times.value) == ("rounds", pytest.approx(0.5))


def test_a_pass_over_several_rows_is_no_plain_one() -> None:
    wide = ev.Calibration(widths=[2, 4], target_ns=[15 * MS, 16 * MS])
    gain = speed(judged_run([drafted(1)], wide))
    assert gain is not None
    assert gain.basis == "stage"


def test_a_target_that_stops_early_is_measured_by_its_layers() -> None:
    climb = ev.ExitRound(
        r=1, n_rows=2, layer_calls=18, cells=20, head_tests=2, saved_calls=0, wasted_cells=0, predicted_ns=0
    )
    records = drafted(1)
    target = ev.ModelInfo(name="table", n_layers=12)
    events = judged_run([[*records[:-1], climb, records[-1]]], models=ev.Models(target=target))
    gain = speed(events)
    assert gain is not None
    assert gain.basis == "layers"
    assert gain.times.value == pytest.approx(4 * 12 / 18)


def test_what_recording_cost_is_left_out() -> None:
    quiet, loud = (speed(judged_run([drafted(1, ms), drafted(2, ms)], COSTS)) for ms in (0.0, 30.0))
    assert quiet is not None
    assert loud is not None
    assert quiet.times == loud.times


def test_a_round_that_fed_more_than_its_root_is_not_plain() -> None:
    """Lookahead's window is no draft, and is fed."""
    rounds = []
    for r in range(1, LEAST_PLAIN + 2):
        records = plain(r)
        window = ev.Node(r=r, node=r, parent=-1, depth=1, pos=11, token=1, text="a", src={"window": 0})
        rounds.append([records[0], window, *records[1:]])
    gain = speed(judged_run(rounds))
    assert gain is not None
    assert gain.basis == "stage"


def test_plain_decoding_has_none() -> None:
    assert speed(make_events(shape="none")) is None
    assert plain_speed(Tally()) is None
