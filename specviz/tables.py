"""Table models: tiny language models whose joint law is known, for proofs and tests.

A table gives `row(prefix) -> [V]`, the law of the next token. Entries are Fractions in an object array, so whatever
runs on rows (the production verifiers included) computes exactly; `in_floats` gives the float64 twin. Three kinds, as
read from JSON by `specviz prove --tables`: independent draws, a first-order Markov chain, and rows by prefix.
`CASE_A`, `CASE_B` and `CASE_C` are the golden cases of verification.md section 7.

Refused, each with the place in the file: entries that are not numbers or fraction strings, negative entries, rows of
the wrong length, rows that do not sum to 1 (a sum within 1e-6 counts as rounding and is divided out).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from specviz.errors import SpecvizError, suggestion

Layout = Literal["parallel", "caterpillar"]
ROUNDING = Fraction(1, 10**6)
KEYS = ("vocab", "gamma", "p", "q", "candidates", "layout", "replacement", "tree")
TABLE_KEYS = {"iid": ("probs",), "markov": ("init", "trans"), "prefix": ("rows", "default")}


class MissingRow(SpecvizError):
    """A prefix table that has neither a row for a prefix nor a default."""


class Table(Protocol):
    """A model with a known law."""

    @property
    def vocab(self) -> int: ...

    def row(self, prefix: Sequence[int]) -> Any:
        """Law `[V]` of the token after `prefix`."""

    def in_floats(self) -> "Table":
        """The same model with float64 rows."""


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
        """The same model with float64 rows."""
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
        """The same model with float64 rows."""
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
        """The row `[V]` of exactly this prefix. MissingRow when there is neither a row nor a default."""
        found = self.rows.get(tuple(prefix), self.default)
        if found is None:
            name = ",".join(map(str, prefix))
            raise MissingRow(f"the table has no row for the prefix \"{name}\"; add it, or a 'default' row")
        return found

    def in_floats(self) -> "PrefixTable":
        """The same model with float64 rows."""
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
    layout: Layout = "parallel"
    replacement: bool = True
    tree: tuple[tuple[int, ...], ...] | None = None  # root-to-leaf paths of a deterministic tree

    def in_floats(self) -> "Problem":
        """The same problem with float64 rows."""
        return replace(self, p=self.p.in_floats(), q=self.q.in_floats())


def law(table: Table, length: int, stop: Iterable[int] = ()) -> dict[tuple[int, ...], Any]:
    """Probability of every text of `length` tokens, or shorter where it ends in a stop token. Zero entries left out."""
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


def read_problem(path: str | Path) -> Problem:
    """The problem in a JSON file. SpecvizError with file and place for anything it cannot be read from."""
    try:
        # Decimal numbers keep the value that was typed: 0.1 is one tenth.
        data = json.loads(Path(path).read_text(encoding="utf-8"), parse_float=Decimal, parse_constant=str)
    except OSError as error:
        raise SpecvizError(f"cannot read the tables {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SpecvizError(f"{path} is not UTF-8 text; tables are JSON") from None
    except json.JSONDecodeError as error:
        raise SpecvizError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    return parse_problem(data, str(path))


def parse_problem(data: Any, where: str = "tables") -> Problem:
    """The problem in a decoded JSON object; `where` opens every error message."""
    _known_keys(data, KEYS, where)
    for name in ("vocab", "gamma", "p", "q"):
        if name not in data:
            raise SpecvizError(f"{where}: '{name}' is missing; needed are vocab, gamma, p and q")
    vocab = _whole(data["vocab"], 1, f"{where}: vocab")
    layout = data.get("layout", "parallel")
    if layout not in ("parallel", "caterpillar"):
        raise SpecvizError(f"{where}: layout is {layout!r}; it must be 'parallel' or 'caterpillar'")
    replacement = data.get("replacement", True)
    if not isinstance(replacement, bool):
        raise SpecvizError(f"{where}: replacement is {replacement!r}; it must be true or false")
    return Problem(
        vocab=vocab,
        gamma=_whole(data["gamma"], 0, f"{where}: gamma"),
        p=parse_table(data["p"], vocab, f"{where}: p"),
        q=parse_table(data["q"], vocab, f"{where}: q"),
        candidates=_whole(data.get("candidates", 1), 1, f"{where}: candidates"),
        layout=layout,
        replacement=replacement,
        tree=_paths(data["tree"], vocab, f"{where}: tree") if data.get("tree") is not None else None,
    )


def parse_table(data: Any, vocab: int, where: str) -> Table:
    """One table model in a decoded JSON object."""
    kind = data.get("type") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in TABLE_KEYS:
        hint = suggestion(kind, TABLE_KEYS) if isinstance(kind, str) else "; known: iid, markov, prefix"
        raise SpecvizError(f"{where}: a table is an object with a 'type', here {kind!r}{hint}")
    _known_keys(data, ("type", *TABLE_KEYS[kind]), where)
    for name in TABLE_KEYS[kind]:
        if name != "default" and name not in data:
            raise SpecvizError(f"{where}: a table of type '{kind}' needs '{name}'")
    return _PARSERS[kind](data, vocab, where)


def _iid(data: Any, vocab: int, where: str) -> Table:
    return Iid(_row(data["probs"], vocab, f"{where}.probs"))


def _markov(data: Any, vocab: int, where: str) -> Table:
    init, trans = _row(data["init"], vocab, f"{where}.init"), data["trans"]
    if not isinstance(trans, list) or len(trans) != vocab:
        raise SpecvizError(f"{where}.trans: needs {vocab} rows, one after each token, has {_size(trans)}")
    return Markov(init, np.stack([_row(r, vocab, f"{where}.trans[{i}]") for i, r in enumerate(trans)]))


def _prefix(data: Any, vocab: int, where: str) -> Table:
    rows, default = data["rows"], data.get("default")
    if not isinstance(rows, dict) or not (rows or default is not None):
        raise SpecvizError(f'{where}.rows: must be an object {{"": [..], "0,2": [..]}} with at least one row')
    found = {}
    for name, values in rows.items():
        place = f'{where}.rows["{name}"]'
        found[_prefix_of(name, vocab, place)] = _row(values, vocab, place)
    return PrefixTable(found, None if default is None else _row(default, vocab, f"{where}.default"))


_PARSERS: dict[str, Callable[[Any, int, str], Table]] = {"iid": _iid, "markov": _markov, "prefix": _prefix}


def _prefix_of(name: str, vocab: int, where: str) -> tuple[int, ...]:
    parts = [p.strip() for p in name.split(",")] if name.strip() else []
    if not all(p.isascii() and p.isdigit() and int(p) < vocab for p in parts):
        raise SpecvizError(f"{where}: a prefix is token ids 0..{vocab - 1} with commas between, '' for the empty one")
    return tuple(map(int, parts))


def _row(values: Any, vocab: int, where: str) -> Any:
    if not isinstance(values, list) or len(values) != vocab:
        raise SpecvizError(f"{where}: needs {vocab} numbers (vocab), has {_size(values)}")
    row = exact_row(_number(v, f"{where}[{i}]") for i, v in enumerate(values))
    total = row.sum()
    if abs(total - 1) > ROUNDING:
        raise SpecvizError(f"{where}: sums to {float(total):g}, not 1")
    return row / total


def _number(value: Any, where: str) -> Fraction:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise ValueError
        number = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise SpecvizError(f'{where}: {value!r} is not a number; write 0.25 or "1/4"') from None
    if number < 0:
        raise SpecvizError(f"{where}: {value} is negative; probabilities are not")
    return number


def _whole(value: Any, least: int, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SpecvizError(f"{where} is {value!r}; it must be a whole number, {least} or more")
    return value


def _paths(data: Any, vocab: int, where: str) -> tuple[tuple[int, ...], ...]:
    if not isinstance(data, list) or not all(isinstance(p, list) and p for p in data):
        raise SpecvizError(f"{where}: must be a list of root-to-leaf paths, each a list of token ids")
    for i, path in enumerate(data):
        for token in path:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
                raise SpecvizError(f"{where}[{i}]: {token!r} is not a token id; ids are 0..{vocab - 1}")
    return tuple(tuple(path) for path in data)


def _known_keys(data: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(data, dict):
        raise SpecvizError(f"{where}: must be an object with the keys {', '.join(known)}")
    for name in data:
        if name not in known:
            raise SpecvizError(f"{where}: unknown key '{name}'{suggestion(name, known)}")


def _size(values: Any) -> str:
    return str(len(values)) if isinstance(values, list) else f"{type(values).__name__}, not a list"


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
