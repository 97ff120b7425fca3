"""Rounds as SVG, PNG or GIF, drawn by a headless browser from the same page code as the dashboard's stage.

A page with only the wanted rounds is made first (`posed_page`), then photographed: a picture equals what the page
shows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Literal

from specviz.errors import MissingExtra
from specviz.view.stage.chromium import chromium

_SHARP = 2  # pixels of a PNG to one of the page
_FRAME = 110  # ms of the page's time from one frame of a film to the next
_END = 1.6  # times as long is the last moment of a round looked at
_COLOURS, _SAMPLES = 128, 24  # of a film, and frames that they are chosen from

# What moves is stopped by the browser's own clock and put at one instant after another, however long a frame takes.
_STEP = """async ([index, k]) => {
  await posed.go(index, k, k > 0);
  const all = document.getAnimations(), ends = all.map((each) => each.effect.getComputedTiming().endTime);
  for (const each of all) each.pause();
  return [posed.page.moments.length, Math.max(0, ...ends), posed.ms];
}"""
_AT = "(ms) => { for (const each of document.getAnimations()) each.currentTime = ms; }"
_REST = "() => { for (const each of document.getAnimations()) each.finish(); }"


@contextmanager
def _posed(html: str, indexes: Sequence[int], k: int | None, node: int | None, sharp: int) -> Iterator[Any]:
    """A browser's page with the stage at a moment, in a window of its size. Raises SpecvizError without a browser."""
    with chromium() as browser:
        page = browser.new_page(device_scale_factor=sharp, offline=True)
        page.set_content(html)
        page.evaluate("([indexes, k, node]) => posed.pose(indexes, k, node)", [list(indexes), k, node])
        width, height = page.evaluate("() => [posed.box.offsetWidth, posed.box.offsetHeight]")
        page.set_viewport_size({"width": width, "height": height})
        yield page


def still(html: str, kind: Literal["svg", "png"], index: int, k: int = -1, node: int | None = None) -> bytes:
    """Moment `k` of a round, -1 the last, as SVG or PNG. `node`: whose reason is shown with it.

    Raises SpecvizError where no browser is installed, MissingExtra without playwright.
    """
    with _posed(html, [index], k, node, _SHARP) as page:
        return bytes(page.evaluate("() => posed.svg()").encode("utf-8") if kind == "svg" else page.screenshot())


def film(html: str, indexes: Sequence[int], speed: float = 1.0) -> bytes:
    """Rounds one after another as an animated GIF, again and again. `speed`: 2 is twice as fast.

    Raises SpecvizError where no browser is installed, MissingExtra without playwright or pillow.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise MissingExtra("export", "a GIF is put together with pillow, which is not installed; it") from None
    images: list[Any] = []
    stand: list[float] = []
    last = b""
    with _posed(html, indexes, None, None, 1) as page:
        clock = page.context.new_cdp_session(page)
        clock.send("Animation.enable")
        clock.send("Animation.setPlaybackRate", {"playbackRate": 0})
        for shot, ms in _shots(page, indexes):
            if shot == last:
                stand[-1] += ms
            else:
                images.append(Image.open(BytesIO(shot)).convert("RGB"))
                stand.append(ms)
            last = shot
    durations = [max(20, round(ms / speed / 10) * 10) for ms in stand]
    first, *rest = _flat(images)
    buffer = BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False)
    return buffer.getvalue()


def _shots(page: Any, indexes: Sequence[int]) -> Iterator[tuple[bytes, float]]:
    """Every frame as PNG, and for how many ms it stands."""
    for index in indexes:
        k, n = 0, 1
        while k < n:
            n, moves, looked = page.evaluate(_STEP, [index, k])
            for ms in range(_FRAME, int(moves), _FRAME):
                page.evaluate(_AT, ms)
                yield page.screenshot(), _FRAME
            page.evaluate(_REST)
            k += 1
            yield page.screenshot(), max(2 * _FRAME, looked * (_END if k == n else 1) - moves)


def _flat(images: Sequence[Any]) -> list[Any]:
    """The same with one table of colours for all, so that a frame holds only what is other than before."""
    from PIL import Image

    some = images[:: max(1, len(images) // _SAMPLES)]
    width, height = images[0].size
    sheet = Image.new("RGB", (width, height * len(some)))
    for n, image in enumerate(some):
        sheet.paste(image, (0, n * height))
    table = sheet.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    return [image.quantize(palette=table, dither=Image.Dither.NONE) for image in images]
