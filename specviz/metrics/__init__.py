"""Every number about a run, defined once.

`Tally` folds events, its `summary()` gives `Metrics` at any moment; `measure(events)` does both.
"""

from specviz.metrics import acceptance, common  # their metrics register, in the order of the JSON
from specviz.metrics.against_plain import PlainSpeed
from specviz.metrics.common import GeometricFit, geometric_fit, plain_speed
from specviz.metrics.draft_confidence import ConfidenceBand
from specviz.metrics.estimate import Estimate, delta_interval, wilson_interval, z_of_looks
from specviz.metrics.registry import METRICS, Metrics, metric, ratio, unregister
from specviz.metrics.replay_rules import SameDraft
from specviz.metrics.tally import Tally, measure

__all__ = [
    "METRICS",
    "ConfidenceBand",
    "Estimate",
    "GeometricFit",
    "Metrics",
    "PlainSpeed",
    "SameDraft",
    "Tally",
    "acceptance",
    "common",
    "delta_interval",
    "geometric_fit",
    "measure",
    "metric",
    "plain_speed",
    "ratio",
    "unregister",
    "wilson_interval",
    "z_of_looks",
]
