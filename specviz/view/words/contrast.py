"""Contrast of text on its ground (WCAG 2.2, 1.4.3): how far apart two colours are, and the nearest one that can be
read. Colours are three numbers from 0 to 255."""

from functools import lru_cache

LEAST = 4.5  # of text in its ordinary size
_STEPS = 32
Rgb = tuple[int, int, int]


def parse(colour: str) -> Rgb:
    """`#56B4E9` as numbers."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def luminance(colour: Rgb) -> float:
    """Relative luminance, 0 black to 1 white."""
    red, green, blue = (_linear(channel / 255) for channel in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)


def contrast(one: Rgb, other: Rgb) -> float:
    """From 1 (the same) to 21 (black on white)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@lru_cache(4096)
def legible(colour: Rgb, ground: Rgb, least: float = LEAST) -> Rgb:
    """The colour itself when it can be read on the ground, else the nearest that can on its way to white or black.

    The hue stays as long as there is any left; the way that takes fewer steps is taken.
    """
    if contrast(colour, ground) >= least:
        return colour
    for step in range(1, _STEPS + 1):
        for end in ((0, 0, 0), (255, 255, 255)):
            r, g, b = (round(c + (e - c) * step / _STEPS) for c, e in zip(colour, end, strict=True))
            if contrast((r, g, b), ground) >= least:
                return r, g, b
    return colour  # never: black or white is 4.58 away from any colour
