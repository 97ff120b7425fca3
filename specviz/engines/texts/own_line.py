"""A line of an engine that nobody here knows, by its user's pattern: `steps={rounds} proposed={drafted}
accepted={kept}`."""

import re

from specviz.engines.texts.history import CountHistory, CountWindow
from specviz.engines.texts.lines import LineKind, TextKind
from specviz.engines.texts.numbers import wall_of
from specviz.errors import SpecvizError, suggestion
from specviz.text import quoted

_FIELDS = {
    "rounds": "n_rounds",
    "drafted": "n_drafted",
    "kept": "n_accepted",
    "generated": "n_generated",
    "length": "length",
    "rate": "rate",
}
_WORD = re.compile(r"\{(\w*)\}")


def own_lines(pattern: str | None) -> tuple[TextKind, ...]:
    """The kinds of lines of `--line`: one, or none where it is not given. Raises SpecvizError."""
    return () if pattern is None else (own_line(pattern),)


def own_line(pattern: str) -> TextKind:
    """The kind of lines that a pattern describes: words as they stand, `{rounds}` and the others for numbers, `{}` for
    what is passed over. Raises SpecvizError for a field that is not known, and for a pattern without one."""
    expression, fields, at = "", [], 0
    for match in _WORD.finditer(pattern):
        expression += re.escape(pattern[at : match.start()])
        name = match[1]
        if not name:
            expression += r".{0,200}?"
        elif name not in _FIELDS:
            raise SpecvizError(
                f"--line: no field {quoted(name)}{suggestion(name, _FIELDS)}; known are {', '.join(_FIELDS)}"
            )
        elif name in fields:
            raise SpecvizError(f"--line: the field {quoted(name)} stands in it twice")
        else:
            fields.append(name)
            expression += rf"\s*(?P<{name}>\d+(?:\.\d+)?)"
        at = match.end()
    expression += re.escape(pattern[at:])
    if "length" not in fields and not {"rounds", "kept"} <= set(fields):
        raise SpecvizError("--line: name {rounds} and {kept}, or {length}: 'steps={rounds} accepted={kept}'")
    first = next((part for part in _WORD.sub("\0", pattern).split("\0") if part.strip()), "")
    finder = re.compile(expression)

    class OwnLine:
        """Windows by that pattern."""

        def __init__(self) -> None:
            self._history = CountHistory("another engine", "over the text")

        def take(self, line: str) -> bool | None:
            """One line."""
            match = finder.search(line)
            if match is None:
                return False
            window = CountWindow(wall_of(line))
            for name in fields:
                number = float(match[name])
                value = number / 100 if name == "rate" and number > 1 else number
                setattr(window, _FIELDS[name], value if name in ("length", "rate") else round(value))
            if window.n_generated is None and window.n_rounds is not None and window.n_accepted is not None:
                window.n_generated = window.n_rounds + window.n_accepted
            self._history.add(window)
            return True

        def histories(self) -> list[CountHistory]:
            """One."""
            return [self._history]

    return LineKind("the lines of --line", (first,), OwnLine)
