"""What is measured: the contestants ("arms") by name, and everything that must be equal between them.

An arm is one of ours (every method by its name, and every layout of `draft` in its place: `chain`, `tree`, ..), one of
the library's loops (`hf-generate`, `hf-compiled`, `hf-assisted`, `hf-lookup`, `hf-early-exit`), llama.cpp's server
(`llama-plain`, `llama-draft`, `llama-ngram`, each also over the same weights in fewer bits: `llama-plain:q8_0`), or one
of ours under another verifier (`chain:hsd`), with knobs set by hand (`eagle3@d_max=2@node_budget=4`, which then drafts
every round) or with instrumentation (`chain+summary`, `chain:hsd+full`). Nothing watches an arm without a level.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from specviz.errors import SpecvizError, suggestion
from specviz.events.base import LEVELS, Level
from specviz.knobs import Knobs
from specviz.methods import Method, all_methods, get_method

# The method with several layouts stands here by these, plain decoding is what all are held against.
LAID_OUT, LAYOUTS = next(
    (method.name, knob.choices) for method in all_methods().values() for knob in method.knobs if knob.name == "shape"
)
PLAIN = next(name for name, method in all_methods().items() if method.traits.plain)
OURS: dict[str, str] = {  # kind -> method
    PLAIN: PLAIN,
    **dict.fromkeys(LAYOUTS, LAID_OUT),
    **{name: name for name in all_methods() if name != LAID_OUT},
}
SERVED = ("llama-plain", "llama-draft", "llama-ngram")  # by llama.cpp's server
PACKED = ("q8_0", "q4_0")  # of llama.cpp's own formats, those of fewer bits
PEERS: tuple[str, ...] = ("hf-generate", "hf-compiled", "hf-assisted", "hf-lookup", "hf-early-exit", *SERVED)
LANES = ("auto", "serial", "threads", "streams", "two_device")
SHAPES = ("0.5b", "tiny")  # random weights, `specviz_lab.bench.speed`
PEER_TABLE = (
    "ar,hf-generate,hf-compiled,hf-lookup,llama-plain,llama-plain:q8_0,llama-plain:q4_0,llama-draft,llama-ngram,"
    "chain,pearl,eagle3,specblock,ngram"
)
DEFAULT = "ar,hf-generate,chain,hf-assisted,ngram,hf-lookup,tree,chain+none,chain+summary,chain+full"
DRAFTED = frozenset(
    {"hf-assisted", "llama-draft", *(kind for kind, name in OURS.items() if get_method(name).needs_draft)}
)
CLIMBERS = frozenset({"hf-early-exit", *(k for k, name in OURS.items() if get_method(name).traits.exits != "none")})


@dataclass(frozen=True, slots=True)
class Contestant:
    """One arm: its name as typed, what it is, the level it is recorded at (None: not at all), its verifier (None: the
    method's own for the temperature), knobs of this arm alone, and the format of its weights (None: as they are)."""

    name: str
    kind: str
    level: Level | None = None
    verifier: str | None = None
    knobs: tuple[tuple[str, Any], ...] = ()
    packed: str | None = None

    @property
    def bare(self) -> str:
        """The name of the same arm, unrecorded."""
        return self.name.partition("+")[0]

    @property
    def peer(self) -> bool:
        """Whether another engine runs it: the library's own loop, or llama.cpp's server."""
        return self.kind in PEERS

    @property
    def served(self) -> bool:
        """Whether llama.cpp's server runs it."""
        return self.kind in SERVED

    @property
    def plain(self) -> bool:
        """Whether it is our plain decoding."""
        return self.kind == PLAIN


def contestants(names: str) -> tuple[Contestant, ...]:
    """The arms of a comma list. Raises SpecvizError with the nearest name."""
    arms = tuple(_contestant(name.strip()) for name in names.split(",") if name.strip())
    if not arms:
        raise SpecvizError(f"--methods names nothing to measure; known: {', '.join((*OURS, *PEERS))}")
    twice = [arm.name for k, arm in enumerate(arms) if arm in arms[:k]]
    if twice:
        raise SpecvizError(f"--methods names '{twice[0]}' twice")
    return arms


def _contestant(name: str) -> Contestant:
    bare, plus, level = name.partition("+")
    bare, *fixed = bare.split("@")
    kind, colon, verifier = bare.partition(":")
    if kind not in OURS and kind not in PEERS:
        raise SpecvizError(f"--methods: no method '{kind}'{suggestion(kind, (*OURS, *PEERS))}")
    if kind in SERVED and colon and not plus:
        if verifier not in PACKED:
            raise SpecvizError(f"--methods: '{name}': no format '{verifier}'{suggestion(verifier, PACKED)}")
        return Contestant(name, kind, packed=verifier)
    if kind in PEERS and (more := plus or "@" * bool(fixed) or colon):
        raise SpecvizError(f"--methods: '{name}': only our own methods can be {_CAN[more]}; write {kind}")
    if colon and verifier not in get_method(OURS[kind]).verifiers:
        known = get_method(OURS[kind]).verifiers
        raise SpecvizError(f"--methods: '{name}': no verifier '{verifier}'{suggestion(verifier, known)}")
    if plus and level not in LEVELS:
        raise SpecvizError(f"--methods: '{name}': no level '{level}'{suggestion(level, LEVELS)}")
    knobs = tuple((knob, value) for knob, _, value in (text.partition("=") for text in fixed))
    if not all(knob and value for knob, value in knobs):
        raise SpecvizError(f"--methods: '{name}': behind @ stands KNOB=VALUE, as in eagle3@node_budget=4")
    return Contestant(name, kind, cast(Level, level) if plus else None, verifier or None, knobs)


_CAN = {"+": "recorded", "@": "given a knob", ":": "given a verifier"}


@dataclass(frozen=True, slots=True)
class BenchSettings:
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
    shape: str | None = None  # random weights of this size in place of models
    device: str | None = None
    dtype: str | None = None
    threads: int = 0
    lanes: str = "auto"  # of methods that draft beside the target's pass
    auto: bool = False  # whether ours draft nothing where that does not pay
    exit_layer: int | None = None  # of the library's early exit; None: half of the layers
    prompts: Path | None = None
    knobs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # kind -> knob -> value

    @property
    def needs_draft(self) -> bool:
        """Whether any arm drafts with a second model."""
        return any(arm.kind in DRAFTED for arm in self.arms)

    def method_knobs(self, kind: str, more: Mapping[str, Any] | None = None) -> tuple[Method, Knobs]:
        """Method and knobs of one of our kinds, `more` of them on top. Raises KnobError."""
        method = get_method(OURS[kind])
        own = {spec.name for spec in method.own}
        values: dict[str, Any] = {"max_new_tokens": self.max_new_tokens, "temperature": self.temperature}
        if "shape" in own:
            values["shape"] = kind
        if "gamma" in own:
            values["gamma"] = self.gamma
        return method, method.table.knobs({**values, **self.knobs.get(kind, {}), **(more or {})})

    @property
    def checked_knobs(self) -> dict[str, dict[str, Any]]:
        """The knobs that were given, by kind, as their methods take them."""
        return {kind: dict(self.method_knobs(kind)[0].table.check(knobs)) for kind, knobs in self.knobs.items()}

    @property
    def lookup_length(self) -> int:
        """Longest suffix that prompt lookup matches, the same for us and the library."""
        return int(self.method_knobs("ngram")[1]["ngram_max"])


def parse_knobs(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`("tree.node_budget=16",)` to `{"tree": {"node_budget": "16"}}`. Raises SpecvizError."""
    out: dict[str, dict[str, str]] = {}
    for text in texts:
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


@dataclass(frozen=True, slots=True)
class Variant:
    """A row of `specviz lab ablate`: a method, and what is switched off in it."""

    name: str
    method: str
    knobs: Mapping[str, Any] = field(default_factory=dict)


NO_HRAD, NO_BRANCHES = {"hrad": ["none"]}, {"k_max": 1}  # a k_max of 1 forks one branch and no more
FULL = "specbranch"
VARIANTS = (
    Variant("ar", "ar"),
    Variant("lookahead", "lookahead"),
    Variant("sps", "sps"),
    Variant("adaedl", "adaedl"),
    Variant("pearl", "pearl"),
    Variant(FULL, "specbranch"),
    Variant("- hrad", "specbranch", NO_HRAD),
    Variant("- branches", "specbranch", NO_BRANCHES),
    Variant("- both", "specbranch", {**NO_HRAD, **NO_BRANCHES}),
)
