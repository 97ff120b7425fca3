"""What to prove: which verifiers, on which tables, in which layouts.

Without tables of the user's own: the golden cases with gamma 2 and 3, every verifier in every layout it is meant for.
Layouts of which an enumeration is long are left out there, unless a golden number waits for them; asked for, they run.

How long an enumeration takes is estimated before it is begun: drafts times outcomes times the texts rounds start from.
The seconds are a rough measure of one core of a small machine; they decide what is refused, so they lean to the high
side. A `PrefixTable` remembers everything, which costs a round per text in place of one per last token.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from specviz.errors import SpecvizError
from specviz.probability.plan import Verifier
from specviz.probability.table_models import CASES, Iid, Markov, PrefixTable, Problem, Table
from specviz.prove.known import TREE, Golden, golden
from specviz.prove.layouts import DraftLayout, get_layout, layout_of, meant_for, misfit
from specviz.prove.proof import memory
from specviz.registry import pick as named
from specviz.verifiers import all_verifiers

GAMMAS = (2, 3)
_ABOUT = {
    "A": "independent tokens, p = (1/3, 2/3), q = (2/3, 1/3)",
    "B": "first-order Markov, every entry positive",
    "C": "first-order Markov with zeros in both, as after top-k",
}
_QUICK, _EXACT = 1.0, 20.0  # seconds
_UNTOLD, _YEAR = 1e12, 365 * 86400.0  # paths, seconds
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


def cost(problem: Problem, layout: DraftLayout, verifier: Verifier) -> Cost:
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


@dataclass(frozen=True, slots=True)
class Subject:
    """Tables with a name. `case`: of the golden vectors, "" for tables of a file."""

    title: str
    problem: Problem
    case: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One proof to make."""

    subject: Subject
    verifier: Verifier
    layout: DraftLayout

    @property
    def place(self) -> tuple[str, str, str]:
        """What tells it from other jobs."""
        return self.subject.title, self.verifier.name, self.layout.name

    @property
    def problem(self) -> Problem:
        """The tables, with as many candidates as the layout needs."""
        problem = self.subject.problem
        return replace(problem, candidates=2) if self.layout.several and problem.candidates < 2 else problem

    @property
    def cost(self) -> Cost:
        return cost(self.problem, self.layout, self.verifier)

    def tables(self, floats: bool) -> Problem:
        """The tables as they are computed with: in float64 when asked for, or when fractions would take too long."""
        return self.problem.in_floats() if floats or self.cost.seconds > _EXACT else self.problem

    @property
    def golden(self) -> Golden | None:
        """The number it must come to."""
        return golden(self.subject.case, self.verifier.name, self.layout.name, self.problem)


def pick(names: Sequence[str]) -> list[Verifier]:
    """Verifiers by the names asked for, each once; all of them for no name."""
    known = all_verifiers()
    return [named("verifier", name, known) for name in dict.fromkeys(names or known)]


def case_subjects(cases: Sequence[str], gamma: int | None, candidates: int | None, replacement: bool) -> list[Subject]:
    """The golden cases, with gamma 2 and 3 or the one asked for. Case B, gamma 2 has the tree of section 7.5."""
    out = []
    for case in cases:
        for length in GAMMAS if gamma is None else (gamma,):
            tree = TREE if (case, length, candidates) == ("B", 2, None) else None
            problem = replace(CASES[case], gamma=length, tree=tree, replacement=replacement)
            problem = replace(problem, candidates=candidates or 1)
            out.append(Subject(f"case {case}, gamma {length}", problem, case, f", {_ABOUT[case]}"))
    return out


def case_jobs(names: Sequence[str], subjects: Sequence[Subject], layout: str | None) -> list[Job]:
    """Proofs on the golden cases, long ones among them; `in_seconds` leaves those out."""
    jobs = []
    for subject in subjects:
        for verifier in pick(names):
            # A rule that says it is not lossless is no claimant: it stands among the controls.
            if not names and not verifier.lossless:
                continue
            shown = [layout] if layout is not None else meant_for(verifier, subject.problem)
            jobs += [Job(subject, verifier, get_layout(each)) for each in shown]
    return _fitting(jobs, bool(names))


def in_seconds(jobs: Sequence[Job], named: bool) -> list[Job]:
    """The jobs without long ones over several candidates, unless a golden number waits for them.

    A verifier that the user named and that would be left without any keeps its shortest.
    """
    out = []
    for job in jobs:
        rivals = [j for j in jobs if j.place[:2] == job.place[:2]]
        only = named and min(rivals, key=_seconds) is job and not any(_is_quick(j) for j in rivals)
        if _is_quick(job) or only:
            out.append(job)
    return out


def _seconds(job: Job) -> float:
    return job.cost.seconds


def _is_quick(job: Job) -> bool:
    return job.layout.name in ("chain", "shared") or bool(job.golden) or job.cost.seconds < _QUICK


def table_jobs(names: Sequence[str], subject: Subject, layout: str | None) -> list[Job]:
    """Proofs on tables of a file, in the layout the file or the user asks for."""
    asked = get_layout(layout) if layout is not None else layout_of(subject.problem)
    return _fitting([Job(subject, verifier, asked) for verifier in pick(names)], bool(names))


def left_out(jobs: Sequence[Job], subject: Subject, layout: str | None) -> Iterator[str]:
    """A line for each reason why verifiers cannot judge the drafts of these tables."""
    done = {job.verifier.name for job in jobs}
    asked = get_layout(layout) if layout is not None else layout_of(subject.problem)
    reasons: dict[str, list[str]] = {}
    for name, verifier in all_verifiers().items():
        why = misfit(verifier, Job(subject, verifier, asked).problem, asked)
        if name not in done and why:
            reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        yield f"left out: {', '.join(names)}: {why}"


def _fitting(jobs: Sequence[Job], named: bool) -> list[Job]:
    """The jobs whose verifier can judge their draft; a misfit the user named is refused."""
    out = []
    for job in jobs:
        why = misfit(job.verifier, job.problem, job.layout)
        if why is None:
            out.append(job)
        elif named:
            raise SpecvizError(f"{job.verifier.name} cannot judge the draft ({job.layout.words(job.problem)}): {why}")
    return out


def refuse_long(jobs: Sequence[Job]) -> None:
    """SpecvizError when a proof would take minutes."""
    worst = max(jobs, key=_seconds, default=None)
    if worst is not None and worst.cost.is_too_much:
        n = worst.cost.n_paths
        paths = f"some {n:,.0f}" if n < _UNTOLD else "more than a million million"
        raise SpecvizError(
            f"{worst.verifier.name} on {worst.subject.title} ({worst.layout.words(worst.problem)}) has "
            f"{paths} paths, {_duration(worst.cost.seconds)}; "
            f"lower --gamma, --candidates or the vocabulary, or add --long to enumerate them all the same"
        )


def _duration(seconds: float) -> str:
    if seconds > _YEAR:
        return "more than a year"
    if seconds < 2 * A_LOT:
        return f"about {seconds:.0f} seconds"
    return f"about {seconds / 60:,.0f} minutes" if seconds < 7200 else f"about {seconds / 3600:,.0f} hours"
