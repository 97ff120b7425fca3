"""What a number was measured on: processor, cores, versions, commit, load. No host name, no folder."""

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec


class Machine(msgspec.Struct, kw_only=True):
    """`load_*`: the one-minute load average before and after; above the cores in use others were working too."""

    processor: str
    cores: int
    system: str
    device: str
    threads: int
    versions: dict[str, str]
    commit: str | None
    load_before: float | None
    load_after: float | None = None


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float | None:
    """One-minute load average, None where the system has none."""
    with suppress(OSError, AttributeError):
        return round(os.getloadavg()[0], 2)
    return None


def processor() -> str:
    """The processor's model name and its widest vector units, which decide speeds where the exact model is hidden."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        name = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "")
        flags = text.partition("\nflags")[2].partition("\n")[0].split()
        known = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in flags]
        if name:
            return f"{name} ({known[0]})" if known else name
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions that move numbers."""
    out = {"python": platform.python_version()}
    for name in ("torch", "transformers"):
        with suppress(PackageNotFoundError):
            out[name] = version(name)
    return out


def commit() -> str | None:
    """Short commit of the checkout this package lies in, `+` when its files were changed; None without one."""
    folder = Path(__file__).resolve().parent
    try:
        head = _git(folder, "rev-parse", "--short=10", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", str(folder.parent))
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}+" if changed else head


def _git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *args], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
