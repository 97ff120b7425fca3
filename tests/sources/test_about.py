"""What is told of the recordings that come with the package is so in them."""

import re

import pytest

from specviz.runlog.fold import fold
from specviz.sources.gallery import gallery_card
from specviz.trace import read_events
from specviz.trace.bundled import bundled_abouts, bundled_traces

WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NUMBERS = {word: n for n, word in enumerate(WORDS)}


def test_each_has_a_title_and_what_to_look_for() -> None:
    assert {path.name for path in bundled_abouts()} == {path.name for path in bundled_traces().values()}
    titles = [about.title for about in bundled_abouts().values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert all(about.look and len(about.words.split()) <= 45 for about in bundled_abouts().values())


@pytest.mark.parametrize("name", [name for name, path in bundled_traces().items() if bundled_abouts()[path].at])
def test_numbers_are_those_of_the_round(name: str) -> None:
    path = bundled_traces()[name]
    about = bundled_abouts()[path]
    end = fold(read_events(path)).rounds[int(about.at.removeprefix("r")) - 1].end
    assert end is not None
    counted = {end.n_accepted, end.n_emitted}
    named = {NUMBERS[word] for word in re.findall(r"\b(\w+) (?:tokens?|levels?)\b", about.look) if word in NUMBERS}
    assert named <= counted | ({end.n_emitted - end.n_accepted} if "one more" in about.look else set())
    if "dies" in about.look:
        assert end.n_accepted < end.n_drafted


@pytest.mark.parametrize("name", bundled_traces())
def test_who_lost_is_told_why(name: str) -> None:
    path = bundled_traces()[name]
    card = gallery_card(path)
    assert card is not None
    measured = re.match(r"(\d*\.?\d+)× plain decoding \(measured\)", card.pays)
    assert bool(bundled_abouts()[path].why) == (measured is not None and float(measured[1]) < 1)
