"""The replay of a whole grid says, setting by setting, what the replay of one setting says."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.cost.exit_grid import grid
from specviz.cost.exit_replay import ExitKnobs, HeadTable, Text, added
from specviz.errors import SpecvizError
from specviz.events import GRID

ALPHAS, TAUS, DEPTHS, WIDTHS = (0.0, 0.7, 4.0), (0.0, 0.4, 0.6, 1.01), (0, 2, 3, 99), (0, 1, 3, 16)


def random_text(
    seed: int, n: int, room: int | None = None, vocab: int = 3, layers: tuple[int, ...] = (1, 2, 4)
) -> Text:
    """Heads that are often right; the first vocabulary entry ends a text."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(1, vocab, n)
    top1 = np.where(rng.random((n, len(layers))) < 0.6, tokens[:, None], rng.integers(0, vocab, (n, len(layers))))
    table = HeadTable(6, 9, tokens, layers, top1, rng.random((len(GRID), n, len(layers))))
    return Text(table, room, frozenset({0}))


def check(texts: list[Text], layers: tuple[int, ...] | None) -> None:
    totals = grid(texts, ALPHAS, TAUS, DEPTHS, WIDTHS, layers)
    for place in product(*(range(len(values)) for values in (ALPHAS, TAUS, DEPTHS, WIDTHS))):
        a, t, d, w = place
        setting = ExitKnobs(ALPHAS[a], TAUS[t], DEPTHS[d], WIDTHS[w], layers)
        assert totals.at(*place) == added([text.total(setting) for text in texts])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 30), st.sampled_from((None, 0, 5)), st.sampled_from((None, (2,), (1, 4), ()))
)
def test_a_grid_is_all_its_settings(seed: int, n: int, more: int | None, layers: tuple[int, ...] | None) -> None:
    check([random_text(seed, n, None if more is None else n + more)], layers)


def test_several_texts_add_up() -> None:
    check([random_text(1, 17), random_text(2, 1, room=4), random_text(3, 25, room=25)], None)


def test_all_totals_come_with_the_last_knob_fastest() -> None:
    totals = grid([random_text(5, 60)], ALPHAS, TAUS, DEPTHS, WIDTHS).totals()
    asked = [(t.setting.alpha, t.setting.tau, t.setting.d_max, t.setting.w_max) for t in totals]
    assert asked == list(product(ALPHAS, TAUS, DEPTHS, WIDTHS))
    assert {t.precision for t in totals if t.setting.tau > 1} == {None}, "a threshold above 1 drafts nothing"
    assert {t.tokens_per_round for t in totals if t.setting.tau > 1} == {1}


def test_an_alpha_between_the_steps_is_refused() -> None:
    with pytest.raises(SpecvizError, match=r"steps of 0\.1"):
        grid([random_text(1, 5)], (0.25,), TAUS, DEPTHS, WIDTHS)
