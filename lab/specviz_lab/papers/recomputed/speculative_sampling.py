"""Speculative sampling (Leviathan et al. 2023, Chen et al. 2023): tokenwise verification and its law of lengths."""

from dataclasses import replace
from fractions import Fraction

from specviz.probability.table_models import CASE_A, CASES
from specviz.traits import TOKENWISE
from specviz.verifiers import get_verifier
from specviz_lab.papers.chains import RecordedChain, pairs_of
from specviz_lab.papers.table import ComputedTable, Paper, decimal, exact, percent, rows_of
from specviz_lab.prove.layouts import LAYOUTS
from specviz_lab.prove.proof import prove

ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
RATIOS = (2, 5, 8, 15)  # draft steps that the target's pass takes

# Leviathan et al. 2023, section 4.1, table 2: T5-XXL. Task, draft, T, gamma, alpha, share of a draft step, speed-up.
_PUBLISHED = """
EnDe  | T5-small | 0 | 7 | .75 | .02 | 3.4
EnDe  | T5-base  | 0 | 7 | .80 | .04 | 2.8
EnDe  | T5-large | 0 | 7 | .82 | .11 | 1.7
EnDe  | T5-small | 1 | 7 | .62 | .02 | 2.6
EnDe  | T5-base  | 1 | 5 | .68 | .04 | 2.4
EnDe  | T5-large | 1 | 3 | .71 | .11 | 1.4
CNNDM | T5-small | 0 | 5 | .65 | .02 | 3.1
CNNDM | T5-base  | 0 | 5 | .73 | .04 | 3.0
CNNDM | T5-large | 0 | 3 | .74 | .11 | 2.2
CNNDM | T5-small | 1 | 5 | .53 | .02 | 2.3
CNNDM | T5-base  | 1 | 3 | .55 | .04 | 2.2
CNNDM | T5-large | 1 | 3 | .56 | .11 | 1.7
"""


def tokens_a_round(alpha: float | Fraction, gamma: int) -> float | Fraction:
    """`(1 - alpha^(gamma + 1)) / (1 - alpha)`: closing token included, every position accepted with chance alpha."""
    return sum(alpha**t for t in range(gamma + 1))


def speed(alpha: float, gamma: int, step: float) -> float:
    """Of plain decoding, a draft step taking `step` of the target's pass."""
    return float(tokens_a_round(alpha, gamma)) / (gamma * step + 1)


def best_length(alpha: float, step: float, most: int = 40) -> int:
    """The draft length of the highest speed."""
    return max(range(most + 1), key=lambda gamma: speed(alpha, gamma, step))


def _laws() -> ComputedTable:
    lines = []
    for case, problem in CASES.items():
        for gamma in (1, 2, 3):
            proof = prove(replace(problem, gamma=gamma), get_verifier(TOKENWISE), LAYOUTS["chain"])
            lines.append((f"{case}, γ = {gamma}", exact(proof.expected_accepted), exact(proof.tv), str(proof.n_paths)))
    return ComputedTable(("case", "E[kept]", "distance from the target", "ways followed"), rows_of(lines))


def _formula() -> ComputedTable:
    lines = []
    for gamma in range(1, 5):
        proof = prove(replace(CASE_A, gamma=gamma), get_verifier(TOKENWISE), LAYOUTS["chain"])
        law = Fraction(tokens_a_round(Fraction(2, 3), gamma))
        lines.append((str(gamma), exact(law), exact(proof.expected_tokens)))
    return ComputedTable(("γ", "(1 − α^(γ+1)) / (1 − α), α = 2/3", "enumerated, case A"), rows_of(lines))


def _published() -> ComputedTable:
    lines = []
    for line in _PUBLISHED.strip().splitlines():
        task, draft, temperature, gamma, alpha, step, timed = (part.strip() for part in line.split("|"))
        law = speed(float(alpha), int(gamma), float(step))
        best = best_length(float(alpha), float(step))
        lines.append((f"{task}, {draft}, T = {temperature}", gamma, alpha, step, timed, decimal(law, 2), str(best)))
    names = ("task, draft", "γ", "α", "draft step", "paper, timed", "ours, by the law", "best γ by the law")
    return ComputedTable(names, rows_of(lines))


def _lengths() -> ComputedTable:
    lines = [
        (f"{alpha:g}".removeprefix("0"), *(f"{best_length(alpha, 1 / c)} ({_best(alpha, c)})" for c in RATIOS))
        for alpha in ALPHAS
    ]
    return ComputedTable(("α", *(f"c = {c}" for c in RATIOS)), rows_of(lines))


def _best(alpha: float, c: int) -> str:
    return decimal(speed(alpha, best_length(alpha, 1 / c), 1 / c), 2)


def _recorded() -> ComputedTable:
    lines = []
    for title, chains in pairs_of(quick=True):
        alpha = kept_of_tested(chains)
        law = sum(float(tokens_a_round(alpha, len(c.credits[TOKENWISE]))) for c in chains) / len(chains)
        exactly = 1 + sum(c.expected(TOKENWISE) for c in chains) / len(chains)
        first = sum(c.credits[TOKENWISE][0] for c in chains) / len(chains)
        lines.append(
            (
                title,
                str(len(chains)),
                decimal(first),
                decimal(alpha),
                decimal(law),
                decimal(exactly),
                percent(exactly / law - 1),
            )
        )
    names = ("pair", "rounds", "α of the first position", "α of all", "tokens by the law", "exactly", "off by")
    return ComputedTable(names, rows_of(lines))


def kept_of_tested(chains: list[RecordedChain]) -> float:
    """The acceptance rate over all positions, each weighed by the chance that it is tested."""
    credits = [chain.credits[TOKENWISE] for chain in chains]
    return sum(map(sum, credits)) / sum(1 + sum(credit[:-1]) for credit in credits)


PAPER = Paper(
    "speculative-sampling",
    "Speculative sampling",
    {"laws": _laws, "formula": _formula, "published": _published, "lengths": _lengths, "recorded": _recorded},
)
