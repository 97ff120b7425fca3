"""Freed memory is kept where the C library can be told so, and nobody's own setting is overruled."""

import subprocess
import sys

import pytest

SCRIPT = "from specviz.engine.freed_memory import keep_freed_memory; print(keep_freed_memory())"


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


def _said() -> str:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    return done.stdout.strip()
