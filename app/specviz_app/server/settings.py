"""What the command line decided, handed to the server once."""

from dataclasses import dataclass
from pathlib import Path

from specviz.commands import Start

UPLOAD_MB = 64  # most of an uploaded file
INFLATED_MB = 512  # most of what a zipped upload may unpack to


@dataclass(frozen=True, slots=True)
class Settings:
    """`replay`: a trace to show. `argv`: words for the worker (models, device). `start`: what its first run decodes,
    or, without a prompt, what the form proposes. `live`: load the models at once. `command`: another worker, for tests.
    """

    replay: Path | None = None
    argv: tuple[str, ...] = ()
    start: Start | None = None
    live: bool = False
    record: Path | None = None
    redact: bool = False  # what is recorded holds no text
    command: tuple[str, ...] | None = None

    def model(self, name: str) -> str:
        """The model named on the command line as `--name`, or nothing for the embedded one."""
        flag = f"--{name}"
        return self.argv[self.argv.index(flag) + 1] if flag in self.argv else ""
