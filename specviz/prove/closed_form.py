"""E[accepted] without any enumeration of tests and draws: sum over t of E_q[credit_t] (verification.md 4).

The credit of a text is the chance that it is drafted and kept, so that every form below is one sum over texts. It
checks the tests of a verifier on its own: a wrong threshold moves it even where the emitted law happens to agree.
"""

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from specviz.probability.table_models import Problem
from specviz.prove.drafting import DraftBuilder
from specviz.prove.layouts import DraftLayout

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
    """Any lossless rule keeps a node of a fixed tree exactly when the target says its path (verification.md 3.8)."""
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


def _walk(rows: Rows) -> Any:
    return prod(p[x] * q[x] for p, q, x in rows)


def _capped(rows: Rows) -> Any:
    """Q c: the smallest of Q_t / Q_i P_i over i, by c_t = min(1, c_{t-1} rho_t)."""
    mass: Any = 1
    weighted: Any = 1
    for p, q, x in rows:
        weighted = min(mass * q[x], weighted * p[x])
        mass = mass * q[x]
    return weighted


def _joint(rows: Rows) -> Any:
    return min(prod(p[x] for p, _, x in rows), prod(q[x] for _, q, x in rows))


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
    "walk": _walk,
    "blockwise": _capped,
    "hsd": _capped,
    "hsd_naive": _joint,
    "multi_tokenwise": _tokenwise,
    "multi_hsd": _capped,
    "multi_traversal": _capped,
}
