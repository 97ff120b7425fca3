"""The part *would it pay* of screen Lanes as text, at the widths it is drawn in."""

from dataclasses import replace

import pytest

from specviz.cost.payoff import PositionChance, RoundCosts, payoff
from specviz.text import width as cells
from specviz.view.blocks import Plot
from specviz.view.panels.lanes.payoff import PayPanel, pay_words, point_text
from specviz_tui.common.blocks import COLUMN, HEIGHT, paint, painted
from specviz_tui.common.paint import Painter

CURVE = payoff({1: PositionChance(0.8, 0.7, 0.9, 90)}, RoundCosts((1, 17), (0.01, 0.02), 0.002), 4, 150.0)


@pytest.mark.parametrize("width", [36, 57, 118])
def test_it_fits_and_says_what_it_found(width: int) -> None:
    assert CURVE is not None
    pay = PayPanel("", CURVE, pay_words(CURVE), point_text(CURVE), "a note")
    lines = painted(pay, Painter(), width).plain.splitlines()
    assert max(cells(line) for line in lines) <= width
    assert sum("◆" in line for line in lines) == 2, "the measured point, and what it is"
    drawn = [line.plain for block in pay if isinstance(block, Plot) for line in paint(block, Painter(), width)][:HEIGHT]
    heights = [
        sum(line[6 + COLUMN * gamma : 8 + COLUMN * gamma].strip("· ") != "" for line in drawn)
        for gamma in (0, CURVE.best)
    ]
    assert heights[1] > heights[0], "the best length is the higher column"


def test_what_is_missing_is_a_sentence() -> None:
    assert painted(PayPanel("no costs here"), Painter(), 40).plain.strip() == "no costs here"


def test_a_measured_speed_far_below_the_curve_names_what_recording_took() -> None:
    assert CURVE is not None
    assert CURVE.measured
    far = replace(CURVE, measured=CURVE.measured / 3)
    assert "Recording took 26 % of what all else took, which the curve has not. Rounds and" in point_text(far, 0.26)
    assert "Recording" not in point_text(far, 0.01)
    assert "Recording" not in point_text(far)
    assert "Recording" not in point_text(replace(far, measured=CURVE.speeds[4]), 0.26), "nothing is to be explained"
