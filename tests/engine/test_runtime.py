"""A process of our own is set for decoding, others stay as they are; freed memory is kept where the C library can."""

import os
import subprocess
import sys

import pytest

SCRIPT = "from specviz.engine.runtime import keep_freed_memory; print(keep_freed_memory())"

BEGUN = """
from specviz import lean
lean.begin_process(own=OWN)
with lean.lean_start():
    import torch
    from specviz import load_pair
    torch.set_num_threads(2)
    pair = load_pair(needs_draft=False)
loaded = torch.get_num_threads()
pair.runtime.begin()
print(loaded, torch.get_num_threads(), pair.runtime.threads)
"""


@pytest.mark.parametrize(("own", "threads"), [(True, "2 1 1"), (False, "2 2 1")])
def test_a_process_of_our_own_takes_the_threads_of_the_pair_once_it_begins(own: bool, threads: str) -> None:
    """Loading alone changes them in no process."""
    assert _said(BEGUN.replace("OWN", str(own))) == threads


@pytest.mark.parametrize("setting", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"])
def test_a_setting_by_the_environment_is_kept(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(setting, "glibc.malloc.trim_threshold=131072" if setting.startswith("GLIBC") else "131072")
    assert _said() == "False"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have other C libraries")
def test_glibc_takes_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES"):
        monkeypatch.delenv(name, raising=False)
    libc = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=False).stdout
    assert _said() == str("glibc" in libc)


def _said(script: str = SCRIPT) -> str:
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "GOMP_SPINCOUNT": "0"}  # two threads, one works
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **paths}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
