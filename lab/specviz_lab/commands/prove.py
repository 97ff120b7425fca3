"""`specviz lab prove`: verifiers against the target's law, by enumeration on table models. No model and no torch."""

import click

from specviz import numerals
from specviz.cli import FAILED, OK
from specviz.cli.flags import JSON, flag, text
from specviz.cli.printing import echo_json, narrate
from specviz.errors import SpecvizError
from specviz.probability.table_models import CASES
from specviz.text import running
from specviz_lab.commands.proofs import in_turn, print_proofs
from specviz_lab.prove.controls import CONTROLS, catch, registered
from specviz_lab.prove.jobs import MOST, QUICK, case_jobs, case_subjects
from specviz_lab.prove.proof import prove
from specviz_lab.prove.report import ProvedJob, as_object, control_object, verdict


@click.command("prove")
@click.argument("verifiers", metavar="[VERIFIER]...", nargs=-1)
@click.option("--case", "cases", multiple=True, metavar="A|B|C", help="A golden case, or several; all by default.")
@click.option("--gamma", type=click.IntRange(0, 4), metavar="N", help="Tokens to draft; 2 and 3 by default.")
@text("--layout", "NAME", "chain, shared, parallel, caterpillar, tree or drawn_tree.")
@click.option("--candidates", type=click.IntRange(1, 4), metavar="K", help="Candidates, or children of a tree's node.")
@flag("--distinct", "Draw siblings without replacement.")
@flag("--floats", "Compute in float64, as in a session, and not in fractions.")
@JSON
def command(
    verifiers: tuple[str, ...],
    cases: tuple[str, ...],
    gamma: int | None,
    layout: str | None,
    candidates: int | None,
    distinct: bool,
    floats: bool,
    as_json: bool,
) -> int:
    """Prove that verifiers keep the target's law, and show wrong ones failing.

    Every draft, every accept or reject and every resampled token is followed and summed with its probability, in
    fractions: nothing is sampled. Without arguments all verifiers are proved on three small golden cases, and wrong
    rules are enumerated beside them. Exit code 1 when a verifier that claims to be lossless is not.
    """
    chosen = list(dict.fromkeys(case.upper() for case in cases or CASES))
    for case in chosen:
        if case not in CASES:
            raise SpecvizError(f"no case '{case}'; there are A, B and C")
    fitting = case_jobs(verifiers, case_subjects(chosen, gamma, candidates, not distinct), layout)
    if not fitting:
        raise SpecvizError("no verifier can judge such a draft; name another --layout")
    most = MOST if verifiers or layout is not None else QUICK
    jobs, longer = ([job for job in fitting if job.within(most) is short] for short in (True, False))
    if not jobs:
        raise SpecvizError(f"{longer[0]} has more than {MOST:,} drafts to follow; lower --gamma or --candidates")
    whole = not (verifiers or cases or distinct) and (gamma, layout, candidates) == (None, None, None)
    done = [
        ProvedJob(job, prove(job.problem.in_floats() if floats else job.problem, job.verifier, job.layout))
        for job in in_turn(jobs, str)
    ]
    caught = [catch(control) for control in in_turn([*registered(), *CONTROLS] if whole else [], lambda c: c.name)]
    if longer:
        layouts = ", ".join(dict.fromkeys(job.layout.name for job in longer))
        narrate(
            f"specviz: left out for time: {numerals.plural(len(longer), 'longer proof')} ({layouts}); "
            f"a named VERIFIER or --layout makes those of at most {MOST:,} drafts"
        )
    conclusion = verdict(done, caught)
    if as_json:
        echo_json({"proofs": [as_object(d) for d in done], "controls": [control_object(c) for c in caught]})
        for good, line in conclusion.lines:
            if not good:
                narrate(f"specviz: {running(line)}")
    else:
        print_proofs(done, caught, conclusion)
    return OK if conclusion.holds else FAILED
