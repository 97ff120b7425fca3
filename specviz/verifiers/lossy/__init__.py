"""Rules of engines that are not lossless: read and asked of recorded rounds, never run here.

One file each with a `RULE`, found by looking at this folder.
"""

from functools import cache

from specviz.registry import discover
from specviz.verifiers.lossy._rule import LossyRule, RowComparison

__all__ = ["LossyRule", "RowComparison", "lossy_rules"]


@cache
def lossy_rules() -> dict[str, LossyRule]:
    """Every such rule by name, sorted."""
    return discover(__name__, LossyRule)
