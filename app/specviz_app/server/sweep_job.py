"""`specviz sweep` as a process of its own: it loads the model and asks its exit heads about a recorded text.

The pages know no model, so they ask the command line, which says in one line on standard error what went wrong.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specviz.events import Event, Header
from specviz.trace import Recorder
from specviz.view.panels.exits.sweeps import replayed_as


def arguments(header: Header, trace: str, out: str, target: str = "") -> list[str]:
    """The words after `specviz`: the run's own method and heads, so that its rounds come out again."""
    method = replayed_as(header)
    heads = [str(head) for head in header.knobs.get("heads") or ()][:1]
    more = (["--heads", *heads] if heads else []) + (["--target", target] if target else [])
    return ["sweep", method, trace, *more, "--write", out]


@dataclass
class SweepJob:
    """One sweep under way. `out` is where the copy with the heads' answers will be."""

    out: Path
    process: "subprocess.Popen[bytes]"
    said: Path  # what it wrote on standard error

    @classmethod
    def start(
        cls, header: Header, trace: Path, folder: Path, name: str, target: str = "", command: Sequence[str] = ()
    ) -> "SweepJob":
        """Begin. `command`: another one than this Python's specviz, for tests."""
        place = Path(tempfile.mkdtemp(dir=folder))
        out, said = place / f"{name}.sv.jsonl", place / "said"
        words = [*(command or (sys.executable, "-m", "specviz")), *arguments(header, str(trace), str(out), target)]
        with said.open("wb") as stderr:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        return cls(out, process, said)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def result(self) -> Path | None:
        """The trace that was written; None while it runs, or when it failed."""
        if self.running or self.process.returncode != 0:
            return None
        packed = self.out.with_name(self.out.name + ".gz")
        return next((path for path in (packed, self.out) if path.exists()), None)

    @property
    def last_words(self) -> str:
        """The last line it said."""
        lines = self.said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1].removeprefix("specviz: ") if lines else ""

    def stop(self) -> None:
        """End it early."""
        if self.running:
            self.process.terminate()
            self.process.wait(timeout=5)


def written(events: Iterable[Event], folder: Path) -> Path:
    """A trace file of a run that was only watched."""
    place = Path(tempfile.mkdtemp(dir=folder)) / "live.sv.jsonl"
    recorder = Recorder(place)
    for event in events:
        recorder.write(event)
    recorder.close()
    return Path(recorder.path)
