"""What stands behind a number on screen: how far it can be trusted, and never that it is certain."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.metrics import Estimate, Metrics, measure
from specviz.metrics.estimate import Unknown, share
from specviz.numerals import number, prob
from specviz.runlog.fold import fold
from specviz.view.frame.series import metric, overhead
from specviz.view.play.player import Player
from specviz.view.words.numbers import half_width, uncertainty
from support.estimates import mean, ratio
from support.traces import plain_round, plain_run


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(value=3.42, interval=(3.38, 3.46), n=90), "±.04"),
        (Estimate(value=0.0, interval=(0.0, 0.13), n=25), "[0, .13]"),
        (Estimate(value=1.0, interval=(0.87, 1.0), n=25), "[.87, 1]"),
        (Estimate(value=0.98, interval=(0.93, 1.0), n=9), "[.93, 1]"),
        (Estimate(value=1.0, n=3, unknown="few"), "(n 3 too small)"),
        (Estimate(value=1.0, n=1057, unknown="alike"), "(all 1,057 alike)"),
        (Estimate(value=12.0, n=7), ""),
    ],
)
def test_how_far_a_number_can_be_trusted(estimate: Estimate, text: str) -> None:
    assert uncertainty(estimate, prob if estimate.value <= 1 else None) == text


@pytest.mark.parametrize(("half", "text"), [(0.04, "±.04"), (0.003, "±.003"), (0.00002, "±<.0001"), (2.0, "±2")])
def test_half_a_width_keeps_a_figure(half: float, text: str) -> None:
    assert half_width(half) == text


@given(hits=st.lists(st.integers(0, 4), min_size=1, max_size=60), name=st.sampled_from(["x_rate", "len"]))
def test_nothing_is_ever_plus_or_minus_nothing(hits: list[int], name: str) -> None:
    drafted = np.full(len(hits), 4)
    for estimate in (ratio(np.array(hits), drafted, np.arange(len(hits)), most=1.0), mean(hits), share(sum(hits), 240)):
        assert estimate is not None
        assert not re.search(r"±0?$|±0 ", metric(name, "x", estimate).text)


@pytest.mark.parametrize(("kept", "rate"), [(0, "0 [0, .39]"), (4, "1 [.61, 1]")])
def test_a_header_of_equal_rounds_claims_no_certainty(kept: int, rate: str) -> None:
    closing = "bonus" if kept == 4 else "recovered"
    rounds = [plain_round(r, 5 + (kept + 1) * r, 4, kept, closing=closing) for r in range(1, 7)]
    texts = {m.label: m.text for m in Player(fold(plain_run(rounds))).frame().metrics}
    assert texts["kept/drafted"] == rate
    assert texts["tok/round"] == f"{kept + 1} (n 6 too small)"


@pytest.mark.parametrize(("unknown", "cell"), [("few", "n too small"), ("alike", "all alike"), (None, "")])
def test_a_table_says_so_too(unknown: Unknown | None, cell: str) -> None:
    from specviz.cli.printing import cells
    from specviz.cli.run.result import shown_estimate

    estimate = Estimate(value=1.0, n=4) if unknown is None else Estimate(value=1.0, n=4, unknown=unknown)
    assert cells(estimate)[1] == cell
    assert ("(" in shown_estimate(estimate)) == (unknown is not None)


@pytest.mark.parametrize(("share", "text"), [(0.021, "+2 %"), (0.9995, "+>99.9 %"), (1.0, "2×"), (2.4, "3.4×")])
def test_recording_that_doubles_a_round_says_how_many_times(share: float, text: str) -> None:
    metrics = measure(plain_run([plain_round(1, 6, 4, 2)]))
    assert overhead(Metrics({**metrics, "overhead": Estimate(value=share, n=1)})) == text


@pytest.mark.parametrize("value", [-0.0, -1e-9, -0.004, 0.004])
def test_nothing_has_no_sign(value: float) -> None:
    assert number(value) == "0"
