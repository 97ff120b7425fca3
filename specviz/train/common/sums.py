"""Templated arithmetic: the third domain of the corpus, easy to tell from code and from prose.

Every document is a page of one kind of exercise (plain sums, spoken questions, running totals, tables), so that within
a page the form is predictable and only the digits need work. Pages are drawn from one seeded generator.
"""

import operator
from collections.abc import Callable, Iterator
from random import Random

_LINES_PER_PAGE = 24
_SIGNS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_WORDS = {"+": "plus", "-": "minus", "*": "times"}


def _operands(rng: Random, sign: str, digits: int) -> tuple[int, int]:
    """Two numbers whose result is never negative; products stay in the small table."""
    if sign == "*":
        return rng.randint(0, 12), rng.randint(0, 12)
    left, right = rng.randrange(10**digits), rng.randrange(10**digits)
    return (max(left, right), min(left, right)) if sign == "-" else (left, right)


def _plain(rng: Random, sign: str, digits: int) -> Iterator[str]:
    for _ in range(_LINES_PER_PAGE):
        left, right = _operands(rng, sign, digits)
        yield f"{left} {sign} {right} = {_SIGNS[sign](left, right)}"


def _spoken(rng: Random, sign: str, digits: int) -> Iterator[str]:
    for _ in range(_LINES_PER_PAGE):
        left, right = _operands(rng, sign, digits)
        yield f"What is {left} {_WORDS[sign]} {right}? It is {_SIGNS[sign](left, right)}."


def _running(rng: Random, sign: str, digits: int) -> Iterator[str]:
    """A running total: each line starts from the result of the line above."""
    total, step = rng.randrange(10**digits), rng.randint(1, 12)
    for _ in range(_LINES_PER_PAGE):
        yield f"{total} + {step} = {total + step}"
        total += step


def _table(rng: Random, sign: str, digits: int) -> Iterator[str]:
    """A multiplication table, read upwards from one."""
    factor = rng.randint(2, 12)
    for row in range(1, 13):
        yield f"{row} * {factor} = {row * factor}"


_KINDS = (_plain, _plain, _spoken, _running, _table)


def pages(n_pages: int, seed: int) -> Iterator[str]:
    """Yield `n_pages` pages of exercises; the same seed gives the same pages on every machine."""
    rng = Random(seed)
    for _ in range(n_pages):
        kind, sign, digits = rng.choice(_KINDS), rng.choice("++-*"), rng.choice((1, 2, 2, 3))
        yield "\n".join(kind(rng, sign, digits)) + "\n"
