"""What a trainer of a part is asked: for which model, where to, on which text, for how long; and how to ask it again.

A trainer's own options are the fields that its request adds; each has the default of the command line. From them follow
the settings that a work folder is begun with and the command on the card, so neither can forget one.

What the trainers of a target's small parts begin with: a work folder of their own, and the text they learn on.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import torch

from specviz.engine.model import loading
from specviz.engine.model.adapter import ModelAdapter
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz.train.common import corpus, head_text
from specviz.train.common.job import Console
from specviz.train.common.optim import Budget
from specviz.train.common.tokens import Store


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


def keep(path: Path, facts: dict[str, Any]) -> None:
    """Write facts as JSON; under another name first, so that a file that is there is whole."""
    partial = path.with_suffix(f".{os.getpid()}.partial")  # several processes may say the same at once
    partial.write_text(json.dumps(facts), encoding="utf-8")
    os.replace(partial, path)


def kept(path: Path) -> dict[str, Any]:
    """Facts written by `keep`. Raises SpecvizError in one line when the file is not one of those."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())[:120]
        raise SpecvizError(f"cannot read {path}: {why}; remove it, or give another folder with --work") from error
    if not isinstance(found, dict):
        raise SpecvizError(f"{path} holds no facts of a training run; remove it, or give another folder with --work")
    return found


def claim(work: Path, out: Path, asked: dict[str, Any], usual: Mapping[str, Any] | None = None) -> None:
    """Make the folders, or refuse a work folder begun with other settings than `asked`. Raises SpecvizError.

    `usual`: what a run was begun with that does not say, because the option came later.
    """
    path = work / "settings.json"
    try:
        work.mkdir(parents=True, exist_ok=True)
        out.mkdir(parents=True, exist_ok=True)
        begun = kept(path) if path.exists() else asked
        keep(path, begun)
    except OSError as error:
        raise SpecvizError(f"cannot use the work folder {work}: {error}; give another with --work") from error
    before = {**(usual or {}), **begun}
    differing = [name for name, value in asked.items() if before.get(name) != value]
    if differing:
        was = ", ".join(f"{name}={before.get(name)}" for name in differing)
        raise SpecvizError(f"{work} holds a run begun with {was}; give the same options, or another --work folder")


def source(request: Request, tokenizer: Any, console: Console) -> Store:
    """The text asked for, read and encoded once; found again in the work folder."""
    path = request.work / "text.npz"
    if not path.exists():
        console.say("reading and encoding the text")
        wanted = corpus.Wanted(request.packages, request.texts, head_text.N_SUM_PAGES, request.seed)
        head_text.given(wanted, tokenizer).save(path)
    return Store.load(path)


@dataclass(frozen=True, slots=True)
class Begun:
    """A frozen target, and the text on which a part of it learns."""

    target: ModelAdapter
    source: Store


def begin(
    request: Request, console: Console, settings: Callable[[ModelAdapter], dict[str, Any]] = lambda target: {}
) -> Begun:
    """Load the target, claim the folders, read the text.

    `settings`: those that only the target can tell; it may refuse what does not fit.
    """
    if request.threads:
        torch.set_num_threads(request.threads)
    loaded = loading.load(request.target, "target", request.device, None)
    target = loaded.adapter
    asked = {"target": fingerprint(target), **request.settings, **settings(target)}
    claim(request.work, request.out, asked, request.usual)
    return Begun(target, source(request, loaded.tokenizer, console))
