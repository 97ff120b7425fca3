"""What a trainer of a part is asked: for which model, where to, on which text, for how long; and how to ask it again.

A trainer's own options are the fields that its request adds; each has the default of the command line. From them follow
the settings that a work folder is begun with and the command on the card, so neither can forget one.

What the trainers of a target's small parts begin with: a work folder of their own, and the text they learn on.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.files import loading
from specviz.errors import SpecvizError
from specviz.methods.trained.parts import fingerprint
from specviz_train.common import own_text, training_text
from specviz_train.common.console import Console
from specviz_train.common.corpus import CorpusRequest
from specviz_train.common.files import keep, kept
from specviz_train.common.kept_states import KeptStates
from specviz_train.common.loop import TrainingLedger
from specviz_train.common.optim import Budget
from specviz_train.common.own_text import OwnWindows, TextWriter, Windows
from specviz_train.common.training_text import Ids, Side, TrainingText


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """The base. Of the fields of a subclass, `models` are named by their folders, and `effort` may grow when a run is
    gone on with; `aside` tell of this machine, the names of their files alone are told; the rest are options, of which
    `named` are told even where they are usual.
    """

    command_name: ClassVar[str] = ""
    models: ClassVar[tuple[str, ...]] = ("target",)
    effort: ClassVar[tuple[str, ...]] = ()
    named: ClassVar[tuple[str, ...]] = ()
    aside: ClassVar[tuple[str, ...]] = ()

    target: str | None
    out: Path
    work: Path
    seed: int = field(default=0, kw_only=True)
    packages: bool = field(default=False, kw_only=True)
    texts: tuple[Path, ...] = field(default=(), kw_only=True)
    device: str | None = field(default=None, kw_only=True)
    threads: int | None = field(default=None, kw_only=True)
    chat: bool | None = field(default=None, kw_only=True)  # through the chat template; None: where it marks turns

    @classmethod
    def options(cls) -> dict[str, Any]:
        """The trainer's own options with their defaults."""
        common = {field.name for field in fields(TrainingRequest)} | {*cls.models, *cls.effort, *cls.aside}
        return {field.name: field.default for field in fields(cls) if field.name not in common}

    @property
    def folder(self) -> Path:
        """Where the result goes."""
        return self.out

    @property
    def usual(self) -> dict[str, Any]:
        """The defaults: a work folder begun before an option was there was begun with its default."""
        return {name: _plain(value) for name, value in self.options().items()}

    @property
    def settings(self) -> dict[str, Any]:
        """What fixes the result, without models and without paths of this machine."""
        own = {name: _plain(getattr(self, name)) for name in self.options()}
        texts = [path.name for path in self.texts]
        return {"seed": self.seed, **own, "packages": self.packages, "texts": texts, **self.files}

    @property
    def files(self) -> dict[str, str]:
        """The names of the files among the fields that are aside."""
        paths = {name: getattr(self, name) for name in self.aside}
        return {name: path.name for name, path in paths.items() if isinstance(path, Path)}

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
        words += [_word(name, file) for name, file in self.files.items()]
        words += [] if self.chat is None else ["--chat" if self.chat else "--raw"]
        return " ".join(words)

    def tells(self, name: str) -> bool:
        """Whether an option is worth naming in the command."""
        return name in self.named or getattr(self, name) != self.options()[name]


@dataclass(frozen=True, slots=True)
class TimedRequest(TrainingRequest):
    """Of a trainer that is given minutes."""

    effort: ClassVar[tuple[str, ...]] = ("minutes",)

    minutes: float

    def share(self, share: float) -> Budget:
        """So much of the time."""
        return Budget(seconds=60 * self.minutes * share)

    def spent(self, ledger: TrainingLedger, own: Ids, counted: str = "tokens") -> dict[str, Any]:
        """For a card. `own`: what the target wrote; `counted`: what the steps learnt from is called."""
        curve = [[steps, *(round(value, 4) for value in shown)] for steps, *shown in ledger.curve]
        return {
            "steps": ledger.steps,
            counted: ledger.tokens,
            "own_tokens": int(own.size),
            "minutes": round(self.minutes, 2),
            "curve": curve,
        }


@dataclass(frozen=True, slots=True)
class OwnTextRequest(TimedRequest):
    """Of a trainer that learns on what the target writes. `own_text`: a file it wrote before (`specviz train text`);
    then nothing is written, and all of the time goes into learning. `keep`: GB of disk, at most, for what the target
    says of its text.
    """

    aside: ClassVar[tuple[str, ...]] = ("own_text", "keep")

    own_text: Path | None = field(default=None, kw_only=True)
    keep: float = field(default=8.0, kw_only=True)

    def kept_states(self, target: ModelAdapter, windows: OwnWindows, layers: tuple[int, ...]) -> KeptStates | None:
        """The target's states of the windows: beside text that several trainers share, else in `work`.

        None where they would take too much room (`KeptStates.begun`).
        """
        folder = self.work / "states" if self.own_text is None else self.own_text.with_suffix(".states")
        return KeptStates.begun(folder, target, windows, layers, self.keep) if self.keep else None

    def learning(self, writing: float) -> float:
        """The share of the time to learn in, where `writing` is that of writing what is not given."""
        return 1 - writing if self.own_text is None else 1.0


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


def source(request: TrainingRequest, tokenizer: Any, console: Console) -> TrainingText:
    """The text asked for, read and encoded once; found again in the work folder."""
    chat = training_text.in_turns(request.chat, tokenizer)
    path = request.work / ("chats.npz" if chat else "text.npz")
    if not path.exists():
        console.say("reading and encoding the text")
        wanted = CorpusRequest(request.packages, request.texts, training_text.N_SUM_PAGES, request.seed)
        training_text.gathered(wanted, tokenizer, chat).save(path)
    return training_text.read(path, chat)


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """A frozen target, and the text on which a part of it learns: chats or documents."""

    loaded: loading.Loaded
    source: TrainingText
    chat: bool = False

    @property
    def target(self) -> ModelAdapter:
        return self.loaded.adapter

    @property
    def stops(self) -> frozenset[int]:
        """The tokens it ends with."""
        return loading.stop_tokens(self.loaded)

    def given_windows(self, request: OwnTextRequest) -> OwnWindows | None:
        """What the target wrote before, where the request names it. Raises SpecvizError for another's text."""
        if request.own_text is None:
            return None
        return own_text.given_windows(request.own_text, fingerprint(self.target), self.chat)

    def own_for_heads(self, request: OwnTextRequest, share: float, console: Console) -> Windows:
        """What the target wrote: given, or written in a share of the time."""
        windows = self.given_windows(request)
        if windows is not None:
            return windows.ids
        return own_text.written_for_heads(self.writer(), request.work, request.share(share), request.seed, console)

    def kept_states(self, request: OwnTextRequest, layers: tuple[int, ...]) -> KeptStates | None:
        """The target's states of the text that the request names; None where it names none, or see `kept_states`."""
        windows = self.given_windows(request)
        return None if windows is None else request.kept_states(self.target, windows, layers)

    def writer(self, side: Side = "train") -> TextWriter:
        """The target as it writes behind that text."""
        return TextWriter(self.target.model, self.source, self.stops, side)


def begin(
    request: TrainingRequest, console: Console, settings: Callable[[ModelAdapter], dict[str, Any]] = lambda target: {}
) -> TrainingInputs:
    """Load the target, claim the folders, read the text.

    `settings`: those that only the target can tell; it may refuse what does not fit.
    """
    if request.threads:
        torch.set_num_threads(request.threads)
    loaded = loading.load(request.target, "target", request.device, None)
    target = loaded.adapter
    chat = training_text.in_turns(request.chat, loaded.tokenizer)
    asked = {"target": fingerprint(target), **request.settings, "chat": chat, **settings(target)}
    claim(request.work, request.folder, asked, {"chat": False, **request.usual})
    return TrainingInputs(loaded, source(request, loaded.tokenizer, console), chat)


def layers_below_last(asked: tuple[int, ...], usual: Iterable[int], target: ModelAdapter) -> tuple[int, ...]:
    """The layers asked for, or the usual ones, ascending. Raises SpecvizError for one that is not below the last."""
    top = target.n_layers - 1
    wrong = [layer for layer in asked if not 1 <= layer <= top]
    if wrong:
        raise SpecvizError(f"--layers {wrong[0]}: the target has layers 1 to {top} below its last")
    return tuple(sorted(set(asked) or set(usual)))
