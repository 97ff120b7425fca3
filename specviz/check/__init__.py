"""Whether a target and a draft can work together, told from their files alone: no weight is loaded, nothing is run."""

from specviz.check.findings import PairFinding, fault_of
from specviz.check.pair import check_pair
from specviz.check.side import ModelSide, read_side

__all__ = ["ModelSide", "PairFinding", "check_pair", "fault_of", "read_side"]
