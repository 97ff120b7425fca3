"""Filter expressions: `depth > 2 and p/q < .3`, `rejected and not text ~ "the"`, `.1 < q <= .5`, `n_accepted = 0`.

    either   = both { ("or" | "|") both }
    both     = one { ("and" | "&") one }
    one      = ("not" | "!") one | compared
    compared = sum { ("<" | "<=" | ">" | ">=" | "=" | "!=" | "~") sum }
    sum      = product { ("+" | "-") product }
    product  = factor { ("*" | "/") factor }
    factor   = "-" factor | number | "text" | name | "(" either ")"

Read by hand, never evaluated as code. What is not recorded is unknown, and so is everything that depends on it: an
unknown does not match, negated or not.
"""

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
    r"""(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)|(?P<name>[A-Za-z_]\w*)|(?P<text>"[^"]*"|'[^']*')
    |(?P<sign><=|>=|==|!=|&&|\|\||≤|≥|≠|[-<>=~!&|+*/()])""",
    re.VERBOSE,
)
_SAME = {"==": "=", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "≤": "<=", "≥": ">=", "≠": "!="}
_WORDS = ("and", "or", "not")
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
Read = Callable[[FilterSubject], Any]


@dataclass(frozen=True, slots=True)
class Filter:
    """`of_node`: it is asked of every drafted node; else of rounds."""

    text: str
    of_node: bool
    matches: Callable[[FilterSubject], bool]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class _Part:
    kind: Kind
    read: Read
    at: int
    said: str
    of_node: bool = False


def parsed(text: str, known: Mapping[str, FilterField]) -> Filter:
    """The filter that was typed. Raises SpecvizError that says where it goes wrong, and the nearest right thing."""
    if len(text) > LONGEST:
        raise SpecvizError(f"a filter of {len(text)} characters; {LONGEST} at most")
    return _Parser(text, known).filter()


class _Parser:
    def __init__(self, text: str, known: Mapping[str, FilterField]) -> None:
        self._text, self._known = text, known
        self._tokens, self._next, self._depth = self._cut(text), 0, 0

    def _cut(self, text: str) -> list[_Token]:
        found, at = [], 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                wrong = "a text has no closing quote" if text[at] in "\"'" else f"'{running(text[at])}' says nothing"
                raise self._error(wrong, at)
            word = match.group()
            plain = _SAME.get(word, word.lower() if word.lower() in _WORDS else word)
            kind = "sign" if plain in _WORDS else match.lastgroup
            found.append(_Token(kind, plain, at))
            at = match.end()
        return found

    def _error(self, reason: str, at: int | None = None) -> SpecvizError:
        place = f"at {running(self._text[at : at + 12])!r}" if at is not None and at < len(self._text) else "at its end"
        return SpecvizError(f"filter, {place}: {reason}")

    # Reading ---------------------------------------------------------------------------------------------------------

    def filter(self) -> Filter:
        if not self._tokens:
            raise SpecvizError("the filter is empty; write one as depth>2 and p/q<.3, or rejected")
        whole = self._truth(self._either())
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            raise self._error(f"'{running(token.text)}' is not expected; join two tests with 'and' or 'or'", token.at)
        return Filter(self._text.strip(), whole.of_node, lambda at: whole.read(at) is True)

    def _peek(self) -> str:
        """The sign that comes next; nothing when it is none."""
        if self._next >= len(self._tokens) or self._tokens[self._next].kind != "sign":
            return ""
        return self._tokens[self._next].text

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _either(self) -> _Part:
        parts = [self._both()]
        while self._peek() == "or":
            self._take()
            parts.append(self._both())
        return self._joined(parts, stops=True)

    def _both(self) -> _Part:
        parts = [self._one()]
        while self._peek() == "and":
            self._take()
            parts.append(self._one())
        return self._joined(parts, stops=False)

    def _joined(self, parts: list[_Part], stops: bool) -> _Part:
        """Truths joined: one that is `stops` decides; else an unknown one leaves it unknown."""
        if len(parts) == 1:
            return parts[0]
        reads = [self._truth(part).read for part in parts]

        def read(at: FilterSubject) -> bool | None:
            found = [one(at) for one in reads]
            return stops if stops in found else None if None in found else not stops

        return _Part("truth", read, parts[0].at, "", any(part.of_node for part in parts))

    def _one(self) -> _Part:
        if self._peek() != "not":
            return self._compared()
        token = self._take()
        self._deeper()
        part = self._truth(self._one())
        self._depth -= 1

        def read(at: FilterSubject) -> bool | None:
            found = part.read(at)
            return None if found is None else not found

        return _Part("truth", read, token.at, "", part.of_node)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} brackets within each other")

    def _compared(self) -> _Part:
        left = self._sum()
        tests: list[_Part] = []
        while (sign := self._peek()) in (*_ORDER, "=", "!=", "~"):
            token = self._take()
            right = self._sum()
            tests.append(self._test(left, sign, right, token.at))
            left = right
        return self._joined(tests, stops=False) if tests else left

    def _test(self, left: _Part, sign: str, right: _Part, at: int) -> _Part:
        kinds = {left.kind, right.kind}
        if sign == "~" and kinds != {"text"}:
            raise self._error('~ looks for a text in a text, as in text ~ "the"', at)
        if sign in _ORDER and kinds != {"number"}:
            wrong = left if left.kind != "number" else right
            raise self._error(f"{wrong.said or 'this'} is no number; '{sign}' compares numbers", wrong.at)
        if len(kinds) > 1:
            raise self._error(f"a {left.kind} is compared with a {right.kind}", at)
        compare = _comparison(sign)

        def read(asked: FilterSubject) -> bool | None:
            one, other = left.read(asked), right.read(asked)
            return None if one is None or other is None else compare(one, other)

        return _Part("truth", read, left.at, "", left.of_node or right.of_node)

    def _sum(self) -> _Part:
        return self._arithmetic(self._product, ("+", "-"))

    def _product(self) -> _Part:
        return self._arithmetic(self._factor, ("*", "/"))

    def _arithmetic(self, part: Callable[[], _Part], signs: tuple[str, ...]) -> _Part:
        left = part()
        while (sign := self._peek()) in signs:
            token = self._take()
            left = self._calculated(left, sign, part(), token.at)
        return left

    def _calculated(self, left: _Part, sign: str, right: _Part, at: int) -> _Part:
        for part in (left, right):
            if part.kind != "number":
                raise self._error(f"{part.said or 'this'} is no number; '{sign}' works on numbers", part.at)
        calculate = _CALCULATIONS[sign]

        def read(asked: FilterSubject) -> float | None:
            one, other = left.read(asked), right.read(asked)
            return None if one is None or other is None else calculate(one, other)

        return _Part("number", read, left.at, "", left.of_node or right.of_node)

    def _factor(self) -> _Part:
        if self._next >= len(self._tokens):
            raise self._error("something is missing; a name, a number or a text goes there")
        token = self._take()
        if token.kind == "number":
            value = float(token.text)
            return _Part("number", lambda at: value, token.at, token.text)
        if token.kind == "text":
            said = token.text[1:-1]
            return _Part("text", lambda at: said, token.at, token.text)
        if token.kind == "name":
            return self._named(token)
        if token.text == "-":
            self._deeper()
            part = self._factor()
            self._depth -= 1
            return self._calculated(_Part("number", lambda at: 0.0, token.at, "0"), "-", part, token.at)
        if token.text == "(":
            self._deeper()
            inner = self._either()
            if self._peek() != ")":
                raise self._error("a bracket is not closed", token.at)
            self._take()
            self._depth -= 1
            return inner
        raise self._error(f"'{running(token.text)}' cannot stand here; a name, a number or a text goes there", token.at)

    def _named(self, token: _Token) -> _Part:
        field = self._known.get(token.text) or self._known.get(token.text.lower())
        if field is None:
            raise self._error(f"no '{token.text}'{suggestion(token.text, self._known)}", token.at)
        return _Part(field.kind, field.value, token.at, field.name, field.of_node)

    def _truth(self, part: _Part) -> _Part:
        if part.kind == "number":
            name = part.said or "this"
            raise self._error(f"{name} is a number; compare it, as in {part.said or 'p/q'} > 2", part.at)
        if part.kind == "text":
            raise self._error('a text is no test; write text ~ "the"', part.at)
        return part


def _comparison(sign: str) -> Callable[[Any, Any], bool]:
    if sign in _ORDER:
        return _ORDER[sign]
    if sign == "~":
        return lambda one, other: other.lower() in one.lower()
    return _equal if sign == "=" else lambda one, other: not _equal(one, other)


def _equal(one: Any, other: Any) -> bool:
    """Numbers as far as they are written: a probability of .3 is no binary fraction."""
    if isinstance(one, str | bool) or isinstance(other, bool):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-12)


def _divided(one: float, other: float) -> float | None:
    """Over 0 it is endless; 0 over 0 is unknown."""
    if other == 0:
        return None if one == 0 or math.isnan(one) else math.copysign(math.inf, one)
    return one / other


_CALCULATIONS: Mapping[str, Callable[[float, float], float | None]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
}
