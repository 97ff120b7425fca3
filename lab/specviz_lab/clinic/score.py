"""What the judge makes of the cases: its first answer on each, held against what was planted.

An answer is the first finding that names a fault and does not say that it cannot tell. Precision: the share of answers
that name the planted fault; one on a healthy twin is wrong. Recall: the share of planted cases that are named.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from specviz.judge import Certainty, Finding, judge
from specviz_lab.clinic.case import Case, cases_in
from specviz_lab.clinic.levels import LEVELS, Level, evidence_of


@dataclass(frozen=True, slots=True)
class Answer:
    """To one case at a level. `fault` 0: none was named. `further`: what findings behind the first name."""

    case: Case
    level: Level
    fault: int
    certainty: Certainty | None
    detector: str
    further: tuple[int, ...]
    sure: tuple[str, ...]  # detectors of findings of a fault that say sure

    @property
    def right(self) -> bool:
        """Whether it names what was planted."""
        return self.case.ill and self.fault == self.case.fault


@dataclass(frozen=True, slots=True)
class Score:
    """Of some answers."""

    n_right: int
    n_named: int
    n_planted: int
    n_sure_twins: int

    @classmethod
    def of(cls, answers: Iterable[Answer]) -> "Score":
        """Counted."""
        every = list(answers)
        return cls(
            sum(answer.right for answer in every),
            sum(answer.fault > 0 for answer in every),
            sum(answer.case.ill for answer in every),
            sum(bool(answer.sure) for answer in every if not answer.case.ill),
        )

    @property
    def precision(self) -> float | None:
        """None where nothing was named."""
        return self.n_right / self.n_named if self.n_named else None

    @property
    def recall(self) -> float | None:
        """None where nothing was planted."""
        return self.n_right / self.n_planted if self.n_planted else None


def answer_of(case: Case, level: Level, findings: Sequence[Finding]) -> Answer:
    """What was said first, and what else."""
    named = [finding for finding in findings if finding.fault and finding.certainty != "cannot tell"]
    first = named[0] if named else None
    return Answer(
        case,
        level,
        first.fault if first else 0,
        first.certainty if first else None,
        first.detector if first else "",
        tuple(dict.fromkeys(finding.fault for finding in named[1:])),
        tuple(finding.detector for finding in named if finding.certainty == "sure"),
    )


def answers(folders: Sequence[Path], fault: int | None = None) -> list[Answer]:
    """The judge's to every case in the folders, at every level. Raises SpecvizError for what cannot be read."""
    every = [place for folder in folders for place in cases_in(folder)]
    return [
        answer_of(case, level, judge(evidence_of(path, level)))
        for case, path in sorted(every, key=lambda place: place[0].name)
        if fault is None or case.fault == fault
        for level in LEVELS
    ]
