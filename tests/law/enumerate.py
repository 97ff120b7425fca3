"""The enumerating `Draws`, which live in production: `specviz prove` runs them."""

from specviz.prove.enumerate import (
    SLIVER,
    Branch,
    BranchKeys,
    Decision,
    Key,
    Known,
    Law,
    Uniform,
    deviation,
    law_of,
    paths,
    total_variation,
)
from specviz.prove.rounds import Play, chained

__all__ = [
    "SLIVER", "Branch", "BranchKeys", "Decision", "Key", "Known", "Law", "Play", "Uniform", "chained",
    "deviation", "law_of", "paths", "total_variation",
]  # fmt: skip
