"""Wheels of engines, to be read and never installed: those that the recorder's facts were taken from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from specviz_recorder.signatures import Signatures

KEPT = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "specviz" / "wheels"
# Of the machine that the facts are of, whatever this one is: a file that nobody imports runs nowhere.
MACHINE = ("--python-version", "3.11", "--platform", "manylinux_2_34_x86_64", "--platform", "manylinux_2_28_x86_64")


def engine_wheel(known: Signatures) -> Path:
    """The wheel, fetched once by pip; skips with the reason where it cannot be had."""
    wheel = _kept(known)
    if wheel is None:
        KEPT.mkdir(parents=True, exist_ok=True)
        with FileLock(KEPT / f".{known.package}"):
            wheel = _kept(known) or _fetched(known)
    return wheel


def _kept(known: Signatures) -> Path | None:
    return next(KEPT.glob(f"{known.package.replace('-', '_')}-{known.version}-*.whl"), None)


def _fetched(known: Signatures) -> Path:
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", *MACHINE]
    try:
        done = subprocess.run(
            [*words, "--dest", str(KEPT), f"{known.package}=={known.version}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        reason = done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = str(error)
    wheel = _kept(known)
    if wheel is None:
        why = (reason.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"{known.package} {known.version} cannot be had: {why}")
    return wheel
