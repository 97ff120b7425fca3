"""What `make docs` adds to the documents: recordings that play in the page. A hook of mkdocs.

Everything is made of what the package brings, while the site is built, and opens from disk: a page for each recording
and each planted fault under `play/`, the gallery and the clinic that show them, and the stage on the front page.
"""

import re
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
_DOORS = (
    "[More recordings](play/index.md){ .md-button } [Faults to find](play/faults.md){ .md-button }"  # below the stage
)
_FIRST_OF_GALLERY, _FIRST_OF_CLINIC = "explain-draft", "02"


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
    return _STAGE_HERE.sub(lambda match: f"{_frame(f'play/{match[1]}.html', match[1])}\n\n{_DOORS}", markdown)


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


def _frame(address: str, title: str, name: str = "stage") -> str:
    words = f'title="{escape(title)}" name="{name}" allow="fullscreen"'
    return f'<iframe class="sv-plays" src="{address}" {words}></iframe>'


def _gallery() -> str:
    cards = {name: card for name, path in bundled_traces().items() if (card := gallery_card(path)) is not None}
    lines = [
        "---",
        "hide: [navigation, toc]",
        "---",
        "# Recordings that play { .sv-short }",
        "",
        "Real runs, recorded round by round. Choose one, then press play, or `?` for its keys; click a token to see "
        "why it lived or died.",
        "",
        _frame(f"{_FIRST_OF_GALLERY}.html", "a recording"),
        "",
        '<div class="sv-cards" markdown="0">',
        *(_card(name, card) for name, card in cards.items()),
        "</div>",
    ]
    return "\n".join(lines)


def _card(name: str, card: GalleryCard) -> str:
    numbers = " · ".join(f"{escape(value)} {escape(label)}" for label, value in card.numbers)
    asked = f"<q>{escape(card.summary.question)}</q>" if card.summary.question else ""
    setting = escape(f"{card.summary.how} · {card.summary.sampling}")
    return (
        f'<a class="sv-card" href="{name}.html" target="stage"><b>{escape(name)}</b> {asked}'
        f"<span>{setting}</span><span>{numbers}</span><span>{escape(card.pays)}</span></a>"
    )


def _lessons() -> str:
    lines = [
        "---",
        "hide: [navigation, toc]",
        "---",
        "# Lessons { .sv-short }",
        "",
        "Foretell, then see: every answer comes from the recording beside it. A page is one file that needs nothing: "
        "send it on, or open it with `?teach=1` behind its name, and answers wait for the key `a`.",
        "",
        '<div class="sv-cards" markdown="0">',
        *(
            f'<a class="sv-card" href="lesson-{lesson.number}.html" target="lesson"><b>{lesson.number} · '
            f"{escape(lesson.title)}</b><span>{escape(lesson.about)}</span></a>"
            for lesson in bundled_lessons().values()
        ),
        "</div>",
        "",
        _frame("lesson-1.html", "a lesson", "lesson"),
    ]
    return "\n".join(lines)


def _ill(number: str) -> Path:
    return CLINIC / f"{number}-ill-0" / "run.sv.jsonl.gz"


@cache
def _planted() -> tuple[tuple[str, str, str], ...]:
    """Number, what somebody posts, how it was planted: from the page that the clinic writes."""
    text = (ROOT / "docs" / "clinic.md").read_text("utf-8")
    rows = ((f"{int(n):02}", posted, planted) for n, posted, planted in _PLANTED.findall(text))
    return tuple(row for row in rows if _ill(row[0]).exists())


def _faults() -> str:
    lines = [
        "---",
        "hide: [navigation, toc]",
        "---",
        "# Faults to find { .sv-short }",
        "",
        "Real runs in which a fault was planted. Read what somebody posted, look at the run, say what is wrong; then "
        "see what the judge makes of it.",
        "",
        _frame(f"fault-{_FIRST_OF_CLINIC}.html", "a run with a fault", "patient"),
        "",
    ]
    for number, posted, planted in _planted():
        lines += [
            f'<details class="sv-fault"><summary><a href="fault-{number}.html" target="patient">▶ play</a> '
            f"<q>{escape(posted)}</q></summary>",
            f"<p><b>Fault {int(number)}: {escape(FAULTS[int(number) - 1])}.</b> Planted: {escape(planted)}.</p>",
            *_judged(number),
            "</details>",
        ]
    return "\n".join(lines)


def _judged(number: str) -> list[str]:
    findings = judge(read_things([str(_ill(number))]).evidence)
    if not findings:
        return ["<p>From its rounds alone the judge names nothing.</p>"]
    first = findings[0]
    next_step = f" Next: {escape(first.next_step)}" if first.next_step else ""
    words = f"{escape(first.certainty)}: {escape(first.headline.rstrip('?'))}. {escape(first.claim)}"
    return [f"<p>The judge, from its rounds alone: {words}{next_step}</p>"]
