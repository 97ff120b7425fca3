"""Numbers beside each other: what is printed keeps every order that the numbers have."""

import re

from hypothesis import assume, example, given
from hypothesis import strategies as st

from specviz.numerals import number
from specviz.view.words.numbers import apart, span, within

UNIT = st.one_of(
    st.floats(0, 1, exclude_max=True),
    st.floats(1e-12, 1e-3),
    st.floats(1e-12, 1e-3).map(lambda x: 1 - x),
    st.integers(0, 10**6).map(lambda k: k / 10**6),
)
NEAR = st.tuples(UNIT, st.sampled_from([0.0, 1e-15, 2e-9, -2e-9, 1e-5, -1e-4])).map(
    lambda x: min(1.0, max(0.0, sum(x)))
)


@given(UNIT, NEAR, st.integers(2, 3))
@example(0.858, 0.99965, 3)
@example(0.94, 0.9991, 2)
@example(1.0, 1.01, 3)
@example(1e-12, 1.0000000000000002e-12, 2)
def test_a_comparison_is_seen_to_hold(a: float, b: float, least: int) -> None:
    one, other = apart(a, b, least=least)
    assert (a < b, a > b) == (float(one) < float(other), float(one) > float(other))
    assert {one, other}.isdisjoint(
        {"0", "1"} - {f"{x:.0f}" for x in (a, b) if x in (0, 1)}
    )  # never rounded to certainty


@given(UNIT, UNIT, UNIT)
@example(0.743, 0.62, 0.7449)
@example(0.739999999, 0.5, 0.74)
@example(0.161, 2e-6, 0.94)
@example(0.3, 1 - 1e-6, 1 - 1e-9)
def test_an_interval_is_never_empty_and_holds_what_falls_in(u: float, a: float, b: float) -> None:
    lo, hi = min(a, b), max(a, b)
    assume(lo < hi)
    shown, interval = within(u, lo, hi)
    inside = lo <= u < hi
    if (ends := re.fullmatch(r"\[(\S+), (\S+)\)", interval)) is not None:
        low, high = float(ends[1]), float(ends[2])
        assert low < high
        assert (low <= float(shown) < high) == inside
        return
    assert hi - lo < 1e-6
    assert re.fullmatch(r"a slit of \S+ (at \.\d+|at 0|just above 0|just below 1)", interval)
    at = interval.rpartition(" at ")[2] if " at " in interval else None
    assert inside or shown != at  # seen not to fall in


def test_slits_and_spans_as_they_read() -> None:
    assert within(0.670, 0.999652001, 0.999652003) == (".670", "a slit of 2e-9 at .999652")
    assert within(0.9996520019, 0.999652001, 0.999652003) == (".999652", "a slit of 2e-9 at .999652")
    assert within(0.743, 0.62, 0.7449) == (".743", "[.62, .745)")
    assert (span(0.61, 0.74), span(0, 3e-8), span(0, 1)) == ("[.61, .74)", "a slit of 3e-8 at 0", "[0, 1)")
    assert within(0.35, 0.135, 0.99998) == (".350", "[.14, .99998)")
    assert apart(0.858, 0.99965) == (".858", ".9997")
    assert within(None, 0.61, 0.74)[0] == "—"


@given(st.floats(-1e-3, 1e-3))
def test_what_rounds_to_nothing_has_no_sign(value: float) -> None:
    assert number(value, 2) == "0"
