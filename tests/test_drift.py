"""Both front-ends show the same: each reads every field of the frame and of the panels' models.

Source text is searched, by the name of the field. A front-end also reads what it lets be put in words: what a property
or method of a model reads, and what a function of `specviz.view` reads that takes one and is named by the front-end.
What a front-end hands in (`Options`, `Feed`) it sets, as a keyword. The browser's Python hands the frame's records on
as they are, so that a field counts there only where the script reads it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
VIEW = ROOT / "specviz/view"
SOURCES = "specviz/sources/*.py"  # what both front-ends hand in by
TERMINAL = ("tui/specviz_tui/**/*.py", SOURCES)
BROWSER = ("app/specviz_app/**/*.py", "specviz/view/stage/*.py", SOURCES)
SCRIPTS = ("assets/specviz_assets/stage/*.js", "assets/specviz_assets/compare/*.js")
ENTERED = ("Frame", "Options", "Feed")  # with what every panel shows and takes
HANDED_IN = ("Options", "Feed", "Filter", "TreeViewport")  # what a front-end says it wants: it sets the fields
MOST = 15

# "Class.field" -> why one front-end alone reads it, or none. What is not needed any more has to go.
ALLOWED: dict[str, str] = {
    "ExpansionView.phi": "fifteen inputs of the rank head, folded away in the browser: too many lines for a terminal",
    "Fold.n_nodes": "what a list counts below a node; the browser has no list of nodes",
    "Frame.value_mode": "the browser shows q and p at once, a terminal one of them",
    "Glance.ranks": "the panel for the room beside a terminal's tree",
    "LaneBlock.forwards": "the sentence about a stretch is made of it",
    "Metric.interval": "ends of an interval that the browser draws; its text stands in both",
    "Options.patience_s": "a terminal paints between two parts of a long run; a page of the browser says that it reads",
    "Finding.detector": "for programs: `specviz stats --json`",
    "RunJudgement.confidence": "the overview's table of calibration is made of it",
    "ScanColumn.h": "the bar of the keep chance, in the browser; the terminal's table of the scan has the number",
    "TreeFrame.column_cells": "the widths of columns of letters",
    "TreeMap.n_folded": "the map of a terminal; the browser has a camera that shows all of a tree",
    "TreeMap.n_nodes": "the map of a terminal",
    "TreeMap.sizes": "the map of a terminal",
    "Values.point_mass": "the sentence of Why is made of it",
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def files(patterns: Iterable[str]) -> Iterator[Path]:
    return (path for pattern in patterns for path in ROOT.glob(pattern))


def is_record(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(d) for d in node.decorator_list) or any(
        "Struct" in ast.unparse(base) for base in node.bases
    )


def identifiers(node: ast.AST) -> set[str]:
    """Every word of a piece of source, those of annotations in quotes too."""
    words = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    quoted = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return words.union(*(re.findall(r"\w+", text) for text in quoted))


@cache
def records() -> dict[str, ast.ClassDef]:
    """The classes that a frame, its options and the panels are made of, by name."""
    places = (
        VIEW / "blocks.py",
        ROOT / "specviz/judge/finding.py",
        *files(("specviz/view/frame/*.py", "specviz/view/panels/*/*.py")),
    )
    classes = [node for path in places for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    declared = {node.name: node for node in classes if is_record(node)}
    shown = (identifiers(base) for node in classes for base in node.bases if ast.unparse(base).startswith("Panel["))
    left, reached = set(ENTERED).union(*shown), set()
    while left:
        name = left.pop()
        if name in declared and name not in reached:
            reached.add(name)
            parts = (declared[name], *(declared[base] for base in identifiers_of_bases(declared[name], declared)))
            left |= set().union(*(identifiers(field.annotation) for part in parts for field in fields(part)))
    return {name: declared[name] for name in sorted(reached)}


def identifiers_of_bases(node: ast.ClassDef, declared: dict[str, ast.ClassDef]) -> set[str]:
    return set().union(*map(identifiers, node.bases)) & set(declared)


def fields(node: ast.ClassDef) -> Iterator[ast.AnnAssign]:
    return (part for part in node.body if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part))


def words(nodes: Iterable[ast.AST]) -> set[str]:
    """What is read of anything (`.attr`), set of it (`attr=`), or named, of a module too (`name()`)."""
    words_by_place: set[str] = set()
    for node in nodes:
        names = (name for part in ast.walk(node) for name in getattr(part, "names", ()))
        imported = {name.asname or name.name for name in names if isinstance(name, ast.alias)}
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute):
                words_by_place.add(part.attr)
                if isinstance(part.value, ast.Name) and part.value.id in imported:
                    words_by_place.add(f"{part.attr}()")
            elif isinstance(part, ast.keyword) and part.arg:
                words_by_place.add(f"{part.arg}=")
            elif isinstance(part, ast.Name):
                words_by_place.add(f"{part.id}()")
    return words_by_place


@cache
def shared() -> dict[str, set[str]]:
    """What is read by a property or method of a record, and by a function of `specviz.view` that takes one: by name."""
    words_by_place: dict[str, set[str]] = defaultdict(set)
    for node in records().values():
        for method in (part for part in node.body if isinstance(part, ast.FunctionDef)):
            words_by_place[method.name] |= words([method])
    for path in VIEW.rglob("*.py"):
        for function in (part for part in parsed(path).body if isinstance(part, ast.FunctionDef)):
            taken = (identifiers(arg.annotation) for arg in function.args.args if arg.annotation is not None)
            if any(names & set(records()) for names in taken):
                words_by_place[f"{function.name}()"] |= words([function])
    return words_by_place


def read(patterns: Iterable[str]) -> set[str]:
    """The words of a front-end, and of what it lets be read for it."""
    left = words(parsed(path) for path in files(patterns)) | {"__iter__"}
    seen: set[str] = set()
    while left:
        word = left.pop()
        if word not in seen:
            seen.add(word)
            left |= shared().get(word, set())
    return seen


def read_by_scripts() -> set[str]:
    text = "\n".join(path.read_text("utf-8") for path in files(SCRIPTS))
    dotted = set(re.findall(r"\.(\w+)", text))
    taken = (re.findall(r"\w+", inside) for inside in re.findall(r"\{([\w\s,:]+)\}\s*(?:=|\))", text))
    return dotted.union(*taken)


def drift() -> dict[str, str]:
    """Every field that is not read by both, and by whom it is."""
    terminal, browser, scripts = read(TERMINAL), read(BROWSER), read_by_scripts()
    on_the_wire = {
        node.name
        for path in files(("specviz/view/frame/*.py",))
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef)
    }
    words_by_place = {}
    for name, node in records().items():
        own = scripts if name in on_the_wire else set()
        for field in fields(node):
            attr = ast.unparse(field.target)
            ways = {attr, f"{attr}="} if name.endswith(HANDED_IN) else {attr}
            in_terminal, in_browser = bool(ways & terminal), bool(ways & (browser | own))
            if not (in_terminal and in_browser):
                words_by_place[f"{name}.{attr}"] = "terminal" if in_terminal else "browser" if in_browser else "none"
    return words_by_place


def test_every_field_is_read_by_both_front_ends() -> None:
    alone = {field: who for field, who in drift().items() if field not in ALLOWED}
    assert not alone, "read by one front-end alone, or by none:\n" + "\n".join(f"  {f}: {w}" for f, w in alone.items())


def test_the_list_of_exceptions_is_short_and_needed() -> None:
    assert len(ALLOWED) <= MOST
    stale = set(ALLOWED) - set(drift())
    assert not stale, f"read by both now: {sorted(stale)}"
