"""How long idle threads of torch look for work is set before torch is loaded, unless somebody has set it."""

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))
            raise SystemExit
sys.meta_path.insert(0, Watch())
import {module}
print("no torch")
"""


@pytest.mark.parametrize("module", ["specviz.engine.run.local", "specviz.engine.run.worker", "specviz.bench.measure"])
@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["open", "given", "policy"],
)
def test_idle_threads_soon_sleep(module: str, given: dict[str, str], found: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)], env={**kept, **given}, capture_output=True, text=True
    )
    assert (done.stdout.split(), done.returncode) == ([found], 0), done.stderr
