"""What a trainer of a part is asked: for which model, where to, on which text, for how long; and how to ask it again.

A trainer's own options are the fields that its request adds; each has the default of the command line. From them follow
the settings that a work folder is begun with and the command on the card, so neither can forget one.
"""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from specviz.train.common.optim import Budget


@dataclass(frozen=True, slots=True)
class Request:
    """The base. Of the fields of a subclass, `models` are named by their folders, and `effort` may grow when a run is
    gone on with; the rest are options, of which `named` are told even where they are usual.
    """

    command_name: ClassVar[str] = ""
    models: ClassVar[tuple[str, ...]] = ("target",)
    effort: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ()

    target: str | None
    out: Path
    work: Path
    seed: int = field(default=0, kw_only=True)
    packages: bool = field(default=False, kw_only=True)
    texts: tuple[Path, ...] = field(default=(), kw_only=True)
    device: str | None = field(default=None, kw_only=True)
    threads: int | None = field(default=None, kw_only=True)

    @classmethod
    def options(cls) -> dict[str, Any]:
        """The trainer's own options with their defaults."""
        common = {each.name for each in fields(Request)} | {*cls.models, *cls.effort}
        return {each.name: each.default for each in fields(cls) if each.name not in common}

    @property
    def usual(self) -> dict[str, Any]:
        """The defaults: a work folder begun before an option was there was begun with its default."""
        return {name: _plain(value) for name, value in self.options().items()}

    @property
    def settings(self) -> dict[str, Any]:
        """What fixes the result, without models and without paths of this machine."""
        own = {name: _plain(getattr(self, name)) for name in self.options()}
        return {"seed": self.seed, **own, "packages": self.packages, "texts": [path.name for path in self.texts]}

    @property
    def command(self) -> str:
        """The command that repeats this run, without paths of this machine."""
        words = [f"specviz train {self.command_name}"]
        words += [_word(name, getattr(self, name)) for name in self.effort]
        words += [f"--seed {self.seed}"]
        sources = ((role, getattr(self, role)) for role in self.models)
        words += [f"--{role} {Path(source).name}" for role, source in sources if source is not None]
        words += [_word(name, getattr(self, name)) for name in self.options() if self.tells(name)]
        words += ["--packages"] * self.packages + [f"--text {path.name}" for path in self.texts]
        return " ".join(words)

    def tells(self, name: str) -> bool:
        """Whether an option is worth naming in the command."""
        return name in self.named or getattr(self, name) != self.options()[name]


@dataclass(frozen=True, slots=True)
class Timed(Request):
    """Of a trainer that is given minutes."""

    effort: ClassVar[tuple[str, ...]] = ("minutes",)

    minutes: float

    def share(self, share: float) -> Budget:
        """So much of the time."""
        return Budget(seconds=60 * self.minutes * share)


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def _word(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if isinstance(value, tuple):
        return f"--{flag} {','.join(map(str, value))}"
    return f"--{flag} {value:g}" if isinstance(value, float) else f"--{flag} {value}"
