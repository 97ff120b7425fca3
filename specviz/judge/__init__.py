"""One judge for everything: `judge(evidence)` says what stands out in rounds, counts, a pair of folders, or a mix.

A finding leads to one of the sixteen faults of `specviz.check.findings.FAULTS`; commands, screens and documents take
their findings from here.
"""

from specviz.judge.evidence import CountsLooked, Evidence, RoundsCounted
from specviz.judge.finding import Certainty, EvidencePlace, Finding
from specviz.judge.judging import judge

__all__ = ["Certainty", "CountsLooked", "Evidence", "EvidencePlace", "Finding", "RoundsCounted", "judge"]
