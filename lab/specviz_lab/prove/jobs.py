"""What to prove: which verifiers, on which golden cases, in which layouts.

With gamma 2 and 3, every verifier in every layout it is meant for. How long an enumeration takes is told by its drafts:
the vocabulary to the power of the drawn tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specviz.errors import SpecvizError
from specviz.probability.plan import Verifier
from specviz.probability.table_models import CASES, Problem
from specviz.registry import pick as named
from specviz.verifiers import all_verifiers
from specviz_lab.prove.known import TREE, Golden, golden
from specviz_lab.prove.layouts import LAYOUTS, DraftLayout, meant_for, misfit

GAMMAS = (2, 3)
_ABOUT = {
    "A": "independent tokens, p = (1/3, 2/3), q = (2/3, 1/3)",
    "B": "first-order Markov, every entry positive",
    "C": "first-order Markov with zeros in both, as after top-k",
}
QUICK, MOST = 100, 5_000  # drafts of a proof: far below a second, and below a minute


@dataclass(frozen=True, slots=True)
class Subject:
    """Tables with a name. `case`: of the golden vectors."""

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
    def n_drafts(self) -> int:
        """The most drafts there can be."""
        return int(self.problem.vocab ** self.layout.n_drawn(self.problem))

    def within(self, most: int) -> bool:
        """Whether it has at most so many drafts, is of one chain, or has a golden number."""
        return self.n_drafts <= most or self.layout.name in ("chain", "shared") or self.golden is not None

    def __str__(self) -> str:
        return f"{self.verifier.name} ({self.subject.title}, {self.layout.words(self.problem)})"

    @property
    def golden(self) -> Golden | None:
        """The number it must come to."""
        return golden(self.subject.case, self.verifier.name, self.layout.name, self.problem)


def pick(names: Sequence[str]) -> list[Verifier]:
    """Verifiers by the names asked for, each once; all of them for no name."""
    known = all_verifiers()
    return [named("verifier", name, known) for name in dict.fromkeys(names or known)]


def case_subjects(cases: Sequence[str], gamma: int | None, candidates: int | None, replacement: bool) -> list[Subject]:
    """The golden cases, with gamma 2 and 3 or the one asked for. Case B, gamma 2 has a tree as well, `TREE`."""
    out = []
    for case in cases:
        for length in GAMMAS if gamma is None else (gamma,):
            tree = TREE if (case, length, candidates) == ("B", 2, None) else None
            problem = replace(CASES[case], gamma=length, tree=tree, replacement=replacement)
            problem = replace(problem, candidates=candidates or 1)
            out.append(Subject(f"case {case}, gamma {length}", problem, case, f", {_ABOUT[case]}"))
    return out


def case_jobs(names: Sequence[str], subjects: Sequence[Subject], layout: str | None) -> list[Job]:
    """Proofs on the golden cases, in one layout or in all that fit, however many drafts they have.

    SpecvizError for names that do not exist, and for a named verifier that cannot judge the layout asked for.
    """
    jobs = []
    for subject in subjects:
        for verifier in pick(names):
            # A rule that says it is not lossless is no claimant: it stands among the controls.
            if not names and not verifier.lossless:
                continue
            for kind in [layout] if layout is not None else meant_for(verifier, subject.problem):
                job = Job(subject, verifier, named("layout", kind, LAYOUTS))
                why = misfit(verifier, job.problem, job.layout)
                if why and names:
                    raise SpecvizError(
                        f"{verifier.name} cannot judge the draft ({job.layout.words(job.problem)}): {why}"
                    )
                jobs += [] if why else [job]
    return jobs
