"""Peak memory of one arm, in a process of its own: models, caches and everything the library keeps.

`python -m specviz.bench.memory` reads one JSON object on standard input and prints one. In the process that measures
speeds both sides are loaded, so its peak belongs to nobody.
"""

import json
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from specviz import lean
from specviz.bench.measure import BenchArm, Tokens
from specviz.bench.settings import BenchSettings, Contestant

_MIB = 1 << 20
_PASSED = ("gamma", "temperature", "target", "draft", "device", "dtype", "knobs", "lanes", "exit_layer")


class PeakMemory(msgspec.Struct, frozen=True, kw_only=True):
    """MiB. `imports`: what Python, torch and the library take before any model. `device`: None on a processor."""

    peak: float
    imports: float
    device: float | None = None


def peak_of(contestant: Contestant, settings: BenchSettings, prompt: Tokens) -> PeakMemory | None:
    """Run one arm on one prompt in a fresh process; None when that process fails."""
    order = {"kind": contestant.kind, "n": settings.max_new_tokens, "prompt": prompt, "threads": settings.threads}
    order |= {name: getattr(settings, name) for name in _PASSED}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "specviz.bench.memory"],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            timeout=600,
            check=True,
        )
        return msgspec.json.decode(done.stdout.splitlines()[-1], type=PeakMemory)
    except (OSError, subprocess.SubprocessError, IndexError, msgspec.MsgspecError):
        return None


def high_water() -> float:
    """Most resident memory of this process so far, MiB."""
    with suppress(OSError, IndexError, ValueError):
        # Not `ru_maxrss`: on Linux that survives the exec, so a child would start with its parent's peak.
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / _MIB if sys.platform == "darwin" else most / 1024


def _main(order: dict[str, Any]) -> PeakMemory:
    import torch

    from specviz.bench.ours import OurArm
    from specviz.bench.peers import PeerArm, Peers
    from specviz.engine.run.local import load_pair

    torch.set_num_threads(max(1, order["threads"]))
    arm_of = Contestant(order["kind"], order["kind"])
    settings = BenchSettings(arms=(arm_of,), max_new_tokens=order["n"], **{name: order[name] for name in _PASSED})
    before = high_water()
    arm: BenchArm
    if arm_of.peer:
        arm = PeerArm(arm_of, settings, Peers(settings))
    else:
        pair = load_pair(settings.target, settings.draft, settings.needs_draft, settings.device, settings.dtype)
        arm = OurArm(arm_of, settings, pair)
    arm.ready(order["prompt"], order["n"], 0)()
    device = torch.cuda.max_memory_allocated() / _MIB if torch.cuda.is_available() else None
    return PeakMemory(peak=round(high_water(), 1), imports=round(before, 1), device=device or None)


if __name__ == "__main__":
    lean.begin_process(own=True)
    sys.stdout.write(msgspec.json.encode(_main(json.load(sys.stdin))).decode() + "\n")
