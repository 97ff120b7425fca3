"""What makes this processor this processor."""

import platform
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def processor() -> tuple[str, ...]:
    """Its name and flags, where the system says them."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return tuple(
            sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "stepping"))})
        )
    return (platform.processor(),)
