"""How a number is written wherever one is: on screens, in findings, in tables. `—` for what is not known.

A probability has no zero before the point (`.93`), a percentage a thin unit (`29 %`). Nothing is rounded to certainty:
a probability below 1 never prints as `1`, one above 0 never as `0`.
"""

import math

UNKNOWN = "—"


def prob(value: float | None, digits: int = 2) -> str:
    """`.93`, `1`, `0`, `<.01`, `>.99`, `—`."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if value <= 0 or value >= 1:
        return "0" if value <= 0 else "1"
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        return "<" + f"{10.0**-digits:.{digits}f}"[1:]
    if float(text) >= 1:
        return ">" + f"{1 - 10.0**-digits:.{digits}f}"[1:]
    return text[1:]


def number(value: float | None, digits: int = 2) -> str:
    """A number of any size: `3.42`, `.29`, `0`, `12`, `—`. Three figures are enough from 100 on."""
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    text = f"{value:.{digits}f}"
    if float(text) == 0:  # of either sign
        return "0"
    if abs(float(text)) < 1:
        return text.replace("0.", ".", 1)
    return text.rstrip("0").rstrip(".") if "." in text else text


def times(value: float) -> str:
    """`3.4×`, `27×`, `1,200×`; two figures below 1 as well, `.21×`, `.0047×`: nothing above 0 is `0×`."""
    if 0 < value < 0.995:
        return f"{number(value, 1 - math.floor(math.log10(value)))}×"
    return f"{number(value, 1 if value < 10 else 0)}×"


def percent(value: float | None) -> str:
    """`29 %`, `.4 %`, `<.1 %`; never 0 or 100 unless exact."""
    if value is None:
        return UNKNOWN
    share = value * 100
    if share in (0, 100):
        return f"{share:.0f} %"
    if share < 0.1:
        return "<.1 %"
    if share > 99.9:
        return ">99.9 %"
    return f"{share:.0f} %" if 1 <= share < 99 else f"{share:.1f} %".removeprefix("0")


def plural(count: float, word: str, words: str = "") -> str:
    """`1 token`, `3 tokens`, `2 branches`, `1.2 passes`: by what is shown."""
    shown = str(count) if isinstance(count, int) else number(count)
    return f"{shown} {word if shown == '1' else words or word + 's'}"
