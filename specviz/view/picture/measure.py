"""How wide text is, before anybody paints it: so that one layout serves painters that know their letters and those that
do not. Widths are those of DejaVu, which is wider than most; text that fits in it fits in others.
"""

from collections.abc import Iterator

from rich.cells import cell_len

_MONO = 0.602  # em, a cell
_WIDE, _OTHER, _BOLD = 1.02, 0.84, 1.11  # em: of two cells, of other letters than ASCII; bold by regular
# DejaVu Sans from the space on, in thousandths of an em.
_WIDTHS = (
    "318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636 636 636 636 "
    "337 337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863 748 787 603 787 695 "
    "635 611 732 684 989 685 611 685 390 337 390 838 500 500 613 635 550 635 615 352 635 634 278 278 579 278 "
    "974 634 612 635 635 411 521 392 634 592 818 592 592 525 636 337 636 838 "
)
_SANS = [int(word) for word in _WIDTHS.split()]
_NARROW = {"·": 0.318, "“": 0.518, "”": 0.518, "‘": 0.318, "’": 0.318, "⟨": 0.39, "⟩": 0.39}
ELLIPSIS = "…"


def width(text: str, size: float, mono: bool = False, bold: bool = False) -> float:
    """In pixels."""
    if mono:
        return cell_len(text) * _MONO * size
    return sum(map(_letter, text)) * size * (_BOLD if bold else 1.0)


def _letter(letter: str) -> float:
    place = ord(letter) - 32
    if 0 <= place < len(_SANS):
        return _SANS[place] / 1000
    return _WIDE if cell_len(letter) > 1 else _NARROW.get(letter, _OTHER)


def clipped(text: str, most: float, size: float, mono: bool = False, bold: bool = False) -> str:
    """As much of it as is no wider than `most` pixels."""
    if width(text, size, mono, bold) <= most:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        fits = width(text[:middle].rstrip() + ELLIPSIS, size, mono, bold) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low].rstrip() + ELLIPSIS


def wrapped(text: str, most: float, size: float, lines: int, bold: bool = False) -> list[str]:
    """Broken between words into at most so many lines; the last one is clipped when there is more."""
    found: list[str] = [""]
    for word in _words(text, most, size, bold):
        longer = f"{found[-1]} {word}".strip()
        if found[-1] and width(longer, size, bold=bold) > most:
            found.append(word)
        else:
            found[-1] = longer
    if len(found) <= lines:
        return found
    return [*found[: lines - 1], clipped(" ".join(found[lines - 1 :]), most, size, bold=bold)]


def balanced(text: str, most: float, size: float, lines: int) -> list[str]:
    """As `wrapped`, in lines that are about as long as each other."""
    found = wrapped(text, most, size, lines)
    low, high = 0.5 * most, most
    while len(found) > 1 and high - low > size:
        middle = (low + high) / 2
        other = wrapped(text, middle, size, lines)
        if len(other) == len(found) and other[-1].endswith(ELLIPSIS) == found[-1].endswith(ELLIPSIS):
            found, high = other, middle
        else:
            low = middle
    return found


def _words(text: str, most: float, size: float, bold: bool) -> Iterator[str]:
    """The words; one that is wider than a line comes in parts."""
    for word in text.split():
        part = ""
        for letter in word:
            if part and width(part + letter, size, bold=bold) > most:
                yield part
                part = ""
            part += letter
        yield part
