"""Two to six recorded runs, or sets of them, side by side: their texts, their numbers, what they were set to."""

from specviz.view.compare.aligned import Aligned, LaneRound, LaneToken, RunLane, aligned
from specviz.view.compare.build import MOST, SideBySide, comparison, comparison_of
from specviz.view.compare.figures import AXES, MARKS, Compared, CompareRow, Steps, compared
from specviz.view.compare.gate import GateRule, parse_rules
from specviz.view.compare.score import WINDOW, Score, score, wrote
from specviz.view.compare.sets import Request, RunSet, set_of, set_of_all
from specviz.view.compare.settings import Setting, settings

__all__ = [
    "AXES",
    "MARKS",
    "MOST",
    "WINDOW",
    "Aligned",
    "CompareRow",
    "Compared",
    "GateRule",
    "LaneRound",
    "LaneToken",
    "Request",
    "RunLane",
    "RunSet",
    "Score",
    "Setting",
    "SideBySide",
    "Steps",
    "aligned",
    "compared",
    "comparison",
    "comparison_of",
    "parse_rules",
    "score",
    "set_of",
    "set_of_all",
    "settings",
    "wrote",
]
