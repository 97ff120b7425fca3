"""A public class has a name of its own, and a variable one that says what it holds."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

HOME = Path(__file__).parents[1]
# Where a variable gets its value, and is called what might be said of anything.
EMPTY = re.compile(
    r"^ *(?:async )?(?:with .* as |for )?(found|said|told|made|given)(?:: [^=\n]+)?(?: = |, .*(?: = | in )| in |:$)",
    re.MULTILINE,
)
SOURCES = ("specviz", "tui/specviz_tui", "app/specviz_app", "assets/specviz_assets")


def public_classes(text: str) -> list[str]:
    """Names of the classes that a module's text defines at its top, without a leading underscore."""
    return [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]


def twice(modules: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """By name: the modules, given as (place, text), of every name that more than one of them defines."""
    homes = defaultdict(list)
    for place, text in modules:
        for name in public_classes(text):
            homes[name].append(place)
    return {name: places for name, places in homes.items() if len(places) > 1}


def test_public_class_names_are_unique() -> None:
    files = [path for source in SOURCES for path in sorted((HOME / source).rglob("*.py"))]
    assert len(files) > 300, "the sources are elsewhere"
    assert twice((str(path.relative_to(HOME)), path.read_text(encoding="utf-8")) for path in files) == {}


def test_a_name_used_twice_is_found() -> None:
    assert twice([("a", "class Row: ..."), ("b", "class _Own: ...\nclass Row: ..."), ("c", "class _Own: ...")]) == {
        "Row": ["a", "b"]
    }


def test_no_variable_has_an_empty_name() -> None:
    folders = (*SOURCES, "train", "lab", "recorder", "tools", "tests")
    files = [path for folder in folders for path in sorted((HOME / folder).rglob("*.py"))]
    assert len(files) > 900, "the sources are elsewhere"
    matches = {path: EMPTY.findall(path.read_text("utf-8")) for path in files}
    assert {str(path.relative_to(HOME)): names for path, names in matches.items() if names} == {}


def test_an_empty_name_is_found() -> None:
    code = "found = 1\nfor said, n in pairs:\n    told: list[int] = []\nwith opened() as made:\nmade(1)\n"
    assert EMPTY.findall(code) == ["found", "said", "told", "made"]
