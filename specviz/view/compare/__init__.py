"""Two to six recorded runs side by side: their text by position, their numbers, what they were set to."""

from specviz.view.compare.aligned import Aligned, LaneRound, LaneToken, RunLane, aligned, shared_prompts
from specviz.view.compare.build import MOST, SideBySide, comparison
from specviz.view.compare.figures import Compared, CompareRow, KindRow, Steps, compared
from specviz.view.compare.score import WINDOW, Score, score, wrote
from specviz.view.compare.settings import Setting, settings

__all__ = [
    "MOST",
    "WINDOW",
    "Aligned",
    "CompareRow",
    "Compared",
    "KindRow",
    "LaneRound",
    "LaneToken",
    "RunLane",
    "Score",
    "Setting",
    "SideBySide",
    "Steps",
    "aligned",
    "compared",
    "comparison",
    "score",
    "settings",
    "shared_prompts",
    "wrote",
]
