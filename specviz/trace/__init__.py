"""Traces: a run as JSON lines in a file. Written by `Recorder`, read by `Trace`, finished or still growing."""

from specviz.trace.files import packed_path, plain_path, resolve
from specviz.trace.reader import Trace, read_events
from specviz.trace.recorder import Recorder

__all__ = ["Recorder", "Trace", "packed_path", "plain_path", "read_events", "resolve"]
