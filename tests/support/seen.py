"""Numbers as a person reads them: by which words a screen calls a metric, and whether a text says its value.

A text has fewer digits than the value, and no other ones: `6.4 ±.85`, `.90 [.76, 1]`, `20 %`, `1.7×`. An interval is
read with it, and how many units it rests on where it says so: `1 (all 40 alike)`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# Words that stand before (or behind) a number on any screen, by the metric whose number that is. One name, one number.
WORDS = {
    "mean_acceptance_length": ("tokens per round", "tok/round", "tokens a round"),
    "block_efficiency": ("per target pass", "tokens per target call", "tokens a pass"),
    "mean_accepted": ("kept per round", "kept per block", "drafted tokens kept a round"),
    "draft_acceptance_rate": ("accepted / drafted", "kept/drafted", "acceptance"),
    "test_acceptance_rate": ("accepted / tested", "kept/tested"),
    "tokens_per_second": ("tokens / s", "tok/s", "tokens/s"),
    "time_to_first_token_s": ("first token, s",),
    "round_ms": ("ms per round",),
    "over_plain": ("× plain decoding", "plain decoding"),
    "drafting_share": ("drafting", "drafting share"),
    "draft_calls_per_round": ("drafter calls",),
    "modelled_speedup": ("speed-up",),
    "bucket_accuracy": ("bucket right",),
    "exit_rate": ("exits",),
    "mean_exit_layer": ("mean layer",),
    "wrong_exit_rate": ("wrong exits",),
    "layer_calls_per_token": ("calls/token",),
    "cells_per_token": ("cells/token",),
    "head_tests_per_token": ("tests/token",),
}
NAME = {words: name for name, every in WORDS.items() for words in every}
_N = r"[<>]?-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"
_TEXT = re.compile(
    rf"(?P<value>{_N})(?P<unit>×| %|)"
    rf"(?: ±(?P<half>{_N})| \[(?P<low>{_N})×?, (?P<high>{_N})×?\]| \((?:n|all) (?P<n>[\d,]+) (?:too small|alike)\))?"
)
NUMBER = rf"{_N}(?:×| %)?(?: ±{_N}| \[[^\]]*\]| \((?:n|all) [^)]*\))?"
_SPOKEN = re.compile(rf"(?P<text>{NUMBER}) (?P<words>tokens? a (?:round|pass)|tokens/s|plain decoding)")


class Seen(NamedTuple):
    """A number on a screen: which screen, the metric, by its name or the words for it, and the text."""

    where: str
    name: str
    text: str


def numbers_of(stats: Mapping[str, Any]) -> dict[str, Any]:
    """The object `metrics` of `specviz stats --json`, with what is by place under `survival@3`, `stage_ms@draft`, and
    the speed-up over plain decoding as a number like others."""
    plain = stats["over_plain"]
    by_place = {
        f"{name}@{at}": estimate
        for name, value in stats.items()
        if isinstance(value, Mapping)
        for at, estimate in value.items()
        if is_estimate(estimate)
    }
    return {**stats, **by_place, "over_plain": plain["times"] if plain and plain["agrees"] else None}


def is_estimate(value: Any) -> bool:
    """Whether that is a number with its interval, as JSON has it."""
    return isinstance(value, Mapping) and value.keys() >= {"value", "interval", "n"}


def spoken(where: str, text: str) -> Iterator[Seen]:
    """Numbers of a sentence, before the words for them: `6.4 ±.85 tokens a round`, `1.7× plain decoding`."""
    for match in _SPOKEN.finditer(text):
        yield Seen(where, match["words"].replace("token ", "tokens "), match["text"])


def in_columns(where: str, lines: Iterable[str], runs: int = 1) -> Iterator[Seen]:
    """Lines of columns, blanks between them, that begin with the words for a metric: its number in so many runs."""
    for line in lines:
        words, *cells = re.split(r" {2,}", line.strip())
        if words in NAME:
            yield from (Seen(where, words, cell) for cell in cells[:runs])


def says(text: str, number: Any) -> bool:
    """Whether a text says this estimate, count or share."""
    if text == "—" or number is None:
        return text == "—" and number is None
    match = _TEXT.fullmatch(text)
    if match is None:
        return False
    estimate = number if isinstance(number, Mapping) else {"value": number, "interval": None, "n": None}
    value, unit, ends = estimate["value"], match["unit"], estimate["interval"]
    if not _rounded(match["value"], value, unit):
        return False
    if match["n"] is not None:
        return ends is None and int(match["n"].replace(",", "")) == estimate["n"]
    if match["half"] is not None:
        return ends is not None and _rounded(match["half"], (ends[1] - ends[0]) / 2, unit)
    if match["low"] is not None:
        return ends is not None and all(map(_rounded, match.group("low", "high"), ends, (unit, unit)))
    return True


def _rounded(text: str, value: float, unit: str = "") -> bool:
    """Whether digits are this value, rounded to as many places as a number of its unit has: zeros at the end are not
    written, so `6.4` has two as `6.42` has."""
    shown, value = float(text.strip("<>").replace(",", "")), value * (100 if unit == " %" else 1)
    if text[0] in "<>":
        return 0 < value < shown if text[0] == "<" else value > shown
    least = {"": 2 if abs(value) < 100 else 0, "×": 1 if value < 10 else 0, " %": 0}[unit]
    places = max(least, len(text.partition(".")[2]))
    return bool(abs(shown - value) <= 0.5 * 10**-places + 1e-9)
