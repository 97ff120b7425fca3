"""Whether a target and a draft can work together, told from their files alone: no weight is loaded, nothing is run."""

from specviz.check.findings import PairFinding, fault_of
from specviz.check.kinds import kind_of_draft
from specviz.check.pair import check_pair
from specviz.check.serve import parse_serve
from specviz.check.side import ModelSide, read_side

__all__ = ["ModelSide", "PairFinding", "check_pair", "fault_of", "kind_of_draft", "parse_serve", "read_side"]
