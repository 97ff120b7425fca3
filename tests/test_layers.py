"""The layers hold: front-ends, sources and the command line run without the engine, and the import contracts are kept.

Each check runs in a fresh interpreter in an empty folder, because in this one torch may long be imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specviz.trace.bundled import assets, traces_in
from support.traces import make_events, write_trace
from tools import dist

ROOT = Path(__file__).resolve().parent.parent
ROOTS = [ROOT, *(ROOT / name for name in ("tui", "app", "assets", "train", "lab"))]
HEAVY = {
    "torch",
    "transformers",
    "accelerate",
    "specviz.engine",
    "specviz.methods.draft_model.drafter",
    "specviz_train",
}

_REPORT = "import sys, json; print(json.dumps(sorted(sys.modules)))"
_IMPORT_ALL = """
import importlib, pkgutil
package = importlib.import_module({name!r})
for module in pkgutil.walk_packages(getattr(package, "__path__", ()), {name!r} + "."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
# What a screen, a figure or a script may import. Sub-commands of the command line import the engine when they run.
ABOVE_THE_LINE = [
    "specviz_tui",
    "specviz_app",
    "specviz_assets",
    "specviz.view",
    "specviz.judge",
    "specviz.sources",
    "specviz.trace",
    "specviz.events",
    "specviz.metrics",
    "specviz.verifiers",
    "specviz.whatif",
    "specviz.probability",
    "specviz.commands",
    "specviz.local_models",
    "specviz.runlog",
    "specviz.cost",
    "specviz_lab.prove",
    "specviz_lab.commands",
    "specviz.cli",
]


def _modules(code: str, folder: Path) -> set[str]:
    """Names of all modules that a fresh interpreter holds after running `code`."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\n{_REPORT}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def _heavy(modules: set[str]) -> set[str]:
    return modules & HEAVY


@pytest.mark.parametrize("name", ABOVE_THE_LINE)
def test_nothing_above_the_torch_line_imports_the_engine(name: str, tmp_path: Path) -> None:
    assert not _heavy(_modules(_IMPORT_ALL.format(name=name), tmp_path))


def test_the_check_sees_an_import_of_the_engine(tmp_path: Path) -> None:
    assert _heavy(_modules("import specviz.engine", tmp_path)) == {"specviz.engine"}


def test_looking_needs_no_numpy(tmp_path: Path) -> None:
    """It is half of what an installation without extras would take: `uvx` fetches it for every `watch`."""
    log = tmp_path / "server.log"
    log.write_text(dist.VLLM * 40)
    recordings = sorted(path.name.removesuffix(".sv.jsonl.gz") for path in traces_in(assets("traces")))
    assert recordings
    code = f"""
from specviz.cli import main
for name in {recordings!r}:
    assert main(["stats", name]) == 0
    assert main(["diagnose", name, "--json"]) in (0, 1)
assert main(["import", {str(log)!r}, "--out", "log.sv.jsonl.gz"]) == 0
assert main(["stats", "log.sv.jsonl.gz"]) == 0
assert main(["compare", {recordings[0]!r}, {recordings[1]!r}]) == 0
assert main(["learn"]) == 0
assert main(["check", {str(assets("models/pair/target"))!r}, {str(assets("models/pair/draft"))!r}]) in (0, 1)
assert main(["watch", "--once", "http://127.0.0.1:9/metrics"]) == 2
"""
    assert "numpy" not in _modules(code, tmp_path)


def test_importing_specviz_or_its_traces_is_cheap(tmp_path: Path) -> None:
    assert not _modules("import specviz", tmp_path) & {"numpy", "msgspec", "click", "rich", "specviz.errors"}
    assert not _modules("import specviz.trace", tmp_path) & {"numpy", "click", "textual"}


def test_a_public_name_brings_its_own_home_only(tmp_path: Path) -> None:
    modules = _modules("import specviz; specviz.KnobSpec", tmp_path)
    assert "specviz.knobs" in modules
    assert "numpy" not in modules
    assert not _heavy(modules)


def test_a_trace_is_replayed_and_measured_without_the_engine(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "a", make_events(new_tokens=12))
    code = f"""
from specviz.trace import Trace
from specviz.runlog.fold import fold
from specviz.cli import main
with Trace({str(trace)!r}) as trace:
    assert fold(trace.poll()).rounds
assert main(["stats", {str(trace)!r}, "--json"]) == 0
"""
    assert not _heavy(_modules(code, tmp_path))


def test_the_import_contracts_of_pyproject_are_kept() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ROOTS))}
    tool = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [str(tool), "--no-cache"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
