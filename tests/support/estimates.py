"""Estimates over whole columns in numpy, as the running sums of `specviz.metrics` are held against."""

from typing import Any

import numpy as np

from specviz.metrics import Estimate, delta_interval
from specviz.metrics.estimate import settled

Column = Any  # numpy [rows]


def ratio(top: Column, bottom: Column, units: Column, *, most: float | None = None) -> Estimate | None:
    """`sum(top) / sum(bottom)` `[rows]`, with the delta interval over the units that the rows belong to.

    Null when the lower sum is 0. The interval of a quantity that cannot be negative, or above `most`, is cut there.
    A share (`most` 1) whose units are all equal gets Wilson's interval, every unit one trial: what is drafted in one
    round is kept or lost together, so its tokens are no trials of their own.
    """
    below = bottom.sum()
    if not below:
        return None
    _, where = np.unique(units, return_inverse=True)
    tops, bottoms = np.bincount(where, top.astype(float)), np.bincount(where, bottom.astype(float))
    counting = int((bottoms > 0).sum())
    return settled(float(top.sum() / below), delta_interval(tops, bottoms), len(tops), counting, most=most)


def mean(values: list[int]) -> Estimate | None:
    """The mean with the delta interval, each value a unit."""
    column = np.array(values, dtype=float)
    return ratio(column, np.ones(len(values)), np.arange(len(values))) if values else None
