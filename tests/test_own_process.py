"""A process of our own is set up for decoding before torch is loaded; in anybody else's nothing is changed."""

import os
import subprocess
import sys

import pytest

OURS = {
    "worker": ("specviz.engine.run", ["worker"]),
    "command": ("specviz", ["specviz", "run", "--prompt", "x"]),
}
# What is set by the time that torch is imported.
WATCHED = """
import os, runpy, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Watch())
"""
# Everything that a host may have set, before and after a pair is loaded and a run decoded.
HOST = """
import faulthandler, gc, locale, logging, os, random, signal, sys, threading, warnings
import numpy as np
import torch
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging as library

torch.set_num_threads(2)
KNOWN = {"", *logging.root.manager.loggerDict}  # of the libraries that a host has imported

def process():
    loggers = {"": logging.root, **logging.root.manager.loggerDict}
    return {
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "environment": dict(os.environ),
        "filters": list(warnings.filters),
        "shown by": warnings.showwarning,
        "handlers": {each: signal.getsignal(each) for each in signal.valid_signals()},
        "dtype": torch.get_default_dtype(),
        "random": (torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()),
        "gradients": torch.is_grad_enabled(),
        "hooks": (sys.excepthook, threading.excepthook),
        "bars": (library.is_progress_bar_enabled(), are_progress_bars_disabled(), library.get_verbosity()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "loggers": (logging.root.manager.disable, {
            name: (each.level, list(each.handlers), list(each.filters), each.propagate, each.disabled)
            for name, each in loggers.items() if name in KNOWN and isinstance(each, logging.Logger)
        }),
        "garbage": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(gc.callbacks)),
        "torch": (
            torch.get_default_device(), torch.get_float32_matmul_precision(), torch.is_inference_mode_enabled(),
            torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled, torch.backends.cudnn.benchmark,
        ),
        "numpy": (np.geterr(), np.get_printoptions()),
        "imports": (list(sys.path), list(sys.meta_path), list(sys.path_hooks)),
        "interpreter": (
            sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), sys.gettrace(),
            sys.getprofile(), faulthandler.is_enabled(), locale.setlocale(locale.LC_ALL), os.getcwd(),
        ),
        "running": [each.name for each in threading.enumerate()],
    }

before = process()
import specviz
import specviz.engine.runtime as memory
memory.keep_freed_memory = lambda: print("malloc")
pair = specviz.load_pair()
start = specviz.Start(method="draft", prompt="def f", knobs={"max_new_tokens": 4})
run = specviz.LocalRun(pair, start, lambda event: None)
during = {torch.get_num_threads() for _ in run.rounds()}
after = process()
print("different:", [name for name in before if before[name] != after[name]], "threads of the run:", during)
"""


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    ("variables", "spins"),
    [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
    ids=["open", "given", "policy"],
)
def test_idle_threads_of_our_own_processes_soon_sleep(name: str, variables: dict[str, str], spins: str) -> None:
    """Unless somebody has said how long they look for work."""
    module, words = OURS[name]
    code = f"{WATCHED}\nsys.argv = {words}\nrunpy.run_module({module!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], env=_without(variables), capture_output=True, text=True, check=False
    )
    assert (done.stdout.split(), done.returncode) == ([spins], 0), done.stderr


def test_nothing_of_a_host_is_changed() -> None:
    """It imports, loads, and decodes a run, which has its own number of threads meanwhile."""
    done = subprocess.run([sys.executable, "-c", HOST], env=_without({}), capture_output=True, text=True, check=False)
    assert done.stdout == "different: [] threads of the run: {1}\n", done.stderr


def _without(more: dict[str, str]) -> dict[str, str]:
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "TORCHINDUCTOR_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}
