"""What is said of a whole run in one line, and what stands out in it. Worked out by `specviz.judge`, worded by
`specviz.view.judge`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specviz.judge.evidence import LEAST_ROUNDS
from specviz.judge.finding import Finding
from specviz.numerals import plural
from specviz.view.words.palette import Tone

if TYPE_CHECKING:
    from specviz.metrics import ConfidenceBand, Metrics


@dataclass(frozen=True, slots=True)
class RunCard:
    """Of a run that another engine made: what decided there and what is known of it. Escaped text.

    `tone`: of its promise, as in `RunInfo`. `rows`: label and words. `violations`: identities that do not hold.
    """

    title: str
    tone: Tone
    rows: tuple[tuple[str, str], ...]
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunJudgement:
    """A run in one line. Every part is escaped text; empty where it is not known yet."""

    tokens: str  # "6.4 ±.8 tokens a round"
    speed: str  # "1.9× plain decoding"
    basis: str  # "measured" or "modelled"
    basis_words: str  # how the speed-up came about, in a sentence
    findings: tuple[Finding, ...]
    confidence: Sequence["ConfidenceBand"] = ()
    n_rounds: int = 0  # that it rests on
    card: RunCard | None = None  # where specviz did not make the run

    @property
    def speed_text(self) -> str:
        """`1.9× plain decoding (measured)`."""
        return f"{self.speed} ({self.basis})" if self.basis else self.speed

    @property
    def found(self) -> str:
        """`2 findings`, `nothing stands out`; before there are rounds enough for any, that."""
        if self.findings:
            return plural(len(self.findings), "finding")
        few = self.n_rounds < LEAST_ROUNDS
        return f"{plural(self.n_rounds, 'round')}: too few for findings" if few else "nothing stands out"

    @property
    def nothing(self) -> str:
        """The checks that a run without findings passed, in a sentence."""
        if self.n_rounds < LEAST_ROUNDS:
            return f"{plural(self.n_rounds, 'round')}: too few for findings, which begin with {LEAST_ROUNDS}."
        pays = " or a draft dearer than it pays." if self.basis else "; whether it pays is not known."
        return f"Nothing stands out: no rule found a dead draft, a cliff, overconfidence{pays}"

    @property
    def line(self) -> str:
        """The whole line."""
        headlines = "; ".join(finding.headline for finding in self.findings)
        parts = (self.tokens, self.speed_text, f"{self.found}: {headlines}" if headlines else self.found)
        return " · ".join(part for part in parts if part)


NO_JUDGEMENT = RunJudgement("", "", "", "", ())


@dataclass(frozen=True, slots=True)
class CountedRun:
    """What is known of a recording without reading its rounds again. `panels`: what each counted, by its id."""

    metrics: "Metrics"
    judgement: RunJudgement
    panels: Mapping[str, bytes] = field(default_factory=dict)
