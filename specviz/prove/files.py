"""Tables of the user's own: the `Problem` in the JSON file of `specviz prove --tables`.

Refused in one line with the place in the file: keys that are unknown or stand twice, entries that are not numbers or
fraction strings, negative entries, rows of the wrong length, rows that do not sum to 1 (a sum within 1e-6 counts as
rounding and is divided out), drafts beyond `MOST`, and numbers that would take longer to compute with than to read.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from specviz.errors import SpecvizError, suggestion
from specviz.probability.table_models import Iid, Markov, PrefixTable, Problem, Table, exact_row

ROUNDING = Fraction(1, 10**6)
MOST = 16  # drafted tokens in a chain, and candidates: more has no end, however small the vocabulary
LONGEST = 100  # characters of a number, and how far its exponent may go
KEYS = ("vocab", "gamma", "p", "q", "candidates", "layout", "replacement", "tree")
TABLE_KEYS = {"iid": ("probs",), "markov": ("init", "trans"), "prefix": ("rows", "default")}
_EXPONENT = re.compile(r"[eE]([+-]?\d[\d_]*)")  # what `Fraction` takes for one
_SHOWN = 60  # characters of a wrong value


def read_problem(path: str | Path) -> Problem:
    """The problem in a JSON file. SpecvizError with file and place for anything it cannot be read from."""
    try:
        # Decimal numbers keep the value that was typed: 0.1 is one tenth.
        text = Path(path).read_text(encoding="utf-8-sig")
        data = json.loads(text, parse_float=Decimal, parse_constant=str, object_pairs_hook=_once)
    except OSError as error:
        raise SpecvizError(f"cannot read the tables {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SpecvizError(f"{path} is not UTF-8 text; tables are JSON") from None
    except json.JSONDecodeError as error:
        raise SpecvizError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    except RecursionError:
        raise SpecvizError(f"{path}: brackets in brackets without end; tables are lists of lists of numbers") from None
    except _Twice as error:
        raise SpecvizError(f"{path}: the key {shown(error.args[0])} stands twice in one object; keep one") from None
    except ValueError:  # Python's own bound on whole numbers in text
        raise SpecvizError(f"{path}: a number in it has thousands of digits; write at most {LONGEST}") from None
    return parse_problem(data, str(path))


def parse_problem(data: Any, where: str = "tables") -> Problem:
    """The problem in a decoded JSON object; `where` opens every error message."""
    _known_keys(data, KEYS, where)
    for name in ("vocab", "gamma", "p", "q"):
        if name not in data:
            raise SpecvizError(f"{where}: '{name}' is missing; needed are vocab, gamma, p and q")
    vocab = _whole(data["vocab"], 1, None, f"{where}: vocab")
    layout = data.get("layout", "parallel")
    if layout not in ("parallel", "caterpillar"):
        raise SpecvizError(f"{where}: layout is {shown(layout)}; it must be 'parallel' or 'caterpillar'")
    replacement = data.get("replacement", True)
    if not isinstance(replacement, bool):
        raise SpecvizError(f"{where}: replacement is {shown(replacement)}; it must be true or false")
    return Problem(
        vocab=vocab,
        gamma=_whole(data["gamma"], 0, MOST, f"{where}: gamma"),
        p=parse_table(data["p"], vocab, f"{where}: p"),
        q=parse_table(data["q"], vocab, f"{where}: q"),
        candidates=_whole(data.get("candidates", 1), 1, MOST, f"{where}: candidates"),
        layout=layout,
        replacement=replacement,
        tree=_paths(data["tree"], vocab, f"{where}: tree") if data.get("tree") is not None else None,
    )


def parse_table(data: Any, vocab: int, where: str) -> Table:
    """One table model in a decoded JSON object."""
    kind = data.get("type") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in TABLE_KEYS:
        hint = suggestion(kind, TABLE_KEYS) if isinstance(kind, str) else "; known: iid, markov, prefix"
        raise SpecvizError(f"{where}: a table is an object with a 'type', here {shown(kind)}{hint}")
    _known_keys(data, ("type", *TABLE_KEYS[kind]), where)
    for name in TABLE_KEYS[kind]:
        if name != "default" and name not in data:
            raise SpecvizError(f"{where}: a table of type '{kind}' needs '{name}'")
    return _PARSERS[kind](data, vocab, where)


def shown(value: Any) -> str:
    """A wrong value as it is quoted: decimals as they were typed, the beginning of what is long."""
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text):,} characters)"


class _Twice(Exception):
    """A key that stands twice in an object: JSON would quietly keep the last."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise _Twice(name)
        out[name] = value
    return out


def _iid(data: Any, vocab: int, where: str) -> Table:
    return Iid(_row(data["probs"], vocab, f"{where}.probs"))


def _markov(data: Any, vocab: int, where: str) -> Table:
    init, trans = _row(data["init"], vocab, f"{where}.init"), data["trans"]
    if not isinstance(trans, list) or len(trans) != vocab:
        raise SpecvizError(f"{where}.trans: needs {shown(vocab)} rows, one after each token, {_size(trans)}")
    return Markov(init, np.stack([_row(r, vocab, f"{where}.trans[{i}]") for i, r in enumerate(trans)]))


def _prefix(data: Any, vocab: int, where: str) -> Table:
    rows, default = data["rows"], data.get("default")
    if not isinstance(rows, dict) or not (rows or default is not None):
        raise SpecvizError(f'{where}.rows: must be an object {{"": [..], "0,2": [..]}} with at least one row')
    found: dict[tuple[int, ...], Any] = {}
    for name, values in rows.items():
        place = f'{where}.rows["{name[:_SHOWN]}"]'
        prefix = _prefix_of(name, vocab, place)
        if prefix in found:
            raise SpecvizError(f"{place}: another key says the same prefix; keep one of them")
        found[prefix] = _row(values, vocab, place)
    return PrefixTable(found, None if default is None else _row(default, vocab, f"{where}.default"), where)


_PARSERS: dict[str, Callable[[Any, int, str], Table]] = {"iid": _iid, "markov": _markov, "prefix": _prefix}


def _prefix_of(name: str, vocab: int, where: str) -> tuple[int, ...]:
    parts = [p.strip() for p in name.split(",")] if name.strip() else []
    if not all(p.isascii() and p.isdigit() and len(p) < LONGEST and int(p) < vocab for p in parts):
        raise SpecvizError(f"{where}: a prefix is token ids 0..{vocab - 1} with commas between, '' for the empty one")
    return tuple(map(int, parts))


def _row(values: Any, vocab: int, where: str) -> Any:
    if not isinstance(values, list) or len(values) != vocab:
        raise SpecvizError(f"{where}: needs {shown(vocab)} numbers (vocab), {_size(values)}")
    row = exact_row(_number(v, f"{where}[{i}]") for i, v in enumerate(values))
    total = row.sum()
    if abs(total - 1) > ROUNDING:
        raise SpecvizError(f"{where}: sums to {float(total):.9g}, not 1")
    return row / total


def _number(value: Any, where: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _no_number(value, where)
    text = str(value)
    exponent = _EXPONENT.search(text[: LONGEST + 1])
    # 1e99999999 is short to write, and its fraction fills the memory.
    if len(text) > LONGEST or (exponent and abs(int(exponent[1].replace("_", ""))) > LONGEST):
        raise SpecvizError(f"{where}: {shown(value)} has more than {LONGEST} digits; round it")
    try:
        number = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise _no_number(value, where) from None
    if number < 0:
        raise SpecvizError(f"{where}: {value} is negative; probabilities are not")
    return number


def _no_number(value: Any, where: str) -> SpecvizError:
    return SpecvizError(f'{where}: {shown(value)} is not a number; write 0.25 or "1/4"')


def _whole(value: Any, least: int, most: int | None, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or value > (most or value):
        wanted = f"a whole number, {least} or more" if most is None else f"a whole number in {least}..{most}"
        raise SpecvizError(f"{where} is {shown(value)}; it must be {wanted}")
    return value


def _paths(data: Any, vocab: int, where: str) -> tuple[tuple[int, ...], ...]:
    if not isinstance(data, list) or not all(isinstance(p, list) and p for p in data):
        raise SpecvizError(f"{where}: must be a list of root-to-leaf paths, each a list of token ids")
    for i, path in enumerate(data):
        for token in path:
            if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocab:
                raise SpecvizError(f"{where}[{i}]: {shown(token)} is not a token id; ids are 0..{vocab - 1}")
    return tuple(tuple(path) for path in data)


def _known_keys(data: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(data, dict):
        raise SpecvizError(f"{where}: must be an object with the keys {', '.join(known)}")
    for name in data:
        if name not in known:
            raise SpecvizError(f"{where}: unknown key {shown(name)}{suggestion(name[:_SHOWN], known)}")


def _size(values: Any) -> str:
    return f"has {len(values)}" if isinstance(values, list) else f"is {shown(values)}, not a list"
