"""Filter expressions: `depth > 2 and p/q < .3`, `rejected and not text ~ "the"`, `.1 < q <= .5`, `n_accepted = 0`.

They are spelled as Python expressions and read by its parser; of the tree that comes back, a short list of nodes is
taken and nothing is ever evaluated as code. What is not recorded is unknown, and so is everything that depends on it:
an unknown does not match, negated or not.
"""

import ast
import keyword
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import SpecvizError, suggestion
from specviz.text import running
from specviz.view.find.fields import FilterField, FilterSubject, Kind

LONGEST = 400  # characters
_DEEPEST = 40  # brackets within brackets
_TOKEN = re.compile(
    r"""(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>"[^"]*"|'[^']*')
    |(?P<sign><=|>=|==|!=|&&|\|\||≤|≥|≠|[-<>=~!&|+*/()])|(?P<nothing>\S)""",
    re.VERBOSE,
)
_PYTHON = {"=": "==", "~": "in", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not"}
_PYTHON |= {"≤": "<=", "≥": ">=", "≠": "!="}
_LOGIC = ("and", "or", "not")
_GOES_THERE = "a name, a number or a text goes there"


def _equal(one: Any, other: Any) -> bool:
    """Whether two numbers are equal to the digits written in the filter: .3 has no exact binary form."""
    if isinstance(one, str | bool) or isinstance(other, bool):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-12)


def _divided(one: float, other: float) -> float | None:
    """Over 0 it is endless; 0 over 0 is unknown."""
    if other == 0:
        return None if one == 0 or math.isnan(one) else math.copysign(math.inf, one)
    return one / other


_COMPARED: Mapping[type, Callable[[Any, Any], bool]] = {
    ast.Eq: _equal,
    ast.NotEq: lambda one, other: not _equal(one, other),
    ast.In: lambda one, other: other.lower() in one.lower(),
}
_OF_NUMBERS: Mapping[type, tuple[str, Callable[[float, float], float | bool | None]]] = {
    ast.Lt: ("'<' compares", operator.lt),
    ast.LtE: ("'<=' compares", operator.le),
    ast.Gt: ("'>' compares", operator.gt),
    ast.GtE: ("'>=' compares", operator.ge),
    ast.Add: ("'+' works on", operator.add),
    ast.Sub: ("'-' works on", operator.sub),
    ast.Mult: ("'*' works on", operator.mul),
    ast.Div: ("'/' works on", _divided),
}


_COMPARING = {*_COMPARED, ast.Lt, ast.LtE, ast.Gt, ast.GtE}


@dataclass(frozen=True, slots=True)
class Filter:
    """A compiled filter. `of_node`: it tests every drafted node; else it tests rounds."""

    text: str
    of_node: bool
    matches: Callable[[FilterSubject], bool]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: `read` gives its value, None where that is unknown."""

    kind: Kind
    read: Callable[[FilterSubject], Any]
    source: str = ""
    of_node: bool = False


def parsed(text: str, known: Mapping[str, FilterField]) -> Filter:
    """The filter that was typed. Raises SpecvizError that says what is wrong with it, and the nearest right thing."""
    if len(text) > LONGEST:
        raise SpecvizError(f"a filter of {len(text)} characters; {LONGEST} at most")
    if not text.strip():
        raise SpecvizError("the filter is empty; write one as depth>2 and p/q<.3, or rejected")
    spelled = _spelled(text, known)
    try:
        tree = ast.parse(spelled, mode="eval")
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise _wrong(_misread(spelled, error.offset if isinstance(error, SyntaxError) else None)) from None
    whole = _truth(_part(tree.body, known))
    return Filter(text.strip(), whole.of_node, lambda at: whole.read(at) is True)


def _wrong(reason: str) -> SpecvizError:
    return SpecvizError(f"filter: {reason}")


def _spelled(text: str, known: Mapping[str, FilterField]) -> str:
    """The text as Python spells it, with one space between tokens."""
    out: list[str] = []
    deep = 0
    for match in _TOKEN.finditer(text):
        kind, word = match.lastgroup, match.group()
        if kind == "nothing":
            raise _wrong("a text has no closing quote" if word in "\"'" else f"'{running(word)}' says nothing")
        if kind == "name" and word.lower() in _LOGIC:
            word = word.lower()
        elif kind == "name" and keyword.iskeyword(word):
            raise _wrong(f"no '{word}'{suggestion(word, known)}")
        elif kind != "name":
            number_or_text = repr(min(float(word), 1e308)) if kind == "number" else ascii(word[1:-1])
            word = _PYTHON.get(word, word) if kind == "sign" else number_or_text
        deep += (word == "(") - (word == ")")
        if deep > _DEEPEST:
            raise _wrong(f"more than {_DEEPEST} brackets within each other")
        out.append(word)
    return " ".join(out)


def _misread(spelled: str, offset: int | None) -> str:
    """Why Python's parser does not read it, from the place where it stopped."""
    if re.search(r"(?:[-+*/<>=(]|\b(?:and|or|not|in))$", spelled):
        return f"at its end: something is missing; {_GOES_THERE}"
    words = [match.group() for match in _TOKEN.finditer(spelled) if match.lastgroup == "sign"]
    if words.count("(") > words.count(")"):
        return "a bracket is not closed"
    rest = spelled[max(0, (offset or 1) - 1) :].split() or [spelled]
    return f"'{running(rest[0])}' is not expected; join two tests with 'and' or 'or'"


# The nodes of Python's tree that are taken ---------------------------------------------------------------------------


def _part(node: ast.expr, known: Mapping[str, FilterField], deep: int = 0) -> _Part:
    if deep > _DEEPEST:
        raise _wrong(f"more than {_DEEPEST} brackets or 'not' within each other")
    match node:
        case ast.Constant(value=float() | str() as value):
            return _Part("text" if isinstance(value, str) else "number", lambda _: value, running(str(value)))
        case ast.Name(id=name):
            field = known.get(name) or known.get(name.lower())
            if field is None:
                raise _wrong(f"no '{name}'{suggestion(name, known)}")
            return _Part(field.kind, field.value, field.name, field.of_node)
        case ast.BoolOp(op=op, values=values):
            return _joined([_part(value, known) for value in values], isinstance(op, ast.Or))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(_part(operand, known, deep + 1))
            return _Part(
                "truth", lambda at: None if (operand := inner.read(at)) is None else not operand, "", inner.of_node
            )
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _both(_Part("number", lambda _: 0.0), ast.Sub, _part(operand, known, deep + 1), "number")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OF_NUMBERS:
            return _both(_part(left, known), type(op), _part(right, known), "number")
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARING for op in ops):
            parts = [_part(expression, known) for expression in (left, *others)]
            tests = zip(parts, ops, parts[1:], strict=False)
            return _joined([_both(one, type(op), other, "truth") for one, op, other in tests], stops=False)
    raise _wrong(f"'{running(ast.unparse(node))}' cannot stand here; {_GOES_THERE}")


def _truth(part: _Part) -> _Part:
    if part.kind == "number":
        raise _wrong(f"{part.source or 'this'} is a number; compare it, as in {part.source or 'p/q'} > 2")
    if part.kind == "text":
        raise _wrong('a text is no test; write text ~ "the"')
    return part


def _joined(parts: list[_Part], stops: bool) -> _Part:
    """Truths joined: one that is `stops` decides; else an unknown one leaves it unknown."""
    reads = [_truth(part).read for part in parts]

    def read(at: FilterSubject) -> bool | None:
        truths = [one(at) for one in reads]
        return stops if stops in truths else None if None in truths else not stops

    return _Part("truth", read, of_node=any(part.of_node for part in parts))


def _both(left: _Part, op: type, right: _Part, kind: Kind) -> _Part:
    """A comparison or a calculation; unknown where a side of it is."""
    kinds = {left.kind, right.kind}
    if op is ast.In and kinds != {"text"}:
        raise _wrong('~ looks for a text in a text, as in text ~ "the"')
    if op in _OF_NUMBERS:
        does, work = _OF_NUMBERS[op]
        if kinds != {"number"}:
            odd = left if left.kind != "number" else right
            raise _wrong(f"{odd.source or 'this'} is no number; {does} numbers")
    else:
        work = _COMPARED[op]
        if len(kinds) > 1:
            raise _wrong(f"a {left.kind} is compared with a {right.kind}")

    def read(at: FilterSubject) -> Any:
        one, other = left.read(at), right.read(at)
        return None if one is None or other is None else work(one, other)

    return _Part(kind, read, of_node=left.of_node or right.of_node)
