"""What `make docs` adds to the documents: recordings that play in the page. A hook of mkdocs.

Everything is made of what the package brings, while the site is built, and opens from disk: a page for each recording
and each planted fault under `play/`, the gallery and the clinic that show them, and the stage on the front page.
"""

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from specviz.check.findings import FAULTS
from specviz.judge import judge
from specviz.judge.reading import read_things
from specviz.sources.bundled import bundled_traces
from specviz.sources.gallery import GalleryCard, gallery_card
from specviz.sources.lesson_file import lesson_file
from specviz.sources.lessons import bundled_lessons
from specviz.view.stage.notebook import saved

ROOT = Path(__file__).resolve().parent.parent
CLINIC = ROOT / "assets" / "specviz_assets" / "clinic"
_STAGE_HERE = re.compile(r"^<!-- plays: ([a-z0-9-]+) -->\n+!\[[^\]]*\]\([^)]*\)$", re.MULTILINE)
_PLANTED = re.compile(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)  # of the last table of docs/clinic.md
_LOADS = "const late = this.querySelector('template'); late?.replaceWith(late.content)"
_DOORS = (
    "[More recordings](play/index.md){ .md-button } [Faults to find](play/faults.md){ .md-button }"  # below the stage
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The pages that are made here stand behind the first one."""
    nav: list[Any] = list(config.nav or [])
    nav.insert(
        1, {"Play": [{"Lessons": "play/lessons.md"}, {"Recordings": "play/index.md"}, {"Faults": "play/faults.md"}]}
    )
    config.nav = nav
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is made here to what lies in `docs`."""
    for address, text in made_pages().items():
        files.append(File.generated(config, address, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A picture with `<!-- plays: NAME -->` above it gives way to the recording itself."""
    return _STAGE_HERE.sub(lambda match: f"{_frame(f'play/{match[1]}.html', match[1], 'stage')}\n\n{_DOORS}", markdown)


def made_pages() -> dict[str, str]:
    """Text of every page that is made here, by its address."""
    return {
        **{f"play/{name}.html": _played(path) for name, path in bundled_traces().items()},
        **{f"play/fault-{number}.html": _played(_ill(number)) for number, _, _ in _planted()},
        **{
            f"play/lesson-{lesson.number}.html": lesson_file(id, siblings=True)
            for id, lesson in bundled_lessons().items()
        },
        "play/lessons.md": _lessons(),
        "play/index.md": _gallery(),
        "play/faults.md": _faults(),
    }


@cache
def _played(path: Path) -> str:
    return saved(path).html


def _frame(address: str, title: str, name: str) -> str:
    return (
        f'<iframe class="sv-plays" src="{address}" title="{escape(title)}" name="{name}" allow="fullscreen"></iframe>'
    )


def _folded(summary: str, frame: str, inside: Sequence[str], first: bool) -> list[str]:
    """One of several that are opened one at a time. What plays in it is loaded when it is: of a page from disk a
    browser fetches a folded frame at once, told to be lazy or not, and all would be unpacked before one is seen."""
    begins = '<details class="sv-fold" name="plays"'
    opened = f"{begins} open>" if first else f'{begins} ontoggle="{_LOADS}">'
    frame = frame if first else f"<template>{frame}</template>"
    return [f"{opened}<summary>{summary}</summary>", frame, *inside, "</details>"]


def _page(title: str, words: str, *lines: str) -> str:
    return "\n".join(("---", "hide: [navigation, toc]", "---", f"# {title} {{ .sv-short }}", "", words, "", *lines))


def _gallery() -> str:
    cards = {name: card for name, path in bundled_traces().items() if (card := gallery_card(path)) is not None}
    words = "Real runs, recorded round by round: play one, or click a token to see why it lived or died."
    lines = (
        line
        for place, (name, card) in enumerate(cards.items())
        for line in _folded(_card(name, card), _frame(f"{name}.html", name, name), (), place == 0)
    )
    return _page("Recordings that play", words, *lines)


def _card(name: str, card: GalleryCard) -> str:
    asked = f" <q>{escape(card.summary.question)}</q>" if card.summary.question else ""
    numbers = (f"{value} {label}" for label, value in card.numbers)
    words = " · ".join(filter(None, (card.summary.how, card.summary.sampling, *numbers, card.pays)))
    about = card.summary.about
    title, look = (f"{about.title} ({name})", f"<br>{escape(about.words)}") if about is not None else (name, "")
    return f"<b>{escape(title)}</b>{asked}<br><small>{escape(words)}{look}</small>"


def _lessons() -> str:
    words = (
        "Foretell, then see: every answer comes from the recording beside it. A page is one file that needs nothing: "
        "send it on, or put `?teach=1` behind its address, and answers wait for the key `a`."
    )
    chips = (
        f'<a href="lesson-{lesson.number}.html" target="lesson" title="{escape(lesson.about)}">{lesson.number} · '
        f"{escape(lesson.title)}, {lesson.minutes} min</a>"
        for lesson in bundled_lessons().values()
    )
    frame = _frame("lesson-1.html", "a lesson", "lesson")
    return _page("Lessons", words, '<div class="sv-chips" markdown="0">', *chips, "</div>", "", frame)


def _ill(number: str) -> Path:
    return CLINIC / f"{number}-ill-0" / "run.sv.jsonl.gz"


@cache
def _planted() -> tuple[tuple[str, str, str], ...]:
    """Number, what somebody posts, how it was planted: from the page that the clinic writes."""
    text = (ROOT / "docs" / "clinic.md").read_text("utf-8")
    rows = ((f"{int(n):02}", posted, planted) for n, posted, planted in _PLANTED.findall(text))
    return tuple(row for row in rows if _ill(row[0]).exists())


def _faults() -> str:
    words = "Real runs in which a fault was planted. Somebody posted a line: look at the run, and say what is wrong."
    lines = (
        line
        for place, (number, posted, planted) in enumerate(_planted())
        for line in _folded(
            f"<q>{escape(posted)}</q>",
            _frame(f"fault-{number}.html", f"case {int(number)}", f"fault-{number}"),
            [
                "<details><summary>What is it?</summary>",
                f"<p><b>Fault {int(number)}: {escape(FAULTS[int(number) - 1])}.</b> Planted: {escape(planted)}.</p>",
                *_judged(number),
                "</details>",
            ],
            place == 0,
        )
    )
    return _page("Faults to find", words, *lines)


def _judged(number: str) -> list[str]:
    findings = judge(read_things([str(_ill(number))]).evidence)
    if not findings:
        return ["<p>From its rounds alone the judge names nothing.</p>"]
    first = findings[0]
    next_step = f" Next: {escape(first.next_step)}" if first.next_step else ""
    words = f"{escape(first.certainty)}: {escape(first.headline.rstrip('?'))}. {escape(first.claim)}"
    return [f"<p>The judge, from its rounds alone: {words}{next_step}</p>"]
