"""What is measured: the contestants ("arms") by name, and everything that must be equal between them.

An arm is one of ours (`ar`, `chain`, `tree`, `ngram`), one of the library's loops (`hf-generate`, `hf-assisted`,
`hf-lookup`), or one of ours with instrumentation (`chain+summary`). Nothing watches an arm without a level.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from specviz.errors import SpecvizError, suggestion
from specviz.events.base import LEVELS, Level
from specviz.knobs import Knobs
from specviz.methods import Method, get_method

OURS: dict[str, str] = {"ar": "ar", "chain": "draft", "tree": "draft", "ngram": "ngram"}  # kind -> method
PEERS: tuple[str, ...] = ("hf-generate", "hf-assisted", "hf-lookup")
DEFAULT = "ar,hf-generate,chain,hf-assisted,ngram,hf-lookup,tree,chain+none,chain+summary,chain+full"
DRAFTED = frozenset({"chain", "tree", "hf-assisted"})  # kinds that need a draft model


@dataclass(frozen=True, slots=True)
class Contestant:
    """One arm: its name as typed, what it is, and the level it is recorded at (None: not at all)."""

    name: str
    kind: str
    level: Level | None = None

    @property
    def peer(self) -> bool:
        """Whether the library's own loop runs it."""
        return self.kind in PEERS


def contestants(names: str) -> tuple[Contestant, ...]:
    """The arms of a comma list. Raises SpecvizError with the nearest name."""
    found = tuple(_contestant(name.strip()) for name in names.split(",") if name.strip())
    if not found:
        raise SpecvizError(f"--methods names nothing to measure; known: {', '.join((*OURS, *PEERS))}")
    twice = [arm.name for k, arm in enumerate(found) if arm in found[:k]]
    if twice:
        raise SpecvizError(f"--methods names '{twice[0]}' twice")
    return found


def _contestant(name: str) -> Contestant:
    kind, plus, level = name.partition("+")
    if kind not in OURS and kind not in PEERS:
        raise SpecvizError(f"--methods: no method '{kind}'{suggestion(kind, (*OURS, *PEERS))}")
    if not plus:
        return Contestant(name, kind)
    if kind in PEERS:
        raise SpecvizError(f"--methods: '{name}': only our own methods can be recorded; write {kind}")
    if level not in LEVELS:
        raise SpecvizError(f"--methods: '{name}': no level '{level}'{suggestion(level, LEVELS)}")
    return Contestant(name, kind, cast(Level, level))


@dataclass(frozen=True, slots=True)
class Settings:
    """One measurement. `threads` 0: found by a probe. `minutes`: no turn begins that would end after them."""

    arms: tuple[Contestant, ...]
    gamma: int = 4
    max_new_tokens: int = 64
    repeats: int = 5
    temperature: float = 0.0
    limit: int | None = None
    minutes: float | None = None
    target: str | None = None
    draft: str | None = None
    device: str | None = None
    dtype: str | None = None
    threads: int = 0
    memory: bool = True
    prompts: Path | None = None
    knobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # kind -> knob -> value

    @property
    def needs_draft(self) -> bool:
        """Whether any arm drafts with a second model."""
        return any(arm.kind in DRAFTED for arm in self.arms)

    def method_knobs(self, kind: str) -> tuple[Method, Knobs]:
        """Method and knobs of one of our kinds. Raises KnobError."""
        method = get_method(OURS[kind])
        own = {spec.name for spec in method.knobs}
        values: dict[str, Any] = {"max_new_tokens": self.max_new_tokens, "temperature": self.temperature}
        if "shape" in own:
            values["shape"] = kind
        if "gamma" in own:
            values["gamma"] = self.gamma
        return method, method.table.knobs({**values, **self.knobs.get(kind, {})})

    @property
    def lookup_length(self) -> int:
        """Longest suffix that prompt lookup matches, the same for us and the library."""
        return int(self.method_knobs("ngram")[1]["ngram_max"])


def parse_knobs(given: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`("tree.node_budget=16",)` to `{"tree": {"node_budget": "16"}}`. Raises SpecvizError."""
    out: dict[str, dict[str, str]] = {}
    for text in given:
        place, equals, value = text.partition("=")
        kind, dot, name = place.partition(".")
        if not (equals and dot and name):
            raise SpecvizError(f"--knob '{text}': write METHOD.NAME=VALUE, as in tree.node_budget=16")
        if kind not in OURS:
            raise SpecvizError(f"--knob '{text}': no method '{kind}'{suggestion(kind, OURS)}")
        if name in ("shape", "gamma", "temperature", "max_new_tokens"):
            raise SpecvizError(f"--knob '{text}': {name} is the same for all methods here; use its own option")
        out.setdefault(kind, {})[name] = value
    return out
