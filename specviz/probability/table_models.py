"""Table models: tiny language models whose joint law is known, for proofs and tests.

A table gives `row(prefix) -> [V]`, the law of the next token. Entries are Fractions in an object array, so whatever
runs on rows (the production verifiers included) computes exactly; `in_floats` gives the float64 twin. Three kinds:
independent draws, a first-order Markov chain, and rows by prefix. `CASE_A`, `CASE_B` and `CASE_C` are the golden cases
of docs/methods.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from specviz.errors import SpecvizError
from specviz.probability.arrays import np


class Table(Protocol):
    """A model with a known law."""

    @property
    def vocab(self) -> int: ...

    def row(self, prefix: Sequence[int]) -> Any:
        """Law `[V]` of the token after `prefix`."""

    def in_floats(self) -> "Table":
        """This model with float64 rows."""


@dataclass(frozen=True)
class Iid:
    """Every token independent, with the same law."""

    probs: Any  # [V]

    @property
    def vocab(self) -> int:
        return len(self.probs)

    def row(self, prefix: Sequence[int]) -> Any:
        """The one law `[V]`, whatever the prefix."""
        return self.probs

    def in_floats(self) -> "Iid":
        return Iid(self.probs.astype(np.float64))


@dataclass(frozen=True)
class Markov:
    """The next token depends on the last one."""

    init: Any  # [V]
    trans: Any  # [V, V], row y after token y

    @property
    def vocab(self) -> int:
        return len(self.init)

    def row(self, prefix: Sequence[int]) -> Any:
        """The law `[V]` after the last token of the prefix."""
        return self.trans[prefix[-1]] if len(prefix) else self.init

    def in_floats(self) -> "Markov":
        return Markov(self.init.astype(np.float64), self.trans.astype(np.float64))


@dataclass(frozen=True)
class PrefixTable:
    """One row per prefix; `default` serves the prefixes that have none."""

    rows: Mapping[tuple[int, ...], Any]
    default: Any = None

    @property
    def vocab(self) -> int:
        return len(next(iter(self.rows.values()), self.default))

    def row(self, prefix: Sequence[int]) -> Any:
        """The row `[V]` of exactly this prefix. SpecvizError when there is neither a row nor a default."""
        row = self.rows.get(tuple(prefix), self.default)
        if row is None:
            name = ",".join(map(str, prefix))
            raise SpecvizError(f"the table has no row for the prefix \"{name}\"; add it, or a 'default' row")
        return row

    def in_floats(self) -> "PrefixTable":
        default = None if self.default is None else self.default.astype(np.float64)
        return PrefixTable({k: row.astype(np.float64) for k, row in self.rows.items()}, default)


@dataclass(frozen=True)
class Problem:
    """A target and a draft table with the shape of the draft: what `prove` works on."""

    vocab: int
    gamma: int
    p: Table
    q: Table
    candidates: int = 1
    replacement: bool = True
    tree: tuple[tuple[int, ...], ...] | None = None  # root-to-leaf paths of a deterministic tree

    def in_floats(self) -> "Problem":
        return replace(self, p=self.p.in_floats(), q=self.q.in_floats())


def law(table: Table, length: int, stop: Iterable[int] = ()) -> dict[tuple[int, ...], Any]:
    """Probability of every text of `length` tokens, or fewer where it ends in a stop token. Zeros are left out."""
    ends = frozenset(stop)
    done: dict[tuple[int, ...], Any] = {}
    open_: dict[tuple[int, ...], Any] = {(): 1}
    for _ in range(length):
        longer: dict[tuple[int, ...], Any] = {}
        for text, prob in open_.items():
            for token, share in enumerate(table.row(text)):
                if share > 0:
                    (done if token in ends else longer)[(*text, token)] = prob * share
        open_ = longer
    return done | open_


def exact_row(values: Iterable[int | str | Fraction]) -> Any:
    """An object array `[V]` of Fractions; strings as "1/3" or "0.25"."""
    out = [Fraction(v) for v in values]
    row = np.empty(len(out), dtype=object)
    row[:] = out
    return row


def _chain(init: str, *trans: str) -> Markov:
    return Markov(exact_row(init.split()), np.stack([exact_row(r.split()) for r in trans]))


CASE_A_P, CASE_A_Q = Iid(exact_row(["1/3", "2/3"])), Iid(exact_row(["2/3", "1/3"]))
CASE_B_P = _chain(".5 .3 .2", ".6 .3 .1", ".2 .5 .3", ".1 .2 .7")
CASE_B_Q = _chain(".3 .4 .3", ".3 .4 .3", ".5 .3 .2", ".3 .3 .4")
CASE_C_P = _chain(".5 .3 .2 0", ".1 .6 .3 0", ".4 .4 0 .2", "0 .5 .5 0", ".25 .25 .25 .25")
CASE_C_Q = _chain(".25 .25 .25 .25", ".4 .2 .2 .2", ".1 .5 .4 0", ".3 .3 .2 .2", ".5 0 .5 0")

CASE_A = Problem(vocab=2, gamma=2, p=CASE_A_P, q=CASE_A_Q)  # independent of the context; ratios 1/2 and 2
CASE_B = Problem(vocab=3, gamma=2, p=CASE_B_P, q=CASE_B_Q)  # every entry positive
CASE_C = Problem(vocab=4, gamma=2, p=CASE_C_P, q=CASE_C_Q)  # zeros in both tables, as after top-k or top-p
CASES: dict[str, Problem] = {"A": CASE_A, "B": CASE_B, "C": CASE_C}
