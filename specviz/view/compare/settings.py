"""What several runs were set to when they began: what differs between them, and how much does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specviz.events import Header, ModelInfo, Prefill
from specviz.numerals import UNKNOWN
from specviz.text import running
from specviz.view.words.numbers import knob as shown

_MACHINE = ("threads", "products", "exact", "layers", "python", "torch", "transformers", "machine", "system")
_HASH = 12  # letters that are shown


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


def settings(sets: Sequence[Mapping[str, str]]) -> tuple[Setting, ...]:
    """Of every set what `set_to` tells, in the order in which the sets have it."""
    names = list(dict.fromkeys(name for run_settings in sets for name in run_settings))
    return tuple(Setting(name, tuple(run_settings.get(name, UNKNOWN) for run_settings in sets)) for name in names)


def set_to(header: Header | None, prefill: Prefill | None) -> dict[str, str]:
    """Method, verifier, models, seed, sampling, knobs, then the machine and what multiplied on it."""
    if header is None:
        return {}
    outside, target, draft = header.outside, header.models.target, header.models.draft
    named = {
        "method": header.method,
        "verifier": header.verifier,
        "engine": UNKNOWN if outside is None else " ".join(filter(None, (outside.engine, outside.version))),
        "rule": UNKNOWN if outside is None else outside.setting,
        "target": _model(target),
        "draft": _model(draft),
        "target weights": _weights(target),
        "draft weights": _weights(draft),
        **{f"trained {part}": value for part, value in header.models.parts.items()},
        "lanes": header.lanes,
        "seed": UNKNOWN if prefill is None else str(prefill.seed),
    }
    knobs = header.sampling | header.knobs
    machine: dict[str, Any] = {"recorded": header.level} | {
        name: header.env[name] for name in _MACHINE if name in header.env
    }
    return {name: running(text) for name, text in named.items() if text != UNKNOWN} | {
        name: running(shown(value)) for name, value in (knobs | machine).items() if name not in named
    }


def _model(info: ModelInfo | None) -> str:
    return UNKNOWN if info is None else " ".join(filter(None, (info.name, info.dtype, info.device)))


def _weights(info: ModelInfo | None) -> str:
    """Their hash: another training of the same name is another model."""
    return UNKNOWN if info is None or info.hash is None else info.hash[:_HASH]
