"""Token text for terminal and browser: the one place where hostile text is made safe to show.

Tokens are arbitrary bytes that a model was free to choose: terminal escapes, bidi overrides, zero-width characters,
half a UTF-8 character, Rich markup, HTML. `shown` turns every one into visible characters of known width, so that a
token can neither move the cursor nor hide nor reach into its neighbour. Markup and HTML pass through it unchanged, as
harmless characters: give it to a widget as plain text (`rich.text.Text`), never to a markup parser, and to a page
through `html`.

Marks: space `▁`, newline `⏎`, tab `→`, a byte or control `⟨1B⟩`, any other unseen character by its code `⟨202E⟩`,
nothing at all `∅`, a combining mark without a base stands on `◌`. A token may hold an underscore of its own: where
`▁` would look like one a space has another sign (`SPACE_ASCII`, `SPACE_PLAIN`).
"""

import html as _html
import re
import unicodedata
from contextlib import suppress

from rich.cells import cell_len

width = cell_len  # terminal cells of an already shown text (CJK and emoji take 2)

SPACE, NEWLINE, TAB, EMPTY, ELLIPSIS = "▁", "⏎", "→", "∅", "…"
SPACE_ASCII, SPACE_PLAIN = "^", "␣"  # in ASCII; on terminals of 16 colours, whose fonts draw `▁` as `_`
_MARKS = {" ": SPACE, "\n": NEWLINE, "\t": TAB}
_RUNNING = {**_MARKS, " ": " "}
_ASCII = {
    SPACE: SPACE_ASCII,
    NEWLINE: "\\n",
    TAB: "\\t",
    EMPTY: "<>",
    ELLIPSIS: "~",
    "⟨": "<",
    "⟩": ">",
    "◌": "o",
    "“": '"',
    "”": '"',
    "×": "x",
    "≥": ">=",
    "≤": "<=",
    "±": "+-",
    "−": "-",
    "—": "-",
    "–": "-",
    "·": "|",
    "∞": "inf",
    "⇐": "<=",
    "✓": "+",
    "✗": "x",
    "↻": "r",
    "★": "*",
    "◦": "-",
    "⇥": ">",
    "●": "@",
    "◆": "#",
    "⚑": "!",
    "⚠": "!",
}
# Letters by category that paint nothing: hangul fillers, the braille blank, mongolian and khmer leftovers.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5\u034f")
LONGEST = 200  # characters of one token that are shown; the longest of real vocabularies are runs of 128 spaces
_MOST_MARKS = 3  # combining marks on one base; more is a pile that reaches over other lines


def shown(text: str, raw: str | None = None, most: int | None = LONGEST) -> str:
    """The token as one line of at most `most` visible characters, and how many of its own were left out.

    `raw`: its bytes in hex, when they are not UTF-8.
    """
    return _visible(text, raw, _MARKS, most) or EMPTY


def running(text: str, raw: str | None = None, most: int | None = None) -> str:
    """Like `shown` for a stretch of prose: spaces stay spaces, nothing stays nothing, and all of it is there."""
    return _visible(text, raw, _RUNNING, most)


def quoted(text: str, raw: str | None = None, cells: int = 24) -> str:
    """The token in the way sentences name it: words bare, anything else in quotes, so that `(` stays apart."""
    name = clip(shown(text, raw), cells)
    bare = "".join(c for c in name if c not in (SPACE, NEWLINE, TAB))
    return name if not bare or bare.isalnum() else f"“{name}”"


def clip(text: str, cells: int, ellipsis: str = ELLIPSIS) -> str:
    """At most `cells` terminal cells of an already shown text; what is cut ends in an ellipsis."""
    if width(text) <= cells:
        return text
    room = cells - width(ellipsis)
    if room < 0:
        return ""
    kept = text[:room]  # every character left of the cut is at least as wide as its count, marks aside
    while kept and (width(kept) > room):
        kept = kept[:-1]
    return kept + ellipsis


def pad(text: str, cells: int) -> str:
    """Clipped and filled with spaces to exactly `cells` terminal cells."""
    text = clip(text, cells)
    return text + " " * (cells - width(text))


def ascii_only(text: str) -> str:
    """A shown text in ASCII: marks by their short forms, the rest as `\\u0416`."""
    return "".join(_ASCII.get(c, c if c.isascii() else _code(c)) for c in text)


def byte_size(n_bytes: int) -> str:
    """`118 MB`, `1.2 GB`."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def html(text: str, raw: str | None = None) -> str:
    """The shown token as HTML text or attribute value."""
    return _html.escape(shown(text, raw), quote=True)


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


_CUT = re.compile(rf"{ELLIPSIS}\(\+[\d,]+\)\Z")


def _visible(text: str, raw: str | None, marks: dict[str, str], most: int | None) -> str:
    """Of the text, or of what its bytes spell with every stray byte as a lone surrogate (as in `surrogateescape`).

    At most `most` visible characters, then how many of the text's own are left out.
    """
    if raw:
        with suppress(ValueError):  # not hex: the record is odd, its text is still there
            text = bytes.fromhex(raw).decode("utf-8", "surrogateescape")
    if most is not None and len(text) > most:
        cut = _CUT.search(text)
        most = None if cut and cut.start() <= most else most  # what was cut stays as it is
    if text.isascii() and text.isprintable() and (most is None or len(text) <= most):
        return text.replace(" ", marks[" "])
    out: list[str] = []
    n_visible, pile = 0, _MOST_MARKS  # a mark at the start has no base of its own
    for at, char in enumerate(text):
        if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Mc"):
            visible = _mark(char, pile, bool(out))
            pile += 1
        else:
            visible, pile = marks.get(char) or _plain(char), 0
        n_visible += len(visible)
        if most is not None and n_visible > most:
            return f"{''.join(out)}{ELLIPSIS}(+{len(text) - at:,})"
        out.append(visible)
    return "".join(out)


def _mark(char: str, pile: int, has_base: bool) -> str:
    if char in _BLANK_LETTERS or unicodedata.name(char, "").startswith(("VARIATION", "MONGOLIAN FREE")):
        return _escaped(char)
    if not has_base:
        return "◌" + char
    return char if pile < _MOST_MARKS else _escaped(char)


def _plain(char: str) -> str:
    if char in _BLANK_LETTERS or unicodedata.category(char)[0] in "CZ":
        return _escaped(char)
    return char


def _escaped(char: str) -> str:
    """`⟨1B⟩` for a byte or control, `⟨202E⟩` for a character. Surrogates of stray bytes show the byte."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"⟨{code:02X}⟩" if code < 0x100 else f"⟨{code:04X}⟩"
