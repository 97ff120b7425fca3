"""Pictures against the records that the stage plays: all of it is there, nothing is in the way or can break out."""

from collections import Counter
from io import BytesIO
from itertools import combinations, pairwise
from xml.etree import ElementTree

import msgspec
import pytest
from PIL import Image

from specviz.events import Closing, Commit, Event, Node, Prefill
from specviz.sources.bundled import bundled_traces
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.picture import measure, running_text
from specviz.view.picture.film import gif
from specviz.view.picture.letters import Letters
from specviz.view.picture.look import THEMES, Theme
from specviz.view.picture.raster import pixels, png
from specviz.view.picture.shapes import Bend, Box, Picture, TextLine
from specviz.view.picture.stage import StagePainter, unfolded
from specviz.view.picture.svg import svg
from specviz.view.stage.document import head, one_round
from specviz.view.words.palette import ROOT, parse
from support.recordings import RECORDINGS
from support.traces import make_events

_LONG = {"stream-specblock"}  # more rounds than one wants to wait for
_NAMES = [name for name in RECORDINGS if name not in _LONG]
_MOST = 1_000_000  # bytes of a GIF of one round


def _player(events: list[Event]) -> Player:
    player = Player(animate=False)
    player.extend(events)
    return player


def _painter(events: list[Event], index: int, theme: Theme = "light", **more: int) -> StagePainter:
    builder = _player(events).builder
    return StagePainter(head(builder, "run"), one_round(builder, index), theme, **more)


def _texts(picture: Picture) -> list[str]:
    return ["".join(piece.text for piece in shape.pieces) for shape in picture.shapes if isinstance(shape, TextLine)]


@pytest.mark.parametrize("name", _NAMES)
def test_every_moment_of_every_recording_shows_what_is_known(name: str) -> None:
    """The sentence, every node that is there with its token and mark, and nothing beyond the edge."""
    builder = _player(read_events(RECORDINGS[name])).builder
    top = head(builder, name)
    for index in (0, len(builder.run.rounds) // 2):
        painter = StagePainter(top, one_round(builder, index), width=800)
        marks = painter.colours
        for k, (moment, states) in enumerate(zip(painter.page.moments, unfolded(painter.page), strict=True)):
            picture = painter.picture(k)
            texts = _texts(picture)
            assert moment.say.split()[0] in "".join(texts)
            assert top.phases[moment.phase - 1] in texts
            drawn = [i for i in states if i in painter.tree.spots]
            words = Counter(texts)
            assert not Counter(painter.tree.words[i] for i in drawn) - words
            assert not Counter(marks.glyph(states[i]["mark"]) for i in drawn) - words
            _within(picture)
        assert len(painter.tree.spots) + painter.tree.n_left_out == len(painter.page.nodes)


def _within(picture: Picture) -> None:
    for shape in picture.shapes:
        if isinstance(shape, Box):
            assert shape.x >= 0
            assert shape.x + shape.w <= picture.width + 0.5
            assert shape.y + shape.h <= picture.height
        elif isinstance(shape, Bend):
            assert all(-2 <= x <= picture.width + 2 and 0 <= y <= picture.height for x, y in shape.points)
        else:
            long = sum(measure.width(p.text, shape.size, shape.mono, p.bold) for p in shape.pieces)
            left = shape.x - {"start": 0.0, "middle": long / 2, "end": long}[shape.anchor]
            assert left >= 0, shape
            assert left + long <= picture.width + 12, shape


@pytest.mark.parametrize("name", ["code-draft", "code-tree", "code-specblock", "code-specbranch", "code-lookahead"])
@pytest.mark.parametrize("width", [480, 800, 1400])
def test_no_node_stands_in_another_one(name: str, width: int) -> None:
    builder = _player(read_events(RECORDINGS[name])).builder
    top = head(builder, name)
    for index in range(0, len(builder.run.rounds), 5):
        painter = StagePainter(top, one_round(builder, index), width=width)
        half = painter.tree.high / 2
        for one, other in combinations(painter.tree.spots.values(), 2):
            beside = one.x + one.w <= other.x or other.x + other.w <= one.x
            assert beside or abs(one.y - other.y) >= 2 * half
        parents = {node.id: node.parent for node in painter.page.nodes}
        assert all(i == ROOT or parents[i] in painter.tree.spots for i in painter.tree.spots)


def test_rows_that_are_left_out_are_those_where_nothing_happened() -> None:
    builder = _player(read_events(RECORDINGS["code-specblock"])).builder
    top, left_out = head(builder, "run"), 0
    for index in range(0, len(builder.run.rounds), 4):
        painter = StagePainter(top, one_round(builder, index))
        left_out += painter.tree.n_left_out
        for i, state in painter.states[-1].items():
            assert i in painter.tree.spots or state["mark"] in ("untested", "pruned"), state
        assert any(str(painter.tree.n_left_out) in text for text in _texts(painter.picture())) or left_out == 0
    assert left_out


def test_a_long_chain_goes_on_in_the_next_line() -> None:
    painter = _painter(make_events(gamma=12, temperature=0.8, new_tokens=40), 0)
    spots = painter.tree.spots
    assert len({spot.line for spot in spots.values()}) > 1
    assert painter.tree.scale > 0.7


_HOSTILE = '\x1b[2J</text><script>window.broken=1</script>&#0;"\u202e\ud7ff\x00'


def _spelled(event: Event) -> Event:
    """Every token of a record spelled by somebody who means harm."""
    if isinstance(event, Node | Closing | Prefill):
        return msgspec.structs.replace(event, text=_HOSTILE)
    if isinstance(event, Commit):
        return msgspec.structs.replace(event, texts=[_HOSTILE] * len(event.texts))
    return event


@pytest.mark.parametrize("theme", THEMES)
def test_a_hostile_token_is_text_and_nothing_else(theme: Theme) -> None:
    painter = _painter([_spelled(e) for e in make_events(temperature=0.8, new_tokens=20)], 1, theme)
    for k in range(painter.n_moments):
        file = svg(painter.picture(k))
        tree = ElementTree.fromstring(file)
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert tags <= {"svg", "title", "desc", "rect", "path", "text", "tspan"}
        for element in tree.iter():
            assert not any(name.startswith("on") or "href" in name for name in element.attrib)
        assert "\x1b" not in file
        assert "\u202e" not in file
        assert "&lt;script&gt;" in file
        assert "<script" not in file
    assert "http" not in file.replace("http://www.w3.org/2000/svg", "")


def test_a_picture_says_itself_to_who_cannot_see_it() -> None:
    painter = _painter(make_events(temperature=0.8, new_tokens=20), 1)
    tree = ElementTree.fromstring(svg(painter.picture()))
    told = {element.tag.rpartition("}")[2]: element.text for element in tree}
    assert painter.page.moments[-1].say in (told["desc"] or "")
    assert painter.page.place in (told["title"] or "")


def _at(image: Image.Image, x: float, y: float) -> tuple[int, ...]:
    found = image.getpixel((round(x), round(y)))
    assert isinstance(found, tuple)
    return found


@pytest.mark.parametrize("theme", THEMES)
def test_pixels_have_the_colours_of_the_shapes(theme: Theme) -> None:
    """The ground, the root's card, and the bar of the round that is shown."""
    painter = _painter(read_events(RECORDINGS["code-draft"]), 2, theme)
    picture = painter.picture()
    image = pixels(picture, 2.0)
    assert image.size == (picture.width * 2, picture.height * 2)
    assert _at(image, 2, 2) == parse(painter.colours.of.ground)
    root = next(s for s in picture.shapes if isinstance(s, Box) and s.fill == painter.colours.of.ink and s.h == 40)
    assert _at(image, (root.x + 5) * 2, (root.y + root.h / 2) * 2) == parse(painter.colours.of.ink)


def test_the_same_round_gives_the_same_bytes() -> None:
    events = make_events(temperature=0.8, new_tokens=12)
    first, second = (_painter(events, 0) for _ in range(2))
    assert svg(first.picture()) == svg(second.picture())
    assert png(first.picture()) == png(second.picture())


def test_letters_that_are_lacking_are_written_by_their_code() -> None:
    runs = list(Letters().runs("a中b", 14, False, False))
    assert [text for text, _ in runs] == ["a", "⟨4E2D⟩", "b"]
    every = "▁⏎→✓✗↻★◦●⇥⟨⟩∅◌◆⚑⚠⊘·…“”×≥≤±−—∞⇐▸⊕абвγτ"
    for mono in (False, True):
        for bold in (False, True):
            assert [text for text, _ in Letters().runs(every, 14, mono, bold)] == [every]


@pytest.mark.parametrize("bold", [False, True])
def test_text_is_no_wider_than_it_is_thought_to_be(bold: bool) -> None:
    """Layout is made without the letters; what it thinks fits must fit."""
    letters = Letters()
    for text in ("The quick brown fox, 0123 jumps!", "p .328 ≥ q .317 · ▁the ⏎ “x”", "Größe, naïve — Ωμέγα"):
        long = sum(font.getlength(part) for part, font in letters.runs(text, 15, False, bold))
        thought = measure.width(text, 15, bold=bold)
        assert long <= thought * 1.05  # letters are set on whole pixels
        assert long >= thought * 0.7


@pytest.mark.parametrize(("text", "most"), [("one two three four five", 60), ("Donaudampfschiffahrt" * 6, 80)])
def test_lines_are_broken_where_they_are_too_wide(text: str, most: float) -> None:
    lines = measure.wrapped(text, most, 12, 99)
    assert len(lines) > 1
    assert all(measure.width(line, 12) <= most for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    even = measure.balanced(text, most, 12, 99)
    assert "".join(even).replace(" ", "") == text.replace(" ", "")
    assert len(even) == len(lines)
    assert max(measure.width(line, 12) for line in even) <= max(measure.width(line, 12) for line in lines)
    short = measure.wrapped(text, most, 12, 2)
    assert len(short) == 2
    assert short[-1].endswith("…")


@pytest.mark.parametrize("name", ["code-draft", "code-tree"])
def test_a_film_goes_through_every_moment(name: str) -> None:
    builder = _player(read_events(RECORDINGS[name])).builder
    page = one_round(builder, 1)
    made = gif(head(builder, name), [page])
    assert len(made) <= _MOST
    image = Image.open(BytesIO(made))
    frames, waits = [], []
    for k in range(image.n_frames):
        image.seek(k)
        frames.append(image.convert("RGB").tobytes())
        waits.append(image.info["duration"])
    assert image.info["loop"] == 0
    assert len([ms for ms in waits if ms >= 480]) == len(page.moments)
    assert all(one != other for one, other in pairwise(frames))


def test_a_film_of_several_rounds_has_one_size_and_ends_as_the_picture_does() -> None:
    builder = _player(read_events(RECORDINGS["code-hsd"])).builder
    top, pages = head(builder, "run"), [one_round(builder, index) for index in (3, 4)]
    made = Image.open(BytesIO(gif(top, pages, "dark", 480, speed=4)))
    heights = [StagePainter(top, page, "dark", 480).height for page in pages]
    assert made.size[0] == 480
    assert made.size[1] >= max(heights)


def test_a_run_without_a_tree_has_pictures_too() -> None:
    painter = _painter(make_events(temperature=0.8, new_tokens=20, level="none"), 0)
    assert painter.page.missing in " ".join(_texts(painter.picture()))
    assert png(painter.picture(), 1.0)


def test_running_text_stays_in_its_box_as_it_is_painted() -> None:
    """Small letters are painted in whole pixels, wider than they are."""
    builder = _player(list(read_events(bundled_traces()["explain-tree"]))).builder
    whole, letters, widest = head(builder, "run"), Letters(), 0.0
    for index in range(10, 18):
        painter = StagePainter(whole, one_round(builder, index))
        for k, moment in enumerate(painter.page.moments):
            found = running_text.pieces(whole, painter.page, moment, painter.states[k], painter.colours)
            for line in running_text.lines(found, 0, 0, 700, 3):
                runs = [run for p in line.pieces for run in letters.runs(p.text, line.size, line.mono, p.bold)]
                widest = max(widest, sum(font.getlength(text) for text, font in runs))
    assert 600 < widest <= 700
