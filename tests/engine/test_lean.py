"""A process of our own imports less, computes the same, and finds what was left out as soon as it asks for it.

Each in a fresh interpreter: in this one everything may long be imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LEFT_OUT = ("torch._dynamo", "torch.distributed.tensor", "scipy", "sympy")

_DECODED = """
from specviz import lean
lean.own_process = OWN
with lean.lean_start(DEVICE):
    from specviz.commands import Start
    from specviz.engine.run.local import LocalRun, load_pair
    pair = load_pair(threads=1)
run = LocalRun(pair, Start(prompt="def add(a, b):", method="draft", knobs={"max_new_tokens": 12}), lambda event: None)
for _ in run.rounds():
    pass
import gc, sys
facts = {"tokens": list(run.tokens), "exact": pair.target.exact, "sweeps": gc.isenabled()}
"""
_ASKED = """
import torch
from transformers.masking_utils import TransformGetItemToIndex
with TransformGetItemToIndex():
    facts["indexed"] = torch.arange(3)[1].item()
assert torch._dynamo.config
facts["compiles"] = torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item()
"""
_TELL = """
import json
print(json.dumps(facts | {"modules": sorted(sys.modules)}))
"""


def told(*code: str, own: bool = True, device: str | None = None) -> Any:
    """What a fresh interpreter says."""
    text = "".join(code).replace("OWN", str(own)).replace("DEVICE", repr(device))
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def whole() -> Any:
    """A run in a process that others share."""
    return told(_DECODED, _TELL, own=False)


def test_a_lean_process_decodes_the_same_tokens_without_what_it_left_out(whole: Any) -> None:
    lean = told(_DECODED, _TELL)
    assert (lean["tokens"], lean["exact"]) == (whole["tokens"], whole["exact"])
    assert not {*LEFT_OUT} & {*lean["modules"]}
    assert lean["sweeps"], "garbage is looked for again once the models are there"
    assert len(lean["tokens"]) == 12


def test_a_process_that_others_share_imports_all(whole: Any) -> None:
    """So does one whose model lies on several devices."""
    assert {"torch._dynamo", "torch.distributed.tensor"} <= {*whole["modules"]}
    spread = told("from specviz import lean\nlean.own_process = OWN\n", _LIBRARY_ONLY, _TELL, device="auto")
    assert spread["parted"], "what parts models over devices must find all of the library"
    assert spread["sweeps"]


def test_what_was_left_out_is_there_when_it_is_asked_for() -> None:
    reply = told(_DECODED, _ASKED, _TELL)
    assert reply["indexed"] == 1
    assert reply["compiles"] == 2.0


_LIBRARY_ONLY = """
import gc, sys
with lean.lean_start(DEVICE):
    from transformers import AutoModelForCausalLM
    from transformers.models.llama.modeling_llama import LlamaForCausalLM
    from transformers.utils import is_torch_distributed_available
facts = {"parted": is_torch_distributed_available(), "sweeps": gc.isenabled()}
"""


def test_a_library_that_cannot_be_had_so_is_imported_whole() -> None:
    """Another version may lack a module, or ask the compiler for more while it is imported."""
    begin = "from specviz import lean\nlean.own_process = OWN\n"
    assert not told(begin, _LIBRARY_ONLY, _TELL)["parted"], "the control: as a rule it is had so"
    lacking = told(begin, "lean._ITS_MODELS = ('modeling_layers', 'no_such_module')\n", _LIBRARY_ONLY, _TELL)
    assert lacking["parted"]
    reply = told(begin, "lean._MARKS = ()\n", _LIBRARY_ONLY, _TELL)
    assert "torch._dynamo.config" in reply["modules"]


def test_the_worker_and_the_command_begin_so(tmp_path: Path) -> None:
    """By the modules that are imported when they run: `-X importtime` names each."""
    for line in (["-m", "specviz.engine.run", "--no-draft"], ["-m", "specviz", "run", "--example", "code", "-q"]):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *line],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "OMP_NUM_THREADS": "1"},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        names = {row.rpartition("|")[2].strip() for row in done.stderr.splitlines()}
        assert "transformers.modeling_utils" in names
        assert not {*LEFT_OUT} & names
