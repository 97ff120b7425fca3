"""Hierarchical speculative decoding (Zhou et al. 2026), beside block verification (Sun et al. 2024)."""

from dataclasses import replace
from pathlib import Path

from specviz.commands import Start
from specviz.events import Event
from specviz.metrics.differences import difference_of
from specviz.probability.table_models import CASES
from specviz.runlog.fold import Run, fold
from specviz.sources.prompts import load_prompts
from specviz.traits import CAPPED, NAIVE, TOKENWISE
from specviz.verifiers import get_verifier
from specviz_lab.papers.chains import chains_of, difference, mean_kept, pairs_of
from specviz_lab.papers.kept import Counted, counts, keep_counts, ratio
from specviz_lab.papers.table import ComputedTable, Paper, decimal, exact, percent, rows_of, within
from specviz_lab.prove.controls import CONTROLS, catch
from specviz_lab.prove.layouts import LAYOUTS
from specviz_lab.prove.proof import Proof, prove

_ON_SEVERAL = "multi_tokenwise multi_hsd multi_traversal"
_SEVERAL = (("A", "parallel"), ("B", "parallel"), ("B", "caterpillar"), ("C", "parallel"))


# The paper's setting: temperatures, and lengths of which the first tokens of a draft of the longest are a draft.
_TEMPERATURES, _GAMMAS, _QUESTIONS, _LONG = ("1", ".6"), (2, 4, 6, 8, 10), 200, 32
_THEIRS = {"1": "+2.3 % blockwise, 14B; +6.2 % HSD, mean; +12.3 % at best"}


def _proof(rule: str, case: str, gamma: int, layout: str = "chain", candidates: int = 1) -> Proof:
    problem = replace(CASES[case], gamma=gamma, candidates=candidates)
    return prove(problem, get_verifier(rule), LAYOUTS[layout])


def _toys() -> ComputedTable:
    lines = []
    for case in CASES:
        for gamma in (2, 3):
            forward, capped = _proof(TOKENWISE, case, gamma), _proof(CAPPED, case, gamma)
            naive, printed = _proof(NAIVE, case, gamma), _proof("hsd_ref", case, gamma)
            lines.append(
                (
                    f"{case}, γ = {gamma}",
                    exact(forward.expected_accepted),
                    exact(capped.expected_accepted),
                    f"{exact(naive.expected_accepted)}, {exact(naive.target_calls)} calls",
                    *(decimal(float(proof.tokens_per_call)) for proof in (capped, naive)),
                    exact(printed.expected_accepted),
                    exact(printed.tv),
                )
            )
    names = ("tokenwise", "HSD, blockwise", "naive", "HSD, a call", "naive, a call", "as printed", "its distance")
    return ComputedTable(("case", *names), rows_of(lines))


def _several() -> ComputedTable:
    rules = _ON_SEVERAL.split()
    lines = [
        (f"{case}, {layout}", *(exact(_proof(rule, case, 2, layout, 2).expected_accepted) for rule in rules))
        for case, layout in _SEVERAL
    ]
    return ComputedTable(("case, two candidates, γ = 2", *(f"`{rule}`" for rule in rules)), rows_of(lines))


def _recorded() -> ComputedTable:
    lines = []
    for title, chains in pairs_of(quick=False):
        base, gain = mean_kept(chains, TOKENWISE), difference(chains, CAPPED, TOKENWISE)
        efficiency = [decimal(1 + mean_kept(chains, rule)) for rule in (TOKENWISE, CAPPED)]
        share = "—" if gain is None else percent(gain.value / (1 + base))
        reach = decimal(mean_kept(chains, NAIVE))
        lines.append((title, str(len(chains)), *efficiency, within(gain), share, reach))
    names = ("pair", "rounds", "tokenwise", "HSD, blockwise", "more a round", "more", "kept by naive")
    return ComputedTable(names, rows_of(lines))


def _regime() -> ComputedTable:
    lines, notes = [], []
    for temperature in _TEMPERATURES:
        prompts, note = counts("hsd", f"T {temperature}")
        for gamma in _GAMMAS:
            by_prompt = [arms[str(gamma)] for arms in prompts.values()]
            base, capped = (ratio(by_prompt, rule, "rounds") for rule in (TOKENWISE, CAPPED))
            gain = difference_of(capped, base)
            efficiency = [decimal(1 + rule.value, 2) for rule in (base, capped)]
            theirs = _THEIRS.get(temperature, "") if gamma == _GAMMAS[-1] else ""
            share = percent(gain.value / (1 + base.value))
            lines.append((temperature, str(gamma), *efficiency, within(gain), share, theirs))
        n_rounds = sum(arms[str(_GAMMAS[-1])]["rounds"] for arms in prompts.values())
        notes.append(f"T = {temperature}: {len(prompts)} questions, {n_rounds:,.0f} rounds, {note}")
    names = ("γ", "tokenwise", "HSD, blockwise", "more a round", "more", "the paper")
    return ComputedTable(("T", *names), rows_of(lines), "; ".join(notes))


def measure(path: Path | None) -> None:
    """Draft for questions of one kind under the tokenwise rule, and keep what each rule keeps of the drafts."""
    from specviz.engine.run.local import LocalRun, load_pair  # which import torch

    pair = load_pair("smollm2", "smollm2-draft", dtype="bfloat16", threads=1)
    pair.runtime.begin()
    asked = load_prompts(path)
    for temperature in _TEMPERATURES:
        prompts = {}
        knobs = {"gamma": _GAMMAS[-1], "temperature": float(temperature), "max_new_tokens": _LONG, "seed": 0}
        for prompt in asked.stream[:_QUESTIONS]:
            events: list[Event] = []
            start = Start(prompt=prompt.text, method="draft", verifier=TOKENWISE, knobs=knobs)
            for _ in LocalRun(pair, start, events.append).rounds():
                pass
            prompts[prompt.where] = kept_by_length(fold(events))
        command = f"specviz lab papers hsd --measure --prompts {asked.source}"
        keep_counts("hsd", f"T {temperature}", prompts, command)


def kept_by_length(run: Run) -> dict[str, Counted]:
    """Of a run's drafts, what each rule keeps in expectation of their first tokens, by γ."""
    chains = list(chains_of(run, ""))
    return {
        str(gamma): {
            "rounds": len(chains),
            **{rule: round(sum(chain.expected(rule, gamma) for chain in chains), 4) for rule in (TOKENWISE, CAPPED)},
        }
        for gamma in _GAMMAS
    }


def _mistakes() -> ComputedTable:
    caught = [catch(control) for control in CONTROLS]
    lines = [(c.control.mistake, f"{c.control.case}, γ = {c.control.gamma}", exact(c.tv)) for c in caught]
    return ComputedTable(("mistake", "case", "distance from the target"), rows_of(lines))


PAPER = Paper(
    "hsd",
    "Hierarchical speculative decoding",
    {"toys": _toys, "several": _several, "recorded": _recorded, "regime": _regime, "mistakes": _mistakes},
    slow=frozenset({"several", "recorded", "mistakes"}),
    measure=measure,
)
