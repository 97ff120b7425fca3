"""Traces: a run as JSON lines in a file. Written by `Recorder`, read by `Trace`, finished or still growing.

`Writer` makes one of any decoding loop.
"""

import importlib
from typing import Any

from specviz.errors import TraceError
from specviz.trace.files import packed_path, plain_path, resolve
from specviz.trace.reader import Trace, read_events
from specviz.trace.recorder import Recorder
from specviz.trace.rules import RULES
from specviz.trace.writer import Writer

__all__ = [
    "RULES",
    "Recorder",
    "Trace",
    "Writer",
    "packed_path",
    "plain_path",
    "read_events",
    "resolve",
    "transformers",
]


def transformers(model: Any, path: Any, **options: Any) -> Any:
    """A context in which the assisted generation of a `transformers` model is recorded as it is, to a trace at `path`.

    `text`: one token id as text; `draft`: name of the draft model. Needs specviz-recorder. Raises TraceError without.
    """
    try:
        recorded = importlib.import_module("specviz_recorder.transformers").recorded
    except ModuleNotFoundError as error:
        if error.name not in ("specviz_recorder", "specviz_recorder.transformers"):
            raise
        raise TraceError(
            "specviz.trace.transformers: the package specviz-recorder is not here; pip install ./recorder in specviz's "
            "folder"
        ) from None
    return recorded(model, path, **options)
