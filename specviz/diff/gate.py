"""`--fail-if`: conditions of a regression gate, in a grammar of one line.

    METRIC drops|rises|changes [by] N%|N [surely]      text differs

METRIC: `block_efficiency`, `acceptance`, `tokens_per_s`, `position@K`, `depth@K`. With `%` the change is relative to
the first set. `surely`: the whole 95 % interval has to lie beyond; without it the value alone decides.
Several conditions stand behind each other with `;` between them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.diff.measure import PLACED, WHOLE, DiffReport
from specviz.errors import SpecvizError, suggestion

_VERBS = {"drops": -1, "rises": 1, "changes": 0}
_RULE = re.compile(
    r"(?P<metric>\S+)\s+(?P<verb>\S+)\s+(?:by\s+)?(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>%?)(?:\s+(?P<sure>surely))?"
)
_TEXT = "text differs"
_EXAMPLE = "write 'block_efficiency drops 5%', 'position@1 drops 0.05 surely' or 'text differs'"


@dataclass(frozen=True, slots=True)
class GateRule:
    """One condition. `least`: the size of the change, as a share or absolute; `text`: as it was written."""

    text: str
    metric: str = ""
    sign: int = 0
    least: float = 0.0
    relative: bool = True
    surely: bool = False

    def broken(self, report: DiffReport) -> bool:
        """Whether the gate closes. Raises SpecvizError where the sets cannot say."""
        if self.text == _TEXT:
            if not report.n_paired:
                raise SpecvizError(f"--fail-if '{self.text}': the sets have no prompt in common")
            return bool(report.partings)
        change = report.find(self.metric)
        value = None if change is None else change.ratio if self.relative else change.difference
        if change is None or value is None:
            raise SpecvizError(f"--fail-if '{self.text}': {self.metric} was not counted in both sets")
        ends = (value, value)
        if self.surely:
            spread = change.interval if self.relative else change.difference_interval
            if spread is None:
                raise SpecvizError(f"--fail-if '{self.text}': too few units for an interval; leave 'surely' out")
            ends = spread
        drops, rises = ends[1] <= -self.least, ends[0] >= self.least
        return drops if self.sign < 0 else rises if self.sign > 0 else drops or rises


def parse_rules(texts: Sequence[str]) -> list[GateRule]:
    """The conditions of every text. Raises SpecvizError with the nearest right word."""
    return [_rule(" ".join(part.split())) for text in texts for part in text.split(";")]


def _rule(text: str) -> GateRule:
    if text == _TEXT:
        return GateRule(text)
    found = _RULE.fullmatch(text)
    if found is None:
        raise SpecvizError(f"--fail-if '{text}' is no condition; {_EXAMPLE}")
    metric, verb = found["metric"], found["verb"]
    name, at, place = metric.partition("@")
    if (name not in PLACED or not place.isdecimal() or place == "0") if at else name not in WHOLE:
        known = (*WHOLE, *(f"{each}@1" for each in PLACED))
        raise SpecvizError(f"--fail-if '{text}': no metric '{metric}'{suggestion(metric, known)}")
    if verb not in _VERBS:
        raise SpecvizError(f"--fail-if '{text}': '{verb}' is no change{suggestion(verb, _VERBS)}")
    least = float(found["number"])
    if not least:
        raise SpecvizError(f"--fail-if '{text}': name a change above 0")
    relative = found["unit"] == "%"
    return GateRule(text, metric, _VERBS[verb], least / 100 if relative else least, relative, found["sure"] is not None)
