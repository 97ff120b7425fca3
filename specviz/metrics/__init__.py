"""Every number about a run, defined once (contract.md 6).

`Tally` folds events, its `summary()` gives `Metrics` at any moment; `measure(events)` does both.
"""

from specviz.metrics.estimate import Estimate, delta_interval, wilson_interval
from specviz.metrics.geometric import GeometricFit, geometric_fit
from specviz.metrics.registry import Metrics
from specviz.metrics.replay_rules import SameDraft
from specviz.metrics.tally import Tally, measure

__all__ = [
    "Estimate",
    "GeometricFit",
    "Metrics",
    "SameDraft",
    "Tally",
    "delta_interval",
    "geometric_fit",
    "measure",
    "wilson_interval",
]
