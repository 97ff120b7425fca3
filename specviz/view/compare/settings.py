"""What several runs were set to when they began: what differs between them, and how much does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.events import Header
from specviz.runlog.fold import Run
from specviz.text import running
from specviz.view.words.numbers import UNKNOWN
from specviz.view.words.numbers import knob as shown


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that can be set. `values`: of every run, `—` where it has no such thing."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether two runs that have it have it otherwise."""
        return len(set(self.values) - {UNKNOWN}) > 1

    @property
    def partly(self) -> bool:
        """Whether some runs have it and others do not."""
        return UNKNOWN in self.values and not self.differs and set(self.values) != {UNKNOWN}


def settings(runs: Sequence[Run]) -> tuple[Setting, ...]:
    """Method, verifier, models, seed, then every knob in the order in which the runs have them."""
    found = [_of(run) for run in runs]
    names = list(dict.fromkeys(name for each in found for name in each))
    return tuple(Setting(name, tuple(each.get(name, UNKNOWN) for each in found)) for name in names)


def _of(run: Run) -> dict[str, str]:
    header = run.header
    if header is None:
        return {}
    prefill = run.queries[0].prefill if run.queries else None
    named = {
        "method": header.method,
        "verifier": header.verifier,
        "target": _model(header, "target"),
        "draft": _model(header, "draft"),
        "lanes": header.lanes,
        "seed": UNKNOWN if prefill is None else str(prefill.seed),
    }
    knobs: Mapping[str, Any] = header.sampling | header.knobs
    return {name: running(text) for name, text in named.items()} | {
        name: running(shown(value)) for name, value in knobs.items() if name not in named
    }


def _model(header: Header, which: str) -> str:
    info = header.models.target if which == "target" else header.models.draft
    if info is None:
        return UNKNOWN
    return " ".join(filter(None, (info.name, info.dtype)))
