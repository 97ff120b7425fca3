"""Where events come from: a file (finished or growing) or a worker process. Screens know only the `Source` protocol."""

from specviz.sources.base import Source
from specviz.sources.file import TraceFile
from specviz.sources.knob_edits import KnobDesk
from specviz.sources.worker import Worker

__all__ = ["KnobDesk", "Source", "TraceFile", "Worker"]
