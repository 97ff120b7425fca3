"""Records of a run: header, catalogue, knob, warn, note, finding, end, and two that live on the wire only."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from specviz.events.base import Count, Depth, Event, Level, Real
from specviz.events.outside import Outside
from specviz.knobs import KnobSpec
from specviz.traits import MethodTraits, VerifierTraits


class ModelInfo(msgspec.Struct, kw_only=True):
    """What a trace says of a model. `name` is a folder's last part or a hub id, never a path."""

    name: str
    arch: str | None = None
    n_layers: Depth | None = None
    width: Count | None = None
    n_params: Annotated[int, Meta(ge=0, le=2**60)] | None = None
    vocab: Count | None = None
    dtype: str | None = None
    device: str | None = None
    hash: str | None = None


class Models(msgspec.Struct, kw_only=True):
    """The models of a run. `parts`: trained parts such as exit heads, by name, with what was loaded."""

    target: ModelInfo | None = None
    draft: ModelInfo | None = None
    parts: dict[str, str] = {}


class Missing(msgspec.Struct, kw_only=True, frozen=True):
    """Why a method cannot run with the models that were loaded, and what mends that."""

    why: str
    command: str  # the exact line that makes what is missing, or how it is named
    then: str = ""  # what to give besides, once it is made; nothing where it is found by itself
    knob: str | None = None  # names the missing part by hand: with it the method runs all the same

    @property
    def text(self) -> str:
        """All in a line."""
        return f"{self.why}: {self.command}" + (f", then give {self.then}" if self.then else "")


class MethodInfo(msgspec.Struct, kw_only=True):
    """A method as the catalogue shows it."""

    name: str
    help: str
    needs_draft: bool
    verifiers: list[str]
    default_verifier: tuple[str, str]  # at T = 0, at T > 0
    knobs: list[KnobSpec]
    traits: MethodTraits = MethodTraits()
    missing: Missing | None = None  # None: it runs

    def lacks(self, knobs: Mapping[str, Any]) -> str | None:
        """Why it cannot run under these knobs; None: it can."""
        named = self.missing is not None and self.missing.knob is not None and bool(knobs.get(self.missing.knob))
        return None if self.missing is None or named else f"{self.name} cannot run here: {self.missing.text}"


class VerifierInfo(msgspec.Struct, kw_only=True):
    """A verifier as the catalogue shows it."""

    name: str
    lossless: bool
    keeps_tokens: bool
    help: str
    traits: VerifierTraits = VerifierTraits()


class Catalogue(Event, tag="catalogue", kw_only=True):
    """First line of a worker, never in a file: what can be run."""

    methods: list[MethodInfo]
    verifiers: list[VerifierInfo]
    models: Models
    devices: list[str] = []
    chat: bool = False  # whether the target's tokenizer has a chat template
    talks: bool = False  # whether prompts are messages where nobody says otherwise

    def lacks(self, method: str, knobs: Mapping[str, Any]) -> str | None:
        """Why that method cannot run under these knobs, with what mends it; None: it can, or the core will say."""
        return next((info.lacks(knobs) for info in self.methods if info.name == method), None)


class Header(Event, tag="header", kw_only=True):
    """First line of a file: what ran, with what, and how it was recorded.

    The traits, since version 1.2, say what kind of method and verifier it was; a reader fills in those of older traces.
    """

    schema: str
    v: tuple[int, int]
    run: str
    wall: str  # ISO 8601, UTC
    method: str
    drafter: str
    verifier: str
    lanes: str
    lossless: bool
    keeps_tokens: bool
    distance: Real | None = None
    models: Models
    knobs: dict[str, Any]
    knob_specs: list[KnobSpec]
    sampling: dict[str, Any]
    level: Level
    topk: Count = 8
    env: dict[str, Any] = {}
    imported: str | None = None  # the engine whose counts these are, where nothing else is known
    outside: Outside | None = None  # who made the run, where it was not specviz
    method_traits: MethodTraits = MethodTraits()
    verifier_traits: VerifierTraits = VerifierTraits()

    @property
    def tells_tokens(self) -> bool:
        """Whether anything is known of tokens, be it their number; a profile tells when things ran, and no more."""
        return self.outside is None or self.outside.known != "times"


class Knob(Event, tag="knob", kw_only=True):
    """A knob that changed: asked for in round `requested_r`, in force from round `applied_r` on."""

    name: str
    old: Any
    new: Any
    requested_r: Count
    applied_r: Count
    by: str = "user"
    changes_text: bool = False


class Warn(Event, tag="warn", kw_only=True):
    """Something a reader must know: disk_full, residual_fallback, context, clamped_knob, non_finite_draft,
    aborted_round."""

    code: str
    message: str


class At(msgspec.Struct):
    """A place in a run."""

    r: Count
    node: Annotated[int, Meta(ge=-9, le=2**31 - 1)] | None = None


class Note(Event, tag="note", kw_only=True):
    """A person's words about a place (a bookmark)."""

    text: str
    at: At


class FindingRecord(Event, tag="finding", kw_only=True):
    """A detector's finding, with the rounds that show it."""

    detector: str
    message: str
    evidence: list[Count]


class End(Event, tag="end", kw_only=True):
    """Last line: why the run ended. `sha256` covers all earlier bytes of the file."""

    reason: str  # done | stopped | cancelled | error | core_lost
    message: str | None = None
    totals: dict[str, Any] = {}
    n_lines: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    sha256: str | None = None


class Gap(Event, tag="gap", kw_only=True):
    """Wire only: sequence numbers a slow reader must fetch again from the file."""

    from_: int = msgspec.field(name="from")
    to: int


class Beat(Event, tag="beat"):
    """Wire only: the worker lives. One a second, whatever else it does; silence means that it hangs."""


class Refused(Event, tag="refused", kw_only=True):
    """Wire only: a command that was not carried out, and why."""

    id: str | int | None
    message: str


class State(Event, tag="state", kw_only=True):
    """Wire only: what the worker is doing (idle, loading, running, paused), for the status line."""

    state: str
    message: str | None = None
