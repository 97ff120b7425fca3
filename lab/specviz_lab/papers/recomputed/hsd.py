"""Hierarchical speculative decoding (Zhou et al. 2026), beside block verification (Sun et al. 2024)."""

from dataclasses import replace

from specviz.probability.table_models import CASES
from specviz.traits import CAPPED, NAIVE, TOKENWISE
from specviz.verifiers import get_verifier
from specviz_lab.papers.chains import difference, mean_kept, pairs_of
from specviz_lab.papers.table import ComputedTable, Paper, decimal, exact, percent, rows_of, within
from specviz_lab.prove.controls import CONTROLS, catch
from specviz_lab.prove.layouts import LAYOUTS
from specviz_lab.prove.proof import Proof, prove

_ON_SEVERAL = "multi_tokenwise multi_hsd multi_traversal"
_SEVERAL = (("A", "parallel"), ("B", "parallel"), ("B", "caterpillar"), ("C", "parallel"))


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


def _mistakes() -> ComputedTable:
    caught = [catch(control) for control in CONTROLS]
    lines = [(c.control.mistake, f"{c.control.case}, γ = {c.control.gamma}", exact(c.tv)) for c in caught]
    return ComputedTable(("mistake", "case", "distance from the target"), rows_of(lines))


PAPER = Paper(
    "hsd",
    "Hierarchical speculative decoding",
    {"toys": _toys, "several": _several, "recorded": _recorded, "mistakes": _mistakes},
    slow=frozenset({"several", "recorded", "mistakes"}),
)
