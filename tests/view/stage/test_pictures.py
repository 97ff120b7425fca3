"""Pictures of rounds by a real browser: what is in the SVG, that it is what the page shows, and that a film moves."""

from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from specviz.events import Closing, Event, Node
from specviz.trace import read_events
from specviz.view import Player
from specviz.view.stage.chromium import chromium, executable
from specviz.view.stage.document import one_round
from specviz.view.stage.page import posed_page
from specviz.view.stage.pictures import film, still
from support.recordings import RECORDINGS
from support.traces import make_events

pytest.importorskip("playwright", reason="playwright is not installed (extra export)")
drawn = pytest.mark.skipif(
    executable() is None, reason="no chromium on this machine: apt-get install chromium, or name one in CHROMIUM"
)
_SVG = "{http://www.w3.org/2000/svg}"
_MOST = 28  # of 255, the mean of a tile of a picture and of the same drawn otherwise


def _player(events: list[Event]) -> Player:
    player = Player(animate=False)
    player.extend(events)
    return player


def _apart(one: bytes, other: bytes) -> float:
    """The largest difference of the means of two pictures' tiles, 16 pixels wide and high."""
    a, b = (Image.open(BytesIO(picture)).convert("L") for picture in (one, other))
    assert a.size == b.size
    size = (a.width // 16, a.height // 16)
    left, right = (np.asarray(picture.resize(size, Image.Resampling.BOX), dtype=float) for picture in (a, b))
    return float(np.abs(left - right).max())


@drawn
@pytest.mark.parametrize("name", ["code-tree", "sums-draft", "code-specbranch", "prose-ar"])
def test_the_svg_is_what_the_page_shows(name: str, tmp_path: Path) -> None:
    """Drawn as a file of its own, in a browser that knows nothing of the page; its words are those of the round."""
    builder = _player(read_events(RECORDINGS[name])).builder
    html, page = posed_page(builder, [2]), one_round(builder, 2)
    file, shot = still(html, "svg", 2), still(html, "png", 2)
    root = ElementTree.fromstring(file)
    tags = {element.tag.removeprefix(_SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "rect", "path", "text", "image", "clipPath"}
    words = "".join("".join(element.itertext()) for element in root.iter(f"{_SVG}text"))
    assert all(
        endings in words.replace(" ", "")
        for endings in page.moments[-1].sentence.replace(" ", "").split(".")[0].split()
    )
    last = page.moments[-1]
    assert root.findtext(f"{_SVG}desc") == f"{page.place}: {last.phase_text}. {last.sentence}"
    with chromium() as browser:
        size = {"width": int(root.attrib["width"]), "height": int(root.attrib["height"])}
        tab = browser.new_page(viewport=size, device_scale_factor=2, offline=True)
        (tmp_path / "x.svg").write_bytes(file)
        tab.goto(f"file://{tmp_path}/x.svg")
        again = tab.screenshot()
        assert _apart(again, shot) < _MOST


@drawn
def test_no_token_is_markup() -> None:
    hostile = "</text></svg><script>alert(1)</script><img src=x>"
    events = [
        event.__class__(**{name: getattr(event, name) for name in event.__struct_fields__} | {"text": hostile})
        if isinstance(event, Node | Closing)
        else event
        for event in make_events(temperature=0.8, new_tokens=40)
    ]
    root = ElementTree.fromstring(still(posed_page(_player(events).builder, [1]), "svg", 1))
    assert not {element.tag.removeprefix(_SVG) for element in root.iter()} & {
        "script",
        "img",
        "foreignObject",
        "a",
        "style",
    }
    assert any("</text>" in "".join(element.itertext()) for element in root.iter(f"{_SVG}text"))


@drawn
def test_a_film_moves_and_ends_as_the_picture_does() -> None:
    builder = _player(read_events(RECORDINGS["code-tree"])).builder
    html = posed_page(builder, [1, 2], "dark", 640)
    with Image.open(BytesIO(film(html, [1, 2], speed=4))) as image:
        n, last = image.n_frames, len(one_round(builder, 1).moments) + len(one_round(builder, 2).moments)
        assert image.width == 640
        assert n > 2 * last
        image.seek(n - 1)
        end = image.convert("RGB")
    phase = np.asarray(end)[:, :, 0]
    assert phase[0, 0] < 60  # dark
