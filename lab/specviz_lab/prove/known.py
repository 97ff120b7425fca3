"""What is known of a proof beforehand: the golden vectors and the closed forms of E[accepted].

The vectors are E[accepted], the law of the accepted length, the TV and the target calls,
worked out by exact enumeration with other code than ours. A number that has a golden one beside it is wrong when
the two differ.

The closed forms need no enumeration of tests and draws: sum over t of E_q[credit_t]. The credit of
a text is the chance that it is drafted and kept, so that every form below is one sum over texts. It checks the tests of
a verifier on its own: a wrong threshold moves it even where the emitted law happens to agree.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from specviz.probability.table_models import Problem
from specviz_lab.prove.layouts import DraftBuilder, DraftLayout


@dataclass(frozen=True, slots=True)
class Golden:
    """What was worked out; None and () where nothing was."""

    expected_accepted: Fraction
    tv: Fraction = Fraction(0)
    accepted_law: tuple[Fraction, ...] = ()
    target_calls: Fraction | None = None


Place = tuple[str, int, str, int, bool]  # case, gamma, layout, candidates, replacement


def golden(case: str, verifier: str, layout: str, problem: Problem) -> Golden | None:
    """The vector of this verifier on this case, if there is one."""
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


TREE = ((0, 0), (0, 1), (1, 1), (2,))  # of case B

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

# Every lossless rule has this law on a deterministic tree.
_ON_THE_TREE = Golden(Fraction(8, 5), accepted_law=_numbers("0 2/5 3/5"))
_TREES = ("tree_tokenwise", "tree_hsd", "walk", "tokenwise", "multi_hsd")
_TABLE: dict[Any, Golden] = {
    **dict(_chains()),
    **dict(_several()),
    **{(("B", 2, "tree", 1, True), name): _ON_THE_TREE for name in _TREES},
}


Rows = Sequence[tuple[Any, Any, int]]  # p, q and the token, position by position
Credit = Callable[[Rows], Any]


def closed_form(verifier: str, layout: DraftLayout, problem: Problem) -> Any | None:
    """The closed form of this verifier on this layout, None where none is known."""
    if layout.name == "tree":
        return _deterministic(layout, problem)
    by_layout: dict[str, dict[str, Credit]] = {"chain": CHAIN, "shared": {"walk": _overlap}}
    credits = by_layout.get(layout.name, {})
    return _drawn(credits[verifier], problem) if verifier in credits else None


def shared_by_race(problem: Problem) -> Any:
    """E[accepted] of `walk` on a chain that shares the target's noise by exponential races.

    No enumeration shows it: what two races with one noise say of each other is no interval. Both choose x with chance
    1 / sum_y max(p(y)/p(x), q(y)/q(x)), the minimum over y being exponential again.
    """
    return _drawn(_one_race, problem)


def _drawn(credit: Credit, problem: Problem) -> Any:
    """One chain, drawn: the credits of all texts of 1 to gamma tokens."""
    return sum(credit(rows) for rows in _drafts(problem))


def _deterministic(layout: DraftLayout, problem: Problem) -> Any:
    """Any lossless rule keeps a node of a fixed tree exactly when the target says its path."""
    builder = DraftBuilder(None, (), problem.q)
    layout.grow(problem)(builder)
    draft = builder.build()
    paths = {draft.path(node) for node in range(len(draft))}
    return sum(prod(problem.p.row(path[:i])[token] for i, token in enumerate(path)) for path in paths)


def _drafts(problem: Problem, text: tuple[int, ...] = (), rows: Rows = ()) -> Iterator[Rows]:
    """The rows along every text of 1 to gamma tokens that the draft may say (a table may have no row on others)."""
    if len(text) == problem.gamma:
        return
    p, q = problem.p.row(text), problem.q.row(text)
    for token in np.flatnonzero(q).tolist():
        longer = (*rows, (p, q, token))
        yield longer
        yield from _drafts(problem, (*text, token), longer)


def _tokenwise(rows: Rows) -> Any:
    return prod(min(p[x], q[x]) for p, q, x in rows)


def _capped(rows: Rows) -> Any:
    """Q c: the smallest of Q_t / Q_i P_i over i, by c_t = min(1, c_{t-1} rho_t)."""
    mass: Any = 1
    weighted: Any = 1
    for p, q, x in rows:
        weighted = min(mass * q[x], weighted * p[x])
        mass = mass * q[x]
    return weighted


def _overlap(rows: Rows) -> Any:
    """One uniform draws both tokens: the overlap of their CDF intervals."""

    def both(p: Any, q: Any, x: int) -> Any:
        low = max(sum(p[:x]), sum(q[:x]))
        return max(0, min(sum(p[: x + 1]), sum(q[: x + 1])) - low)

    return prod(both(p, q, x) for p, q, x in rows)


def _one_race(rows: Rows) -> Any:
    def both(p: Any, q: Any, x: int) -> Any:
        if not p[x] > 0:
            return 0
        return 1 / sum(max(a / p[x], b / q[x]) for a, b in zip(p, q, strict=True))

    return prod(both(p, q, x) for p, q, x in rows)


CHAIN: dict[str, Credit] = {
    "tokenwise": _tokenwise,
    "walk": lambda rows: prod(p[x] * q[x] for p, q, x in rows),
    "blockwise": _capped,
    "hsd": _capped,
    "hsd_naive": lambda rows: min(prod(p[x] for p, _, x in rows), prod(q[x] for _, q, x in rows)),
    "multi_tokenwise": _tokenwise,
    "multi_hsd": _capped,
    "multi_traversal": _capped,
}
