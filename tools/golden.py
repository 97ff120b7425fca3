"""The golden pictures of the stage: how every phase of a round looks, settled and on the way, on both grounds.

    python -m tools.golden [--out DIR]

makes them anew after a change that was meant; look at them before they are committed. `tests/app/test_golden.py`
compares. Needs chromium and fonttools (extra dev).

What is painted is the saved page of a recording of the tests, in a window of one size. No font of the machine is in a
picture: every letter is a box of one width, of a font that is made here (as W3C's tests do with their font *Ahem*), and
the painter's ruler measures with it too. So columns, line ends and heights are the same on every machine. The window
has two device pixels to one, where no system hints letters or rounds their widths. Nor is there anything of the
system's own in it: the one select box is left out, scroll bars are hidden.

What moves is stopped by the browser's own clock: it stands still (`Animation.setPlaybackRate` 0), and all animations
are set to one instant. A picture is therefore the same however slow the machine is.

Compared are the means of tiles, 8 x 8 pixels of the window: the edge of a box that falls on another fraction of a pixel
is a small difference there, whatever is drawn elsewhere, later, thinner or in another colour is not. `apart` is the
largest difference of a tile, of 255; `MOST` is allowed. Measured with chromium 156: the same again 0; without any font
on the machine 1; all of the tree a fifth of a pixel further 14. A node three pixels further 50, a bar of a node half
as long 54, a line of the kept path not lit 73, u elsewhere 75, a mark in another's colour 168.
"""

import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from PIL import Image

import specviz
from specviz.view.stage.chromium import chromium, executable
from specviz.view.words.palette import Phase

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "app" / "golden"
RECORDING = ROOT / "tests" / "recordings" / "code-tree.sv.jsonl.gz"
ROUND = "r3"  # with all phases, tests that are passed and that fail, and a token drawn from what was left
SIZE = (1200, 820)
SHARP = 2  # device pixels to one of the window
SMALL, TILE = 2, 8  # pixels of the window: to one of a picture, to the side of a tile
MOST = 32
FLAGS = ("--disable-lcd-text", "--force-color-profile=srgb")
_WAIT_MS = 30_000

Ground = Literal["light", "dark"]


@dataclass(frozen=True, slots=True)
class Scene:
    """A phase at its last moment; with `ms`, so long after that moment began, while it still moves."""

    phase: Phase
    ground: Ground
    ms: int | None = None

    @property
    def name(self) -> str:
        return f"{self.phase}-{self.phase.name.lower()}{'' if self.ms is None else '-moving'}-{self.ground}"


# The instants at which there is most to be seen: a node half grown, the light half across, u above its band, ...
_MOVING = {Phase.ROOT: 200, Phase.DRAFT: 160, Phase.VERIFY: 600, Phase.ACCEPT: 480, Phase.CLOSE: 140, Phase.COMMIT: 380}
_GROUNDS: tuple[Ground, ...] = ("light", "dark")
SCENES = [
    *(Scene(phase, ground) for phase in Phase for ground in _GROUNDS),
    *(Scene(phase, "light", ms) for phase, ms in _MOVING.items()),
]


@cache
def boxes() -> bytes:
    """A font in which every letter but the space is a box, 0.6 em wide with its room. No other font is ever asked."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen
    from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

    pen = TTGlyphPen(None)
    for k, point in enumerate(((60, 0), (60, 560), (540, 560), (540, 0))):
        (pen.lineTo if k else pen.moveTo)(point)
    pen.closePath()
    gap = TTGlyphPen(None).glyph()
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "gap", "box"])
    builder.setupCharacterMap({0x20: "gap"})
    every = CmapSubtable.newSubtable(13)  # many letters, one glyph
    every.platformID, every.platEncID, every.language = 3, 10, 0
    every.cmap = {code: "gap" if code in (0x0A, 0x20, 0xA0) else "box" for code in range(0x0A, 0xD800)}
    every.cmap |= dict.fromkeys(range(0xE000, 0xFFFE), "box")
    builder.font["cmap"].tables.append(every)
    builder.setupGlyf({".notdef": gap, "gap": gap, "box": pen.glyph()})
    builder.setupHorizontalMetrics({name: (600, 60 if name == "box" else 0) for name in (".notdef", "gap", "box")})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Boxes", "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200)
    builder.setupPost()
    written = io.BytesIO()
    builder.save(written)
    return written.getvalue()


# Before the page's own script: the font of boxes, for all that is laid out and for the ruler of the painter.
_BEFORE = """(data) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const face = new FontFace("Boxes", bytes, { weight: "100 900" });
  document.fonts.add(face);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`*, *::before, *::after { font-round_tree: Boxes !important; font-synthesis: none !important;
      text-rendering: geometricPrecision !important; }
    select { visibility: hidden; } :root { scrollbar-width: none; } * { scrollbar-width: none !important; }`);
  document.adoptedStyleSheets = [sheet];
  const paint = CanvasRenderingContext2D.prototype, known = Object.getOwnPropertyDescriptor(paint, "font");
  const set = function (value) { known.set.call(this, value.replace(/px .*/, "px Boxes"));
    this.textRendering = "geometricPrecision"; }; // a canvas is not sharper on a sharper screen: widths would be hinted
  Object.defineProperty(paint, "font", { ...known, set });
  const roll = Element.prototype.scrollBy;
  Element.prototype.scrollBy = function (to) { roll.call(this, { ...to, behavior: "auto" }); };
}"""
_REST = """() => { for (const each of document.getAnimations()) each.finish(); }"""  # what the way here has set going
_SET = """(ms) => { for (const each of document.getAnimations()) { each.pause(); each.currentTime = ms; } }"""


@contextmanager
def stage(browser: Any, saved: Path, ground: Ground, moving: bool) -> Iterator[Any]:
    """The saved page at the end of the round, letters as boxes, without a network."""
    width, height = SIZE
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=ground,
        reduced_motion="no-preference" if moving else "reduce",
        device_scale_factor=SHARP,
        offline=True,
    )
    try:
        page = context.new_page()
        page.set_default_timeout(_WAIT_MS)
        page.add_init_script(f"({_BEFORE})({json.dumps(base64.b64encode(boxes()).decode())})")
        page.goto(f"file://{saved}#at={ROUND}")
        page.locator(".node").first.wait_for()
        yield page
    finally:
        context.close()


def go_to(page: Any, scene: Scene) -> None:
    """To the scene's moment: by the keys, as a person would."""
    before = scene.ms is not None and scene.phase is not Phase.ROOT
    while _phase(page) > scene.phase or (before and _phase(page) >= scene.phase):
        _press(page, "ArrowLeft")
    if scene.ms is None:
        return
    if scene.phase is Phase.ROOT:  # what moves there is the end of the round before
        _press(page, "ArrowLeft")
    clock = page.context.new_cdp_session(page)
    clock.send("Animation.enable")
    clock.send("Animation.setPlaybackRate", {"playbackRate": 0})
    page.evaluate(_REST)
    _press(page, "ArrowRight")
    page.evaluate(_SET, scene.ms)


def picture(page: Any) -> Image.Image:
    """What is seen, at half its size."""
    width, height = SIZE
    whole = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return whole.resize((width // SMALL, height // SMALL), Image.Resampling.BOX)


def painted(browser: Any, saved: Path, scene: Scene) -> Image.Image:
    with stage(browser, saved, scene.ground, scene.ms is not None) as page:
        go_to(page, scene)
        return picture(page)


def apart(one: Image.Image, other: Image.Image) -> int:
    """The largest difference of a tile in a channel, 0..255; 255 for pictures of two sizes."""
    if one.size != other.size:
        return 255
    n = TILE // SMALL
    size = (one.width // n, one.height // n)
    a, b = (
        np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BOX), dtype=np.int16)
        for picture in (one, other)
    )
    return int(np.abs(a - b).max())


def golden(scene: Scene) -> Path:
    return GOLDEN / f"{scene.name}.png"


def _phase(page: Any) -> int:
    return int(page.locator(".stage").get_attribute("data-phase"))


def _press(page: Any, key: str) -> None:
    before = page.locator(".time .place").inner_text()
    page.keyboard.press(key)
    page.wait_for_function("before => document.querySelector('.time .place').innerText !== before", arg=before)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=GOLDEN, show_default=True)
def main(out: Path) -> None:
    """Make all pictures anew."""
    if executable() is None:
        raise click.ClickException("no chromium here: apt-get install chromium, or name one in CHROMIUM")
    out.mkdir(parents=True, exist_ok=True)
    saved = specviz.show(RECORDING).save(out / "stage.html")
    try:
        with chromium(*FLAGS) as browser:
            for scene in SCENES:
                path = out / golden(scene).name
                image = painted(browser, saved.resolve(), scene)
                was = apart(image, Image.open(path)) if path.exists() else None
                image.save(path, optimize=True)
                click.echo(f"{path}: {'new' if was is None else f'{was} of 255 from what it was'}")
    finally:
        saved.unlink()


if __name__ == "__main__":
    main()
