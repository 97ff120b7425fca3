"""Detectors by declaration: a function with `@detector` in a module of `specviz.judge.detectors`; one more adds a file.

A detector is given evidence of the kind it names, and returns a finding, or None where chance explains what it sees.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from specviz.judge.finding import CERTAINTIES, Finding

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Detector:
    """`kind`: the class of evidence it takes; `rank`: its place among findings that are equally certain."""

    kind: type[Any]
    rank: int
    rule: Callable[[Any], Finding | None]


_DECLARED: list[Detector] = []


def detector(
    kind: type[Seen], rank: int
) -> Callable[[Callable[[Seen], Finding | None]], Callable[[Seen], Finding | None]]:
    """Declare a detector for one kind of evidence (`specviz.judge.evidence`): causes before what follows from them, a
    dead draft before a dear one."""

    def declare(rule: Callable[[Seen], Finding | None]) -> Callable[[Seen], Finding | None]:
        _DECLARED.append(Detector(kind, rank, rule))
        return rule

    return declare


@cache
def detectors() -> tuple[Detector, ...]:
    """All of them, by rank."""
    package = importlib.import_module("specviz.judge.detectors")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted(_DECLARED, key=lambda declared: declared.rank))


def best_first(findings: list[tuple[int, Finding]]) -> tuple[Finding, ...]:
    """Those that lead to a fault first; of these the surest, and of those equally certain by rank."""
    order = sorted(findings, key=lambda pair: (not pair[1].fault, CERTAINTIES.index(pair[1].certainty), pair[0]))
    return tuple(finding for _, finding in order)
