"""Above methods, verifiers and drafters nothing is decided by the *name* of one: what is to be known of a method or a
verifier stands in its traits (`specviz.traits`), which catalogue and header carry.

Source text is searched, as `test_layers` does for imports: a name may be passed on, shown, or chosen as a default. It
may not be compared with, looked up by, or stand in a collection, for there it makes a method that nobody had thought of
behave like another one, silently.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from specviz.methods import all_methods
from specviz.verifiers import all_verifiers

ROOT = Path(__file__).parent.parent
PACKAGES = ("specviz", "tui/specviz_tui", "app/specviz_app", "train/specviz_train", "lab/specviz_lab")
BELOW = ("specviz/methods/", "specviz/verifiers/")
# `draft` is a method, and a stage, a lane, a model and a stream of random numbers: it counts beside a method only.
NAMES = frozenset({*all_methods(), *all_verifiers()}) - {"draft"}
LOOKS_UP = ("get", "pop", "setdefault", "startswith", "endswith", "index", "count")

# File -> names that may stand there, and why. Nothing else may; what is not needed any more has to go.
ALLOWED: dict[str, tuple[str, str]] = {
    "specviz/trace/migrate.py": ("*", "what the names in old headers stood for: the one table of its kind"),
    "specviz/traits.py": ("tokenwise hsd hsd_naive", "the rules that metrics replay, declared; they are keys of JSON"),
    "lab/specviz_lab/bench/ablation.py": (
        "sps pearl",
        "the rows that the claims of the paper are about, declared beside them",
    ),
    "lab/specviz_lab/bench/report/ablation.py": ("specbranch", "the heading of a column"),
    "specviz/comparison/sheets.py": ("specbranch", "the heading of a column"),
    "lab/specviz_lab/bench/results.py": (
        "ar ngram layerskip specbound",
        "pairs of arms that are worth reading, declared",
    ),
    "specviz/local_models/catalogue.py": ("eagle3 kangaroo medusa mtp", "folders of another distribution, as data"),
    "specviz/check/side.py": ("dflash", "an architecture of GGUF files, as llama.cpp calls it"),
    "specviz/engines/texts/kinds/vllm_log.py": ("mtp", "another engine's word for it, in what that engine wrote"),
    "specviz/commands.py": ("ngram", "what decodes when nobody says what"),
    "specviz/cli/measure/compare.py": ("tokenwise blockwise hsd walk", "what is compared when nobody says what"),
    # What a proof is of: expected numbers, closed forms and layouts by verifier, and two that must agree.
    "lab/specviz_lab/prove/known.py": ("*", "numbers of the paper and closed forms by verifier"),
    "lab/specviz_lab/papers/recomputed/hsd.py": ("tokenwise", "the heading of a column"),
    "lab/specviz_lab/prove/report.py": ("blockwise hsd", "the two that are proved to be one"),
}


def deciding(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every place where a name decides."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            yield from _compared(node)
        elif isinstance(node, ast.Dict):
            yield from _names(key for key in node.keys if key is not None)
        elif isinstance(node, ast.Set | ast.List | ast.Tuple):
            yield from _names(node.elts)
        elif isinstance(node, ast.Subscript):
            yield from _names([node.slice])
        elif isinstance(node, ast.MatchValue):
            yield from _names([node.value])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKS_UP:
            yield from _names(node.args[:1])


def _compared(node: ast.Compare) -> Iterator[tuple[int, str]]:
    sides = [node.left, *node.comparators]
    yield from _names(sides)
    if any(isinstance(side, ast.Attribute) and side.attr in ("method", "verifier") for side in sides):
        yield from ((s.lineno, "draft") for s in sides if isinstance(s, ast.Constant) and s.value == "draft")


def _names(nodes: "Iterator[ast.expr] | list[ast.expr]") -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES:
            yield node.lineno, node.value


@cache
def _found() -> dict[str, list[tuple[int, str]]]:
    paths = (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))
    places = ((path.relative_to(ROOT).as_posix(), path) for path in paths)
    deciding_places = {
        place: list(deciding(path.read_text("utf-8"))) for place, path in places if not place.startswith(BELOW)
    }
    return {place: names for place, names in deciding_places.items() if names}


def test_no_name_of_a_method_or_a_verifier_decides() -> None:
    deciding_places = _found()
    assert deciding_places, "nothing was searched"
    for place, names in deciding_places.items():
        allowed, _ = ALLOWED.get(place, ("", ""))
        for line, name in names:
            assert allowed == "*" or name in allowed.split(), (
                f"{place}:{line}: '{name}' decides something: declare a trait (specviz/traits.py)"
            )


def test_every_exception_is_needed() -> None:
    deciding_places = _found()
    for place, (allowed, why) in ALLOWED.items():
        assert why
        names = {name for _, name in deciding_places.get(place, [])}
        assert names, f"{place} is allowed names and has none"
        assert allowed == "*" or names == set(allowed.split()), place


@pytest.mark.parametrize(
    "line",
    [
        'if header.method == "pearl": pass',
        'if header.method != "draft": pass',
        'if "draft" == run.header.method: pass',
        'if method in ("specbranch", x): pass',
        'if verifier in {"hsd_naive"}: pass',
        'WORDS = {"walk": 1}',
        'x = WORDS["medusa"]',
        'x = WORDS.get("medusa", 0)',
        'x = name.startswith("hsd")',
        'x = [case for case in y if case.verifier == "slack"]',
        'match method:\n    case "ar": pass',
    ],
)
def test_the_search_finds(line: str) -> None:
    assert list(deciding(line))


@pytest.mark.parametrize(
    "line",
    [
        'if span.lane == "draft": pass',
        'note("drafted like specbranch")',
        'get_verifier("walk")',
        'x = f"{method} is no walk"',
    ],
)
def test_what_only_shows_or_chooses_is_not_found(line: str) -> None:
    assert not list(deciding(line))
