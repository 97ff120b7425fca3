"""How long an enumeration will take, before it is begun: drafts times outcomes times the texts rounds start from.

The seconds are a rough measure of one core of a small machine; they decide what is refused, so they lean to the high
side. A `PrefixTable` remembers everything, which costs a round per text in place of one per last token.
"""

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from specviz.probability.plan import Verifier
from specviz.probability.table_models import Iid, Markov, PrefixTable, Problem, Table
from specviz.prove.layouts import Layout
from specviz.prove.proof import memory

A_LOT = 60.0  # seconds
_PATH, _DRAWN = 20e-6, 15e-6  # seconds for a path, and for each drawn token on it
_TEXT = 10e-6  # seconds for a text of the target's law
_SHARED = 3  # noise that outlives its round keeps texts apart that would be one


@dataclass(frozen=True, slots=True)
class Cost:
    """An estimate."""

    n_paths: float
    seconds: float

    @property
    def is_too_much(self) -> bool:
        """Minutes rather than seconds."""
        return self.seconds > A_LOT


def cost(problem: Problem, layout: Layout, verifier: Verifier) -> Cost:
    """What proving one verifier on this layout will cost."""
    n_drawn, options = layout.n_drawn(problem), _options(problem.p)
    n_texts = _power(options, problem.gamma + 1)
    outcomes = (problem.gamma + 1) * options
    if verifier.carries:  # a block may go on for gamma tokens, each of them open
        outcomes = max(outcomes, n_texts / options)
    n_paths = _power(_options(problem.q), n_drawn) * outcomes * (1 + _starts(problem))
    each = _PATH + _DRAWN * n_drawn
    return Cost(max(n_paths, n_texts), n_paths * each * (_SHARED if layout.shared else 1) + n_texts * _TEXT)


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except OverflowError:
        return math.inf


def _options(table: Table) -> float:
    """Tokens with weight in a row, on average."""
    return fmean(np.count_nonzero(row) for row in rows(table))


def rows(table: Table) -> list[Any]:
    """All rows a table was made of."""
    if isinstance(table, Iid):
        return [table.probs]
    if isinstance(table, Markov):
        return [table.init, *table.trans]
    assert isinstance(table, PrefixTable), table
    return [*table.rows.values(), *([] if table.default is None else [table.default])]


def _starts(problem: Problem) -> float:
    """Texts a round of the chained law starts after that are not the same to it."""
    reach, options = memory(problem), _options(problem.p)
    deepest = problem.gamma if reach is None else min(reach, problem.gamma)
    return float(sum(options**depth for depth in range(deepest + 1)))
