"""Colours can be read on their ground, and told apart where a terminal has few."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem

from specviz.view.words import palette
from specviz.view.words.palette import LEAST, contrast, legible, parse

COLOURS = st.tuples(*[st.integers(0, 255)] * 3)
DARK, LIGHT = ("#121212",), ("#E0E0E0", "#FDF6E3", "#FFFFFF")


def test_contrast_is_that_of_the_guideline() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.478, abs=1e-3)
    assert contrast((9, 9, 9), (9, 9, 9)) == 1


@given(colour=COLOURS, ground=COLOURS)
def test_any_colour_can_be_made_legible_on_any_ground(
    colour: tuple[int, int, int], ground: tuple[int, int, int]
) -> None:
    mixed = legible(colour, ground)
    assert contrast(mixed, ground) >= LEAST
    assert mixed == colour or contrast(colour, ground) < LEAST, "what can be read stays as it is"


@pytest.mark.parametrize("ground", [*DARK, *LIGHT])
def test_every_mark_can_be_read_on_the_grounds_it_was_chosen_for(ground: str) -> None:
    dark = ground in DARK
    for name, style in {**palette.STYLES, **palette.KINDS, **palette.BLOCKS, **palette.COSTS}.items():
        assert contrast(parse(style.dark if dark else style.light), parse(ground)) >= LEAST, name


@pytest.mark.parametrize("dark", [True, False])
def test_in_sixteen_colours_verdicts_stay_apart(dark: bool) -> None:
    """After the rounding of a terminal that has no other colours; before, three were yellow and two grey."""
    verdicts = ("accepted", "rejected", "drafted", "recovered", "bonus", "untested")
    rounded = {
        mark: Color.parse(palette.rich_style(mark, dark, sixteen=True).split()[-1]).downgrade(ColorSystem.STANDARD)
        for mark in palette.STYLES
    }
    for one, other in combinations(verdicts, 2):
        assert rounded[one].number != rounded[other].number, (one, other)
    assert set(palette.SIXTEEN) == set(palette.STYLES)
    assert not palette.rich_style("rejected", dark, no_color=True, sixteen=True).count("#")
