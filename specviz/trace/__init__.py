"""Traces: a run as JSON lines in a file. Written by `Recorder`, read by `Trace`, finished or still growing.

`Writer` makes one of any decoding loop.
"""

from specviz.trace.files import packed_path, plain_path, resolve
from specviz.trace.reader import Trace, read_events
from specviz.trace.recorder import Recorder
from specviz.trace.rules import RULES
from specviz.trace.writer import Writer

__all__ = ["RULES", "Recorder", "Trace", "Writer", "packed_path", "plain_path", "read_events", "resolve"]
