"""The trace of a `specviz run`: refused early when it cannot be written, closed with a reason whatever happens."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from specviz.cli.printing import Sink, narrate
from specviz.cli.run.result import Result
from specviz.errors import TraceError, WriteError
from specviz.trace.files import plain_path

if TYPE_CHECKING:
    from specviz.trace import Recorder


def check_place(path: Path, force: bool = False) -> None:
    """Raise TraceError when it is plain before anything runs that no file can be made there.

    An older trace is recorded over by `force` only.
    """
    from specviz.trace.recorder import existing, refuse_foreign

    try:
        _check(path)
    except OSError as error:  # a folder that may not be searched, a name that is too long
        raise TraceError(f"cannot record to '{path}': {error.strerror or error}; name another file") from None
    refuse_foreign(plain_path(path))  # what --force would not help with is told first
    older = None if force else existing(path)
    if older is not None:
        raise TraceError(
            f"cannot record to '{path}': {older} is there; give --force to record over it, or another name"
        )


def _check(path: Path) -> None:
    from specviz.trace.recorder import longest_name

    folder = path.parent
    if not folder.is_dir():
        raise TraceError(f"cannot record to '{path}': there is no folder '{folder}'; make it or name another")
    if path.is_dir():
        raise TraceError(f"cannot record to '{path}': it is a folder; name a file in it")
    with suppress(FileNotFoundError):
        longest_name(path).lstat()
    if path.exists() and not path.is_file():  # a trace is renamed into place and zipped, which a device is not
        raise TraceError(f"cannot record to '{path}': it is no regular file; name one, or leave out --record")
    if not os.access(folder, os.W_OK):
        raise TraceError(f"cannot record to '{path}': the folder '{folder}' is not writable; name another")


@contextmanager
def recording(path: Path | None, warned: Sink, result: Result, redact: bool = False) -> Iterator["Recorder | None"]:
    """A recorder for the run, None without a path. `warned` is told when the disk fills; the run goes on.

    Afterwards `result.trace` is the file, by the name it has in the end; None when it could not be written whole, which
    is a WriteError unless something else went wrong before.
    """
    if path is None:
        yield None
        return
    from specviz.trace import Recorder

    running = False
    recorder = Recorder(path, on_problem=lambda warning: warned(warning) if running else None, redact=redact)
    if recorder.problem:
        recorder.close("error", recorder.problem)
        raise TraceError(f"cannot record to '{path}': {recorder.problem}")
    running = True
    try:
        yield recorder
    except BaseException as error:
        recorder.close("error" if isinstance(error, Exception) else "cancelled", type(error).__name__)
        lost = _lost(recorder)
        if lost:  # the first error is the one that counts, but nobody may think there is a trace
            narrate(f"specviz: {lost}")
        raise
    finally:
        recorder.close("done")
        result.trace = None if _lost(recorder) else recorder.path
    lost = _lost(recorder)
    if lost:
        raise WriteError(lost)


def _lost(recorder: "Recorder") -> str | None:
    problem = recorder.problem
    return f"the trace {recorder.path} was not written whole: {problem}" if problem else None
