"""`show(trace)`: a recorded run as it plays on the stage, in a notebook; `saved(trace)` is the page itself."""

from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from specviz.errors import TraceError
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.trace import Trace
from specviz.trace.private import open_like
from specviz.view.play.build import FrameBuilder
from specviz.view.stage.page import page

_HEIGHT = 760  # pixels
_ENDINGS = (".gz", ".jsonl", ".sv")


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run in one HTML page that needs neither server nor network. Shown in full by a notebook."""

    name: str
    html: str
    n_rounds: int
    height: int = _HEIGHT
    trace: Path | None = None  # what it was made of

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its script reaches nothing of the notebook."""
        inside = escape(self.html, quote=True)
        frame = f'width="100%" height="{self.height}" style="border:0" sandbox="allow-scripts"'
        return f'<iframe srcdoc="{inside}" {frame} title="{escape(self.name, quote=True)}"></iframe>'

    def save(self, path: Path | str) -> Path:
        """Write the page to a file, which opens in a browser from disk; who may read the trace may read it."""
        written = Path(path)
        with open_like(written, [] if self.trace is None else [self.trace]) as file:
            file.write(self.html.encode())
        return written


def show(trace: Path | str, height: int = _HEIGHT) -> SavedRun:
    """A recorded run, to be looked at in a notebook. Raises TraceError for what is no readable trace with rounds."""
    page = saved(trace)
    return replace(page, height=height)


def saved(trace: Path | str) -> SavedRun:
    """The page of a trace, as far as it was recorded. Raises TraceError where there is nothing to play."""
    builder = FrameBuilder(Run())  # first: it counts every round while that is in memory
    run = builder.run
    with Trace(trace) as opened:
        run.extend(opened.read())
        name, path = trace_title(opened.path), opened.path
    if not run.rounds:
        raise TraceError(f"{trace} has no round in it yet: there is nothing to play; record a run to its first round")
    return SavedRun(name, page(builder, name), len(run.rounds), trace=path)


def trace_title(path: Path) -> str:
    """A trace's name without its endings, safe to show."""
    name = path.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return running(name)
