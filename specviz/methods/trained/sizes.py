"""Numbers in a drafter's `config.json`, looked at before anything is built from them: one table for every kind.

A size that no network has would end in a traceback out of a library, or fill the memory layer by layer. The bounds are
far beyond any drafter there is; whether the weights have those sizes is compared afterwards.
"""

import json
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

from specviz.methods.trained.layers import RopeMode

WIDEST, MOST_TOKENS = 1 << 18, 1 << 24  # ids below 2^24 are exact in float32, which `offers` relies on


@dataclass(frozen=True, slots=True)
class Check:
    """`holds(value, all of the config)`; `words`: what a right value is."""

    words: str
    holds: Callable[[Any, Mapping[str, Any]], bool]


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most  # NaN is not


def _whole(most: int, least: int = 1) -> Check:
    return Check(f"a whole number from {least} to {most:,}", lambda value, sizes: _is_whole(value, least, most))


def _are_taps(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or not all(_is_whole(tap, 0, MOST_TOKENS) for tap in value):
        return False
    return all(low < high for low, high in pairwise(value))


def are_shares(value: Any) -> bool:
    """Whether this is a table of how often ranks are right: rows of numbers between 0 and 1, none of them empty."""
    rows = value if isinstance(value, (list, tuple)) else ()
    return bool(rows) and all(
        isinstance(row, (list, tuple)) and bool(row) and all(_is_number(share, 0, 1) for share in row) for row in rows
    )


CHECKS: dict[str, Check] = {
    "target_name": Check(
        "one line of text", lambda value, sizes: isinstance(value, str) and len(value.splitlines()) <= 1
    ),
    "target_layers": _whole(4_096),
    "target_width": _whole(WIDEST),
    "vocab": _whole(MOST_TOKENS),
    "draft_vocab": _whole(MOST_TOKENS),
    "taps": Check("a list of layers, ascending, each once", lambda value, sizes: _are_taps(value)),
    "embed_width": _whole(WIDEST),
    "width": _whole(WIDEST),
    "heads": _whole(4_096),
    "kv_heads": Check(
        "a whole number that divides the number of heads",
        lambda value, sizes: _is_whole(value, 1, 4_096) and sizes["heads"] % value == 0,
    ),
    "head_dim": Check(
        "an even number from 2 to 8,192, as rotary positions turn pairs",
        lambda value, sizes: _is_whole(value, 2, 8_192) and value % 2 == 0,
    ),
    "ff": _whole(1 << 22),
    "bits": Check("8 or 16", lambda value, sizes: _is_whole(value, 8, 16) and value in (8, 16)),
    "slots": _whole(64),
    "n_layers": Check(
        "a whole number from 2 to 128, as the shift stands between two layers",
        lambda value, sizes: _is_whole(value, 2, 128),
    ),
    "rank_width": _whole(WIDEST),
    "trained_blocks": _whole(1_024),
    "trained_steps": _whole(1_024),
    "rope_mode": Check(" or ".join(get_args(RopeMode)), lambda value, sizes: value in get_args(RopeMode)),
    "rope_theta": Check("a number from 1 to 1e12", lambda value, sizes: _is_number(value, 1, 1e12)),
    "eps": Check("a number above 0, at most 1", lambda value, sizes: _is_number(value, 0, 1) and value > 0),
    "right": Check(
        "a list of shares between 0 and 1 for each head",
        lambda value, sizes: are_shares(value) and len(value) == sizes["heads"],
    ),
}


def fault(
    config: Mapping[str, Any], needed: Collection[str] = (), named: Mapping[str, str] | None = None
) -> str | None:
    """What is wrong with a config, the first thing found; None: nothing. `named`: what others call our fields."""
    name_of = named or {}
    for name in needed:
        if name not in config:
            return f"lacks {name_of.get(name, name)!r}"
    for name, check in CHECKS.items():
        if name in config and not check.holds(config[name], config):
            return f"says {name_of.get(name, name)} = {shown(config[name])}; it must be {check.words}"
    return None


def shown(value: Any) -> str:
    """A JSON value in a line, cut where it is long."""
    return json.dumps(value) if value is None or isinstance(value, bool) else reprlib.repr(value)
