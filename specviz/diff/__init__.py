"""Two recordings, or two sets of them, against each other: what changed, how surely, and whether a gate opens."""

from specviz.diff.gate import GateRule, parse_rules
from specviz.diff.measure import DiffReport, compare_sets
from specviz.diff.requests import RecordedSet, Request, read_set

__all__ = ["DiffReport", "GateRule", "RecordedSet", "Request", "compare_sets", "parse_rules", "read_set"]
