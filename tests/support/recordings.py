"""Recordings of the embedded pair by name, one of every method at least: what readers, counts and screens are tried on.

Made by `python -m tools.bundle_traces --pair`; those that people see come with the package (`bundled_traces`).
"""

from pathlib import Path

from specviz.sources.bundled import trace_name, traces_in

RECORDINGS = {trace_name(path): path for path in traces_in(Path(__file__).parents[1] / "recordings")}
