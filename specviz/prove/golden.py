"""The golden vectors: what E[accepted], the law of the accepted length, the TV and the target calls must be.

From verification.md section 7, worked out there by exact enumeration with other code than ours. A number of a proof
that has a golden one beside it is wrong when the two differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from specviz.probability.table_models import Problem


@dataclass(frozen=True, slots=True)
class Golden:
    """What section 7 prints; None and () where it prints nothing."""

    expected_accepted: Fraction
    tv: Fraction = Fraction(0)
    accepted_law: tuple[Fraction, ...] = ()
    target_calls: Fraction | None = None


Place = tuple[str, int, str, int, bool]  # case, gamma, layout, candidates, replacement


def golden(case: str, verifier: str, layout: str, problem: Problem) -> Golden | None:
    """The vector of this verifier on this case, if section 7 has one."""
    candidates = problem.candidates if layout in ("parallel", "caterpillar") else 1
    if layout == "tree" and problem.tree != TREE:
        return None
    return _TABLE.get(((case, problem.gamma, layout, candidates, problem.replacement), verifier))


def _chains() -> Iterator[tuple[tuple[Place, str], Golden]]:
    for line in _CHAINS.strip().splitlines():
        case, gamma, names, expected, law, tv, calls = (part.strip() for part in line.split("|"))
        vector = Golden(Fraction(expected), Fraction(tv), _numbers(law), Fraction(calls))
        for name in names.split():
            yield ((case, int(gamma), "chain", 1, True), name), vector


def _several() -> Iterator[tuple[tuple[Place, str], Golden]]:
    for line in _SEVERAL.strip().splitlines():
        case, layout, count, replacement, *expected = line.replace("|", " ").split()
        place = (case, 2, layout, int(count), replacement == "yes")
        for name, number in zip(("tokenwise", "multi_hsd", "multi_traversal"), expected, strict=False):
            if number != "-":
                vector = Golden(Fraction(number), accepted_law=_LAWS.get((place, name), ()))
                yield (place, name), vector
                if name == "tokenwise":
                    yield (place, "multi_tokenwise"), vector


def _numbers(text: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(part) for part in text.split())


TREE = ((0, 0), (0, 1), (1, 1), (2,))  # 7.5

# case | gamma | verifiers | E[accepted] | its law | TV | target calls
_CHAINS = """
A | 2 | tokenwise     | 10/9        | 1/3 2/9 4/9                        | 0          | 1
A | 2 | blockwise hsd | 11/9        | 1/3 1/9 5/9                        | 0          | 1
A | 2 | hsd_naive     | 12/9        | 1/3 0 2/3                          | 0          | 4/3
A | 2 | hsd_ref       | 12/9        | 1/3 0 2/3                          | 1/9        | 1
A | 3 | tokenwise     | 38/27       | 1/3 2/9 4/27 8/27                  | 0          | 1
A | 3 | blockwise hsd | 5/3         | 1/3 1/9 1/9 4/9                    | 0          | 1
A | 3 | hsd_naive     | 50/27       | 1/3 0 4/27 14/27                   | 0          | 5/3
A | 3 | hsd_ref       | 16/9        | 1/3 2/27 2/27 14/27                | 5/81       | 1
B | 2 | tokenwise     | 1.36        | 0.2 0.24 0.56                      | 0          | 1
B | 2 | blockwise hsd | 1.45        | 0.2 0.15 0.65                      | 0          | 1
B | 2 | hsd_naive     | 1.5         | 0.2 0.1 0.7                        | 0          | 1.2
B | 2 | hsd_ref       | 1.5         | 0.2 0.1 0.7                        | 0.05       | 1
B | 2 | hsd_literal   | 1.45        | 0.2 0.15 0.65                      | 0.01125    | 1
B | 3 | tokenwise     | 1.752       | 0.2 0.24 0.168 0.392               | 0          | 1
B | 3 | blockwise hsd | 1.965       | 0.2 0.15 0.135 0.515               | 0          | 1
B | 3 | hsd_naive     | 2.089       | 0.2 0.1 0.111 0.589                | 0          | 1.5
B | 3 | hsd_ref       | 14473/7000  | 1/5 17/140 627/7000 589/1000       | 219/3500   | 1
C | 2 | tokenwise     | 1.05        | 0.3 0.35 0.35                      | 0          | 1
C | 2 | blockwise hsd | 1.075       | 0.3 0.325 0.375                    | 0          | 1
C | 2 | hsd_naive     | 1.12        | 0.3 0.28 0.42                      | 0          | 1.3
C | 2 | hsd_ref       | 1.12        | 0.3 0.28 0.42                      | 0.045      | 1
C | 3 | tokenwise     | 1.225       | 0.3 0.35 0.175 0.175               | 0          | 1
C | 3 | blockwise hsd | 1.2775      | 0.3 0.325 0.1725 0.2025            | 0          | 1
C | 3 | hsd_naive     | 1.3655      | 0.3 0.28 0.1745 0.2455             | 0          | 1.88
C | 3 | hsd_ref       | 77619/58000 | 3/10 891/2900 8541/58000 491/2000  | 1103/29000 | 1
"""

# gamma 2: case, layout, candidates, with replacement | multi_tokenwise, multi_hsd, multi_traversal
_SEVERAL = """
A parallel    2 yes | 4/3       115/81    38/27
A caterpillar 2 yes | 113/81    353/243   13/9
B parallel    2 yes | 1.4953    1.5705    1.552
B caterpillar 2 yes | 1.57699   1.61731   1.639
C parallel    2 yes | 1.265625  1.29      1.265
C caterpillar 2 yes | 1.3615625 1.3740625 1.3775
A parallel    3 yes | 1087/729  1136/729  -
B parallel    2 no  | 85/56     2251/1400 -
"""

_LAWS: dict[tuple[Place, str], tuple[Fraction, ...]] = {
    (("B", 2, "parallel", 2, True), "tokenwise"): _numbers("0.14 0.2247 0.6353"),
    (("B", 2, "parallel", 2, True), "multi_hsd"): _numbers("0.14 0.1495 0.7105"),
}

# 7.5: every lossless rule has this law on a deterministic tree.
_ON_THE_TREE = Golden(Fraction(8, 5), accepted_law=_numbers("0 2/5 3/5"))
_TREES = ("tree_tokenwise", "tree_hsd", "walk", "tokenwise", "multi_hsd")
_TABLE: dict[Any, Golden] = {
    **dict(_chains()),
    **dict(_several()),
    **{(("B", 2, "tree", 1, True), name): _ON_THE_TREE for name in _TREES},
}
