"""Where events come from: a file (finished or growing) or a worker process. Screens know only the `Source` protocol."""

from specviz.sources.base import NoSource, Source, TraceFile
from specviz.sources.knob_edits import KnobEdits
from specviz.sources.worker import Worker

__all__ = ["KnobEdits", "NoSource", "Source", "TraceFile", "Worker"]
