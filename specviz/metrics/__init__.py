"""Every number about a run, defined once (contract.md 6).

`Tally` folds events, its `summary()` gives `Metrics` at any moment; `measure(events)` does both.
"""

from specviz.metrics import acceptance, common  # their metrics register, in the order of the JSON
from specviz.metrics.common import GeometricFit, geometric_fit
from specviz.metrics.estimate import Estimate, delta_interval, wilson_interval
from specviz.metrics.registry import METRICS, Metrics, metric, ratio, unregister
from specviz.metrics.replay_rules import SameDraft
from specviz.metrics.tally import Tally, measure

__all__ = [
    "METRICS",
    "Estimate",
    "GeometricFit",
    "Metrics",
    "SameDraft",
    "Tally",
    "acceptance",
    "common",
    "delta_interval",
    "geometric_fit",
    "measure",
    "metric",
    "ratio",
    "unregister",
    "wilson_interval",
]
