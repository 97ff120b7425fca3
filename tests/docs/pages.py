"""The documents as text: which pages there are, their code blocks, links and anchors."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NOT_RUN = re.compile(r"^<!-- not run: (?P<why>.+) -->$")
_FENCE = re.compile(r"^\s*(?P<ticks>`{3,}|~{3,})(?P<language>.*)$")
_LINK = re.compile(r"!?\[(?P<text>[^][]*)\]\((?P<goal>[^()\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `not_run`: the reason that the line above it gives."""

    page: Path
    line: int  # of its opening fence, from 1
    language: str
    text: str
    not_run: str | None

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, text: str | None = None) -> list[Block]:
    """All fenced blocks of a page, whatever their language. Raises ValueError for one that is never closed."""
    lines = (page.read_text("utf-8") if text is None else text).splitlines()
    parts: list[Block] = []
    start, fence = -1, None
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if fence is None and match:
            start, fence = number, match
        elif fence is not None and match and match["ticks"] == fence["ticks"] and not match["language"].strip():
            marker = NOT_RUN.match(lines[start - 1]) if start else None
            parts.append(
                Block(
                    page,
                    start + 1,
                    fence["language"].strip(),
                    "\n".join(lines[start + 1 : number]),
                    marker["why"] if marker else None,
                )
            )
            fence = None
    if fence is not None:
        raise ValueError(f"{page}:{start + 1}: this block is never closed")
    return parts


def prose(page: Path) -> str:
    """The page without its blocks and code spans."""
    out, ticks = [], None
    for line in page.read_text("utf-8").splitlines():
        match = _FENCE.match(line)
        if ticks is None and match:
            ticks = match["ticks"]
        elif ticks is not None:
            ticks = None if match and match["ticks"] == ticks else ticks
        else:
            out.append(re.sub(r"`[^`]*`", "``", line))
    return "\n".join(out)


def links(page: Path) -> Iterator[str]:
    """Where the links and pictures of a page lead."""
    for match in _LINK.finditer(prose(page)):
        yield match["goal"]


def anchors(page: Path) -> set[str]:
    """What `#...` may name on a page: its headings, as the site writes them."""
    text = page.read_text("utf-8")
    for block in blocks(page):
        text = text.replace(block.text, "")
    return {_slug(heading) for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)}


def _slug(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
