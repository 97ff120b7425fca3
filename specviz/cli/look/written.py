"""What commands that make a file of a trace share: which trace is meant, and where the file may go."""

from pathlib import Path

from specviz.errors import SpecvizError, TraceError
from specviz.runlog.fold import Run
from specviz.trace import Trace
from specviz.view.play.build import FrameBuilder


def read_run(path: Path) -> FrameBuilder:
    """The run of a trace, as far as it was recorded. Raises TraceError for one without a round."""
    builder = FrameBuilder(Run())  # first: it counts every round while that is in memory
    with Trace(path) as opened:
        builder.run.extend(opened.read())
    if not builder.run.rounds:
        raise TraceError(f"{path} has no round in it yet: there is nothing to show; record a run to its first round")
    return builder


def refuse_place(written: Path, read: Path, force: bool) -> None:
    """Raises SpecvizError for a file that cannot be made, or must not be written over; `read`: what it is made of."""
    if written.is_dir():
        raise SpecvizError(f"--out {written}: it is a folder; name a file in it")
    if not written.parent.is_dir():
        raise SpecvizError(f"--out {written}: there is no folder {written.parent}; make it or name another")
    if written.exists() and written.samefile(read):
        raise SpecvizError(f"--out {written} is what is read; name another file")
    if written.exists() and not written.is_file():
        raise SpecvizError(f"--out {written}: it is no plain file; name another")
    if written.exists() and not force:
        raise SpecvizError(f"{written} is there already; give --force to write over it, or another --out")


def unwritten(written: Path, error: OSError) -> SpecvizError:
    """The error for a file that could not be written."""
    return SpecvizError(f"cannot write '{written}': {error.strerror or error}; name another file")
