"""How long a person waits: `specviz --help`, and `specviz tui --replay` until the first frame is on the terminal.

    python tools/startup.py [--trace FILE] [--runs N] [--json]

The replay runs on a pseudo-terminal of 120x36; the clock stops when the frame of the draft tree has been written to it,
which is after everything on the first screen was painted. The first run of each warms the caches and is not counted.
Exit code 1 when a median is above its bar.
"""

import argparse
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from importlib import resources
from pathlib import Path

BARS = {"help": 0.3, "replay": 1.0}
SIZE = (36, 120)
SHOWN = b"Draft tree"
LONGEST = 30.0
COMMAND = [sys.executable, "-m", "specviz"]


def help_seconds() -> float:
    """One `specviz --help`."""
    begin = time.perf_counter()
    subprocess.run([*COMMAND, "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def replay_seconds(trace: Path) -> float:
    """One `specviz tui --replay`, from the start of the process to its first frame."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    begin = time.perf_counter()
    process = subprocess.Popen(
        [*COMMAND, "tui", "--replay", str(trace)], stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    try:
        return _until_shown(master, begin)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _until_shown(master: int, begin: float) -> float:
    seen = b""
    while (waited := time.perf_counter() - begin) < LONGEST:
        if not select.select([master], [], [], LONGEST - waited)[0]:
            break
        seen += os.read(master, 1 << 16)
        if SHOWN in seen:
            return time.perf_counter() - begin
    raise SystemExit(f"no frame within {LONGEST:g} s; the terminal got: {seen[-400:]!r}")


def first_trace() -> Path:
    """A bundled trace."""
    folder = Path(str(resources.files("specviz_assets"))) / "traces"
    found = sorted(folder.glob("*.sv.jsonl*"))
    if not found:
        raise SystemExit("no bundled trace; name one with --trace FILE")
    return found[0]


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="the trace to replay [default: the first bundled one]")
    parser.add_argument("--runs", type=int, default=7, help="counted runs of each")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    trace = given.trace or first_trace()
    measures = {"help": help_seconds, "replay": lambda: replay_seconds(trace)}
    report = {}
    for name, measure in measures.items():
        times = [measure() for _ in range(given.runs + 1)][1:]
        middle = statistics.median(times)
        report[name] = {"median_s": middle, "worst_s": max(times), "bar_s": BARS[name], "runs": len(times)}
    if given.json:
        print(json.dumps(report))
    else:
        for name, r in report.items():
            print(f"{name:<7} median {r['median_s']:.3f} s   worst {r['worst_s']:.3f} s   bar {r['bar_s']:g} s")
    return int(any(r["median_s"] > r["bar_s"] for r in report.values()))


if __name__ == "__main__":
    sys.exit(main())
