"""A comparison kept in a folder: every process writes the prompts it has done, a later command goes on from there.

Processes share nothing but the folder. As `accelerate launch` and torchrun number them, each takes every n-th prompt
and writes a file of its own; a command that finds all prompts done has only to put them together. A line cut short by
a crash is not there, and its prompt is done again.
"""

import hashlib
import os
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from specviz.errors import SpecvizError

OPTION = "--onto"
Result = TypeVar("Result")


def launched() -> tuple[int, int]:
    """Which process this is, of how many that a launcher started. Raises SpecvizError."""
    try:
        rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        raise SpecvizError("WORLD_SIZE and RANK are no numbers: unset them, or use a launcher") from None
    if not 0 <= rank < count:
        raise SpecvizError(f"RANK {rank} is none of {count} processes: unset it, or use a launcher")
    return rank, count


class SharedResults(Generic[Result]):
    """The results of prompts, by number. `asked`: all that they depend on; a folder holds those of one question."""

    def __init__(self, folder: Path, asked: Any, kind: type[Result]) -> None:
        self.rank, self.count = launched()
        self._folder, self._kind = folder, kind
        self._key = hashlib.sha256(msgspec.json.encode(asked, order="deterministic")).hexdigest()[:16]
        try:
            folder.mkdir(exist_ok=True)
            self.done = dict(pair for path in sorted(folder.glob("part-*.jsonl")) for pair in self._read(path))
            self._file = folder / f"part-{self.rank}.jsonl"
            self._file.touch()
        except OSError as error:
            raise SpecvizError(f"{OPTION} {folder}: {error.strerror}; name a folder that can be written") from None

    def mine(self, number: int) -> bool:
        """Whether a prompt is for this process to do."""
        return number % self.count == self.rank and number not in self.done

    def keep(self, number: int, results: list[Result]) -> None:
        """Write down what a prompt brought."""
        self.done[number] = results
        line = {"key": self._key, "prompt": number, "results": results}
        # A line of a process that was ended in the middle is closed before the next.
        with self._file.open("a", encoding="utf-8") as file:
            file.write("\n" + msgspec.json.encode(line).decode() + "\n")

    def _read(self, path: Path) -> list[tuple[int, list[Result]]]:
        out = []
        for line in path.read_text("utf-8").splitlines():
            try:
                found = msgspec.json.decode(line) if line else None
            except msgspec.DecodeError:
                continue
            if found is None:
                continue
            if found["key"] != self._key:
                raise SpecvizError(f"{OPTION} {self._folder}: it holds another comparison; name another folder")
            out.append((found["prompt"], msgspec.convert(found["results"], list[self._kind])))  # type: ignore[name-defined]
        return out
