"""`--fail-if`: conditions of a regression gate, in a grammar of one line.

    METRIC drops|rises|changes [by] N%|N [surely]      text differs

METRIC: a number of `specviz stats` by its name there, one by place with the place behind it: `survival@3`. Older names
go on meaning what is nearest (`ALIASES`). With `%` the change is relative to the first set. `surely`: the whole 95 %
interval has to lie beyond; without it the value alone decides. Several conditions stand behind each other with `;`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from specviz.errors import SpecvizError, suggestion
from specviz.view.compare.build import SideBySide
from specviz.view.compare.figures import ROWS, SERIES
from specviz.view.compare.texts import NOT_ON_RECORD

ALIASES = {
    "acceptance": "draft_acceptance_rate",
    "tokens_per_s": "tokens_per_second",
    "position": "survival",
    "depth": "position_acceptance",
}
WHOLE, PLACED = [name for name, _, _ in ROWS], [name for name, _ in SERIES]
_VERBS = {"drops": -1, "rises": 1, "changes": 0}
_RULE = re.compile(
    r"(?P<metric>\S+)\s+(?P<verb>\S+)\s+(?:by\s+)?(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>%?)(?:\s+(?P<sure>surely))?"
)
TEXT = "text differs"
_EXAMPLE = "write 'block_efficiency drops 5%', 'survival@1 drops 0.05 surely' or 'text differs'"


@dataclass(frozen=True, slots=True)
class GateRule:
    """One condition. `least`: the size of the change, as a share or absolute; `text`: as it was written."""

    text: str
    metric: str = ""
    sign: int = 0
    least: float = 0.0
    relative: bool = True
    surely: bool = False

    def broken(self, report: SideBySide) -> str | None:
        """Why the gate closes, by the first set for which it does; None: it does not. Raises SpecvizError where the
        sets cannot say."""
        judged, lanes = self._text_broken if self.text == TEXT else self._moved, report.text.lanes[1:]
        for k, lane in enumerate(lanes):
            why = judged(report, k)
            if why is not None:
                return why if len(lanes) == 1 else f"{lane.letter} {why}"
        return None

    def _moved(self, report: SideBySide, other: int) -> str | None:
        row = report.numbers.find(self.metric)
        beside = None if row is None else row.beside[other + 1]
        change = None if beside is None else beside.ratio if self.relative else beside.difference
        if change is None:
            raise SpecvizError(f"--fail-if '{self.text}': {self.metric} was not counted in both sets")
        # Where all of many units are alike no spread was seen, and the value is what there is to go by.
        ends = (change.value, change.value) if change.why_unknown == "alike" else change.interval
        return self.why(change.value, ends)

    def why(self, value: float, interval: tuple[float, float] | None) -> str | None:
        """The change, where it is as large as the rule asks; None where it is not. Raises SpecvizError where the rule
        asks for an interval and there is none."""
        if not self._reached(value, value):
            return None
        if self.surely and interval is None:
            raise SpecvizError(f"--fail-if '{self.text}': too few units for an interval; leave 'surely' out")
        ends = interval if self.surely and interval is not None else (value, value)
        words = f"{value:+.1%}" if self.relative else f"{value:+.3f}"
        return words if self._reached(*ends) else None

    def _text_broken(self, report: SideBySide, other: int) -> str | None:
        texts = report.texts[other]
        n = texts.n_same + len(texts.partings)
        if texts.n_unknown:
            return f"{NOT_ON_RECORD}, or their prompts, of {texts.n_unknown}"
        if not n:
            raise SpecvizError(f"--fail-if '{TEXT}': the sets have no prompt in common")
        return f"{len(texts.partings)} of {n} part" if texts.partings else None

    def _reached(self, low: float, high: float) -> bool:
        drops, rises = high <= -self.least, low >= self.least
        return drops if self.sign < 0 else rises if self.sign > 0 else drops or rises


def parse_rules(texts: Sequence[str]) -> list[GateRule]:
    """The conditions of every text. Raises SpecvizError with the nearest right word."""
    return [_rule(" ".join(part.split())) for text in texts for part in text.split(";")]


def _rule(text: str) -> GateRule:
    if text == TEXT:
        return GateRule(text)
    match = _RULE.fullmatch(text)
    if match is None:
        raise SpecvizError(f"--fail-if '{text}' is no condition; {_EXAMPLE}")
    metric, verb = match["metric"], match["verb"]
    name, at, place = metric.partition("@")
    name = ALIASES.get(name, name)
    if (name not in PLACED or not place.isdecimal() or place == "0") if at else name not in WHOLE:
        placed = (*PLACED, *(old for old, new in ALIASES.items() if new in PLACED))
        whole = (*WHOLE, *(old for old, new in ALIASES.items() if new in WHOLE))
        known = (*whole, *(f"{placed_name}@1" for placed_name in placed))
        raise SpecvizError(f"--fail-if '{text}': no metric '{metric}'{suggestion(metric, known)}")
    if verb not in _VERBS:
        raise SpecvizError(f"--fail-if '{text}': '{verb}' is no change{suggestion(verb, _VERBS)}")
    least = float(match["number"])
    if not least:
        raise SpecvizError(f"--fail-if '{text}': name a change above 0")
    relative = match["unit"] == "%"
    return GateRule(
        text,
        f"{name}{at}{place}",
        _VERBS[verb],
        least / 100 if relative else least,
        relative,
        match["sure"] is not None,
    )
