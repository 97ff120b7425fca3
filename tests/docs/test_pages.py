"""README and docs hang together: links lead somewhere, the site has every page, the README stays short."""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import specviz
from docs.pages import DOCS, PAGES, ROOT, anchors, links, prose
from specviz.trace.check import MOST_IN_A_ROUND
from specviz.trace.files import KEPT_MB, STREAMED_MB
from specviz_app.server.core import INFLATED_MB, UPLOAD_MB
from specviz_lab.papers.table import papers
from tools.written import LOG, PARTS, written

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
README = (ROOT / "README.md").read_text("utf-8")
GLOSSARY = (DOCS / "concepts.md").read_text("utf-8").partition("\n## Glossary\n")[2]


def test_the_readme_is_short_and_begins_with_the_two_commands() -> None:
    lines = README.splitlines()
    assert len(lines) <= 200
    commands = [number for number, line in enumerate(lines) if re.match(r"make (demo|test)\b", line)]
    assert [lines[number].split("#")[0].split() for number in commands] == [["make", "demo"], ["make", "test"]]
    assert commands[-1] < 30


def test_the_readme_shows_every_screen_and_names_every_method() -> None:
    shown = set(re.findall(r"docs/screenshots/((?:tui|web)-[a-z]+)", README))
    assert {f"tui-{name}" for name in ("tree", "layers", "lanes", "ranks", "hsd")} <= shown
    table = README.partition("\n## Methods\n")[2].partition("\n## ")[0]
    rows = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(specviz.all_methods())


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for goal in links(page):
        assert not goal.startswith(("http://", "https://")), f"{goal}: the documents stand on their own"
        path, _, anchor = goal.partition("#")
        there = page if not path else (page.parent / path).resolve()
        assert there.is_file(), goal
        if page.is_relative_to(DOCS):
            assert there.is_relative_to(DOCS), f"{goal}: not on the site"
        if anchor:
            assert anchor in anchors(there), goal


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_lists_stand_apart_from_the_line_above(page: Path) -> None:
    """The site reads a list that follows a paragraph at once as more of the paragraph."""
    lines = prose(page).splitlines()
    for above, line in pairwise(lines):
        if re.match(r"(\* |- |\d+\. )", line):
            assert not above.strip() or re.match(r"(\* |- |\d+\. |\s)", above), line


def test_there_are_few_pages() -> None:
    # Sixteen, one for the layout of what the C works on, which no other page has a reader for, one that a command
    # writes: what the judge makes of planted faults; one each for whoever learns and teaches. And a page a paper.
    pages = [page for page in PAGES if page.is_relative_to(DOCS)]
    assert len([page for page in pages if page.parent.name != "papers"]) <= 20
    assert len(pages) <= 20 + len(papers())


def test_the_site_lists_every_page_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert sorted(_leaves(site["nav"])) == sorted(
        page.relative_to(DOCS).as_posix() for page in PAGES if page.is_relative_to(DOCS)
    )


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [leaf for item in (nav.values() if isinstance(nav, dict) else nav) for leaf in _leaves(item)]


def test_the_readme_leads_to_every_page() -> None:
    reached = {(ROOT / goal).resolve() for goal in links(ROOT / "README.md") if goal.endswith(".md")}
    assert {page for page in PAGES if page.is_relative_to(DOCS)} - {DOCS / "index.md"} <= reached


def test_every_public_name_has_its_place_in_the_reference() -> None:
    names = re.findall(r"^::: specviz\.(\w+)$", (DOCS / "extending.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(set(specviz.__all__) - {"__version__"})


def test_the_glossary_is_short_sorted_and_in_single_lines() -> None:
    rows = re.findall(r"^\| (?!word \|)([^|]+) \| ([^|]+) \|$", GLOSSARY, re.MULTILINE)
    words = [word.casefold() for word, _ in rows]
    assert 0 < len(words) <= 60
    assert words == sorted(set(words))


def test_every_word_of_the_glossary_is_used() -> None:
    """In the documents or the source, there perhaps as a name: `RoundTree`, `round_tree`."""
    sources = (path for folder in ("specviz", "tui", "app", "train", "lab") for path in (ROOT / folder).rglob("*.py"))
    text = "\n".join(path.read_text("utf-8") for path in (*PAGES, *sources)).replace(GLOSSARY, "")
    rows = re.findall(r"^\| (?!word \|)([^|]+) \| [^|]+ \|$", GLOSSARY, re.MULTILINE)
    for word in (word for row in rows for word in row.split(", ")):
        parts = r"[\s_-]*".join(map(re.escape, re.split(r"[\s-]", word)))
        assert re.search(rf"(?<![^\W_]){parts}", text, re.IGNORECASE), word


def test_every_picture_is_shown_somewhere() -> None:
    shown = {(page.parent / goal).resolve() for page in PAGES for goal in links(page)}
    assert set((DOCS / "screenshots").iterdir()) <= shown


@pytest.mark.parametrize("page", PARTS, ids=lambda page: page.name)
def test_what_comes_from_elsewhere_is_as_it_is_there(page: Path) -> None:
    assert written(page) == page.read_text("utf-8"), "python -m tools.written writes it anew"


def test_every_measured_number_has_a_date_a_commit_and_a_machine() -> None:
    entries = json.loads(LOG.read_text("utf-8"))
    assert all(entry["date"] and entry["commit"] and entry["machine"] and entry["result"] for entry in entries)
    assert [entry["date"] for entry in entries] == sorted((entry["date"] for entry in entries), reverse=True)
    assert len((DOCS / "benchmarks.md").read_text("utf-8").splitlines()) <= 250


def test_the_limits_are_those_of_the_readers() -> None:
    limits = (DOCS / "traces.md").read_text("utf-8").partition("## Limits")[2].partition("\n## ")[0]
    limits = " ".join(limits.split())
    assert f"{STREAMED_MB} MB of plain text ({KEPT_MB} MB in the terminal and the browser" in limits
    assert f"a round {MOST_IN_A_ROUND:,} records" in limits
    assert f"may have {UPLOAD_MB} MB, and may unpack to {INFLATED_MB}." in limits
