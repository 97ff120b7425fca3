"""`specviz prove`: verifiers against the target's law, by enumeration on table models. No model and no torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from specviz.cli import FAILED, OK
from specviz.cli.flags import JSON, flag, text
from specviz.cli.measure.proofs import print_proofs, print_trace, progress
from specviz.cli.printing import echo_json, narrate
from specviz.errors import SpecvizError
from specviz.prove import worked
from specviz.prove.controls import CONTROLS, Caught, WrongRule, catch, registered
from specviz.prove.files import MOST, read_problem
from specviz.prove.jobs import (
    Job,
    Subject,
    case_jobs,
    case_subjects,
    in_seconds,
    left_out,
    pick,
    refuse_long,
    table_jobs,
)
from specviz.prove.proof import prove
from specviz.prove.report import Done, as_object, control_object, verdict
from specviz.text import running

CASES = ("A", "B", "C", "D")


@click.command("prove")
@click.argument("verifiers", metavar="[VERIFIER]...", nargs=-1)
@click.option("--case", "cases", multiple=True, metavar="A|B|C|D", help="A golden case, or several; all of A, B, C.")
@click.option("--tables", metavar="FILE", type=click.Path(path_type=Path), help="Tables of your own, as JSON.")
@click.option("--gamma", type=click.IntRange(0, MOST), metavar="N", help="Tokens to draft; 2 and 3 on the cases.")
@text("--layout", "NAME", "chain, shared, parallel, caterpillar, tree or drawn_tree.")
@click.option(
    "--candidates", type=click.IntRange(1, MOST), metavar="K", help="Candidates, or children of a tree's node."
)
@flag("--distinct", "Draw siblings without replacement.")
@flag("--floats", "Compute in float64, as in a session, and not in fractions.")
@flag("--long any_length", "Enumerate also what takes minutes.")
@JSON
def command(
    verifiers: tuple[str, ...],
    cases: tuple[str, ...],
    tables: Path | None,
    gamma: int | None,
    layout: str | None,
    candidates: int | None,
    distinct: bool,
    floats: bool,
    any_length: bool,
    as_json: bool,
) -> int:
    """Prove that verifiers keep the target's law, and show wrong ones failing.

    Every draft, every accept or reject and every resampled token is followed and summed with its probability, in
    fractions: nothing is sampled. Without arguments all verifiers are proved on three small golden cases, and wrong
    rules are enumerated beside them. Exit code 1 when a verifier that claims to be lossless is not.

    \b
    Tables: {"vocab": V, "gamma": g, "p": TABLE, "q": TABLE, "candidates": K,
             "layout": "parallel" or "caterpillar", "replacement": true, "tree": [[ids], ..]}
    TABLE:  {"type": "iid", "probs": [..]}, {"type": "markov", "init": [..], "trans": [[..], ..]}
            or {"type": "prefix", "rows": {"": [..], "0,2": [..]}, "default": [..]}
    """
    request = ProofRequest(verifiers, _cases(cases, tables), tables, gamma, layout, candidates, not distinct, floats)
    if request.cases == ("D",):
        request.refuse_sizes()
        return show_trace(request.verifiers, as_json)
    jobs = request.jobs(any_length)
    done, caught = _enumerate(jobs, (*registered(), *CONTROLS) if request.is_whole else (), floats)
    for line in request.remarks(jobs):  # only now: tables may end before the enumeration does
        narrate(f"specviz: {running(line)}")
    if any(d.proof.chained_tv is None for d in done):
        narrate("specviz: block after block was not checked, the tables have no rows for a second block")
    conclusion = verdict(done, caught)
    if as_json:
        echo_json(request.as_object(done, caught))
        for good, line in conclusion.lines:
            if not good:
                narrate(f"specviz: {running(line)}")
    else:
        print_proofs(done, caught, conclusion)
    return OK if conclusion.holds else FAILED


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """What was asked for."""

    verifiers: tuple[str, ...]
    cases: tuple[str, ...]
    tables: Path | None
    gamma: int | None
    layout: str | None
    candidates: int | None
    replacement: bool
    floats: bool

    @property
    def is_whole(self) -> bool:
        """Whether nothing was singled out: then the controls belong to it."""
        asked = (self.verifiers, self.tables, self.gamma, self.layout, self.candidates)
        return self.cases == CASES[:3] and not any(asked) and self.replacement

    def refuse_sizes(self) -> None:
        """SpecvizError when something was asked for that case D does not have."""
        given = {"--gamma": self.gamma, "--layout": self.layout, "--candidates": self.candidates}
        flags = [flag for flag, value in given.items() if value is not None]
        flags += ["--distinct"] * (not self.replacement) + ["--floats"] * self.floats
        if flags:
            raise SpecvizError(f"case D is one given draft, a chain of 6 tokens, in fractions; leave out {flags[0]}")

    def jobs(self, any_length: bool) -> list[Job]:
        """The proofs to make. SpecvizError for what does not exist, does not fit or takes minutes."""
        if self.tables is not None:
            jobs = table_jobs(self.verifiers, self._subject(self.tables), self.layout)
        else:
            subjects = case_subjects(self.cases, self.gamma, self.candidates, self.replacement)
            jobs = case_jobs(self.verifiers, subjects, self.layout)
            jobs = jobs if self.layout is not None or any_length else in_seconds(jobs, bool(self.verifiers))
        if not jobs:
            raise SpecvizError("no verifier can judge such a draft; name another --layout")
        if not any_length:
            refuse_long(jobs)
        return jobs

    def remarks(self, jobs: Sequence[Job]) -> Iterator[str]:
        """What is not proved, and why."""
        if self.tables is not None:
            if not self.verifiers:
                yield from left_out(jobs, self._subject(self.tables), self.layout)
            return
        subjects = case_subjects(self.cases, self.gamma, self.candidates, self.replacement)
        made = {job.place for job in jobs}
        longer = [job for job in case_jobs(self.verifiers, subjects, self.layout) if job.place not in made]
        if longer:
            layouts = ", ".join(dict.fromkeys(job.layout.name for job in longer))
            yield f"left out for time: {len(longer)} longer proofs ({layouts}); --layout NAME makes them, --long all"

    def as_object(self, done: Sequence[Done], caught: Sequence[Caught]) -> dict[str, Any]:
        """By verifier for tables of a file; a list of proofs for the golden cases, where a verifier has several."""
        if self.tables is not None:
            return {d.proof.verifier: as_object(d) for d in done}
        proofs = [{"case": d.job.subject.case, "verifier": d.proof.verifier, **as_object(d)} for d in done]
        return {"proofs": proofs, "controls": [control_object(c) for c in caught]}

    def _subject(self, tables: Path) -> Subject:
        problem = read_problem(tables)
        problem = replace(
            problem,
            gamma=problem.gamma if self.gamma is None else self.gamma,
            candidates=self.candidates or problem.candidates,
            replacement=problem.replacement and self.replacement,
        )
        for i, path in enumerate(problem.tree or ()):
            if len(path) > problem.gamma:  # the law is compared over gamma + 1 tokens, which would not be all of it
                raise SpecvizError(
                    f"{tables}: tree[{i}] has {len(path)} tokens and gamma is {problem.gamma}; raise gamma"
                )
        return Subject(f"{tables.name}, gamma {problem.gamma}", problem)


def _cases(asked: Sequence[str], tables: Path | None) -> tuple[str, ...]:
    """The cases asked for, A, B and C by default. SpecvizError for others."""
    if asked and tables is not None:
        raise SpecvizError("--case and --tables are two sources of tables; give one of them")
    cases = tuple(dict.fromkeys(case.upper() for case in asked)) or CASES[:3]
    for case in cases:
        if case not in CASES:
            raise SpecvizError(f"no case '{case}'; there are A, B, C and D")
    if "D" in cases and len(cases) > 1:
        raise SpecvizError("case D is one draft worked through and no proof over all drafts; ask for it alone")
    return cases


def show_trace(verifiers: Sequence[str], as_json: bool) -> int:
    """Case D, position by position."""
    found = worked.branches()
    chosen = [v for v in pick(verifiers) if v.lossless and v.refuses(worked.draft()) is None]
    if left := [name for name in verifiers if name not in {v.name for v in chosen}]:
        raise SpecvizError(f"case D is judged by lossless verifiers of one drawn chain, not by {left[0]}")
    stops = {v.name: worked.stop_law(v) for v in chosen}
    good = worked.agrees(found, stops)
    if as_json:
        echo_json(worked.as_object(found, stops, good))
    else:
        print_trace(found, stops, good)
    return OK if good else FAILED


def _enumerate(jobs: Sequence[Job], controls: Sequence[WrongRule], floats: bool) -> tuple[list[Done], list[Caught]]:
    """Make all proofs, with a progress bar on standard error when there is time to look at one."""
    with progress(sum(job.cost.seconds for job in jobs)) as bar:
        done = []
        for job in jobs:
            bar.begin(f"{job.verifier.name}, {job.subject.title}", job.cost)
            done.append(Done(job, prove(job.tables(floats), job.verifier, job.layout, bar.tick)))
        bar.begin("wrong rules", None)
        return done, [catch(control) for control in controls]
