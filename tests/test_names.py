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


# Labels that only this tool had; papers and engines have words for what they named.
OLD = re.compile(
    r"later text may differ|drafting lost|^Ledger|atio staircase|own odds|foretell|[tT]ake out: |of the other time|"
    r"comes along|at level (?:full|none|summary)|level full has|if the target draws it|how sure it may be|p\(B\)$|"
    r"part at position|slots from|best over the next|R left|surely ▒|measured by|core's own|^ never$|This draw was|"
    r"^fate |spells it|branch spells|\bis void|All void"
)


def labels(path: Path) -> list[str]:
    """What a source may put on screen: strings but for docstrings; of a script all but its comments."""
    text = path.read_text("utf-8")
    if path.suffix == ".js":
        return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE).splitlines()
    tree = ast.parse(text)
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent
    ]


def test_no_label_is_of_this_tool_alone() -> None:
    files = [path for source in SOURCES for path in sorted((HOME / source).rglob("*")) if path.suffix in (".py", ".js")]
    assert sum(path.suffix == ".js" for path in files) > 20, "the sources are elsewhere"
    old = {str(path.relative_to(HOME)): [text for text in labels(path) if OLD.search(text)] for path in files}
    assert {path: texts for path, texts in old.items() if texts} == {}


def test_an_old_label_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('"""It comes along."""\nrow = ("drafting lost", f"+ {below} never")\n')
    (tmp_path / "b.js").write_text('// it comes along\nput("its own odds");\n')
    assert [w for name in ("a.py", "b.js") for w in labels(tmp_path / name) if OLD.search(w)] == [
        "drafting lost",
        " never",
        'put("its own odds");',
    ]
