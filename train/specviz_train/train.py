"""`specviz train`: make the weights that specviz ships, or smaller ones, on your own machine.

Drafters of trees read the target's states; several processes train one together when `accelerate launch -m specviz
train ..` starts them.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from specviz.cli.flags import DEVICE, DRAFT, TARGET, Minutes, Option, flag, text, value, with_options
from specviz.cli.signals import terminable
from specviz.errors import KnobError

if TYPE_CHECKING:
    from specviz_train.common.console import Console

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
NATURAL, COUNT = click.IntRange(min=0), click.IntRange(min=1)
SHARE = click.FloatRange(min=0, min_open=True, max=1)
SEED = value("--seed", NATURAL, 0)
THREADS = click.option("--threads", type=COUNT, help="Threads for torch.")
CHAT = click.option(
    "--chat/--raw",
    "chat",
    default=None,
    help="Ask the target through its chat template, or let it go on with plain text [default: chats for chat models].",
)
OWN_TEXT = click.option(
    "--own-text",
    type=FILE,
    help="What the target wrote before (specviz train text); nothing is written then.",
)
KEEP = value(
    "--keep", click.FloatRange(min=0), 8.0, "GB of disk, at most, for the target's states of its text; 0: none."
)
RESUMED = "An interrupted run is resumed by giving the same command again"


def machine(of: str = "text") -> tuple[Option, ...]:
    """Where more text comes from, and what to compute on."""
    return (
        flag("--packages", f"Also take {of} from the packages of this Python environment."),
        click.option("--text", "texts", type=FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable."),
        CHAT,
        DEVICE,
        THREADS,
    )


def folders(name: str, what: str, kept: str) -> tuple[Option, ...]:
    """Where the result goes, and what is needed to go on."""
    goes_on = f"Folder for {kept}; a run goes on from what it finds there."
    return value("--out", FOLDER, Path(name), f"Folder for the {what}."), click.option(
        "--work", type=FOLDER, help=goes_on
    )


def numbers(words: str) -> tuple[int, ...]:
    """Layers as they are given to --layers. Raises KnobError for what is no number from 1."""
    parts = words.replace(",", " ").split()
    wrong = next((word for word in parts if not (word.isdecimal() and len(word) < 6 and int(word) > 0)), None)
    if wrong is not None:
        raise KnobError(f"--layers: '{wrong[:40]}' is no layer; give numbers from 1, such as 3,6")
    return tuple(sorted({int(word) for word in parts}))


def trainer(
    name: str,
    what: str,
    request: str,
    meaning: str,
    *own: Option,
    minutes: float | None = None,
    kept: str = "checkpoints",
    clocked: str = "Training time",
    of: str = "text",
    reads: Mapping[str, Callable[[str], Any]] | None = None,
    folder: Callable[[dict[str, Any]], str] = lambda options: "",
    done: Callable[[ModuleType, Any, "Console"], Any] | None = None,
) -> click.Command:
    """A command of `specviz train` that makes a part.

    `request`: the class, below `specviz_train`, that takes all options with `work` filled in; `done` does what it asks,
    else `train_..` of its module. `reads`: what options become that click leaves as text. `minutes`: none for a trainer
    that counts otherwise. `folder` adds to the work folder's usual name what runs must not share.
    """

    def run(work: Path | None, **options: Any) -> None:
        place = work or usual_work(f"train-{name}{folder(options)}")
        with resumable(place):
            from specviz_train.common.console import Console

            module, _, kind = request.rpartition(".")
            home = importlib.import_module(f"specviz_train.{module}")
            options |= {option: read(options[option]) for option, read in (reads or {}).items()}
            asked = getattr(home, kind)(work=place, **options)
            do = done or (lambda home, *given: getattr(home, f"train_{name.replace('-', '_')}")(*given))
            finished = do(home, asked, Console())
        if finished is not None:  # of several processes one finishes
            click.echo(options["out"])

    clock_help = f"{clocked}; reading text and measuring come on top."
    clock = [] if minutes is None else [value("--minutes", Minutes(min=0.05), minutes, clock_help)]
    shared: list[Option] = [TARGET, *folders(name, what, kept), *clock, SEED, *machine(of), *own]
    return click.command(name, help=meaning)(with_options(shared)(run))


def usual_work(name: str) -> Path:
    """Where a run is kept when nobody said where."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("specviz")) / name


@contextmanager
def resumable(work: Path) -> Iterator[None]:
    """Tell whoever interrupts how to go on; the exit code is left to the interruption itself."""
    try:
        with terminable():
            yield
    except KeyboardInterrupt:
        message = f"specviz: interrupted; give the same command again to go on from what is in {work}"
        if os.environ.get("RANK", "0") == "0":  # of several processes that train together one tells
            print(message, file=sys.stderr, flush=True)
        raise


@click.group("train")
def command() -> None:
    """Train a model pair from nothing, or the small parts that methods add to a model."""


@command.command("pair")
@value("--out", FOLDER, Path("pair"), "Folder for the finished pair.")
@click.option("--work", type=FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@value("--minutes", Minutes(min=0.1), 100.0, "Training time.")
@SEED
@flag("--packages", "Also train on the packages of this Python environment.")
@click.option("--text", "texts", type=FILE, multiple=True, help="Also train on this .txt or .jsonl; repeatable.")
@click.option("--arithmetic/--no-arithmetic", default=True, show_default=True, help="Also train on templated sums.")
@click.option("--compile/--no-compile", "compiled", default=None, help="Use torch.compile [default: from 20 minutes].")
@THREADS
def pair(minutes: float, work: Path | None, compiled: bool | None, threads: int | None, **options: Any) -> None:
    """Train a target and a draft model from nothing: tokenizer, target, draft model, distillation, model card.

    An interrupted run is resumed by giving the same command again.
    """
    import shutil

    import torch

    from specviz_train.common.console import Console
    from specviz_train.draft_pair.train import PairRequest, train_pair

    if threads:
        torch.set_num_threads(threads)
    if compiled is None:
        compiled = minutes >= 20 and shutil.which("g++") is not None
    folder = work or usual_work("train-pair")
    with resumable(folder):
        train_pair(PairRequest(work=folder, minutes=minutes, compiled=compiled, **options), Console())
    click.echo(options["out"])


exit_heads = trainer(
    "exit-heads",
    "heads",
    "exits.train.ExitHeadRequest",
    f"Train exit heads for a frozen target, mostly on text that it writes itself, and measure them.\n\n{RESUMED}.",
    text("--layers", "N,N", "Layers that get a head [default: all below the last].", default=""),
    value(
        "--kind",
        click.Choice(["gain", "lowrank", "square", "full", "factored"]),
        "lowrank",
        "gain: own norm gain; lowrank: and a low-rank update; square: a d x d map; full, factored: an own head.",
    ),
    value("--rank", COUNT, 64, "For lowrank and factored."),
    value("--shortlist", NATURAL, 0, "Only the K most frequent tokens; 0: all.", show_default=False),
    value(
        "--labels",
        click.Choice(["hard", "soft"]),
        "hard",
        "hard: the target's best token (greedy decoding); soft: its distribution (sampling).",
    ),
    OWN_TEXT,
    KEEP,
    minutes=20.0,
    reads={"layers": numbers},
)
hrad = trainer(
    "hrad",
    "network",
    "hrad.train.HradRequest",
    f"""Train H-RAD for a pair: what tells SpecBranch, before a round, how much of a draft will be accepted.

    Decodes prompts by plain speculative sampling and learns from its rounds. {RESUMED};
    with more --rounds it goes on from those it has.""",
    DRAFT,
    value("--rounds", click.IntRange(min=200), 20_000, "Rounds to learn from."),
    value("--gamma", click.IntRange(1, 64), 4, "The draft length it is for."),
    value("--temperature", click.FloatRange(min=0), 0.0, "And the temperature."),
    value("--layers", click.IntRange(1, 8), 4, "States of the target it reads."),
    kept="rounds and checkpoints",
    folder=lambda options: f"-{options['gamma']}",
)
kangaroo = trainer(
    "kangaroo",
    "adapter",
    "kangaroo.train.KangarooRequest",
    "Train Kangaroo's adapter for a frozen target: several layers are tried, the best is trained and measured.\n\n"
    f"{RESUMED}.",
    text("--layers", "N,N", "Layers to try; the best is trained [default: several].", default=""),
    OWN_TEXT,
    KEEP,
    minutes=15.0,
    reads={"layers": numbers},
)
skip_set = trainer(
    "skip-set",
    "set",
    "self_skip.train.SkipSetRequest",
    """Search the sublayers that a draft of the target can do without, by decoding sample prompts.

    An interrupted search is gone on with by giving the same command again.""",
    value("--least", NATURAL, 0, "Sublayers left out, even where fewer are cheaper."),
    value("--yields", click.FloatRange(min=0), 0.0, "Tokens a round, even where a set with fewer is cheaper."),
    minutes=10.0,
    kept="what was tried",
    clocked="Time for trials",
    of="prompts",
)

draft = trainer(
    "draft",
    "draft model",
    "draft_model.train.DraftRequest",
    f"""Train a draft model for a target that is there already, begun as some of its layers, on text that it writes.

    {RESUMED}; one that is over is measured again.""",
    value(
        "--layers",
        NATURAL,
        0,
        "Layers of the target that it begins with; 0: two thirds where they are corrected, else 2.",
        show_default=False,
    ),
    value("--width", NATURAL, 0, "Of its states; 0: the target's.", show_default=False),
    value("--rank", NATURAL, 32, "Of what corrects the target's layers; 0, or a width: they learn anew."),
    value("--tokens", COUNT, 8192, "Most frequent tokens to learn by, where it is as wide as its target."),
    value("--batch", COUNT, 8, "Windows of a step."),
    click.option(
        "--begin", type=FOLDER, help="Draft model of corrected layers of this target: its corrections learn on."
    ),
    OWN_TEXT,
    KEEP,
    minutes=50.0,
)

_PACE = (
    value("--draft-vocab", NATURAL, 0, "Only the K most frequent tokens; 0: all.", show_default=False),
    value("--batch", COUNT, 2, "Windows a process takes at once."),
    value("--accumulate", COUNT, 1, "Such batches that make a step."),
    value("--length", NATURAL, 0, "Tokens of a window that the target writes; 0: 257.", show_default=False),
    value(
        "--optimizer",
        click.Choice(["muon", "adamw"]),
        "muon",
        "muon: for the matrices between states, and AdamW for the rest; adamw: for all.",
    ),
    value("--rate", SHARE, 1.5e-3, "Peak learning rate of AdamW."),
    value("--muon-rate", SHARE, 2e-2, "And of Muon."),
    value("--warm-up", COUNT, 50, "Steps up to the peak rate."),
    value(
        "--precision", click.Choice(["bf16", "fp32"]), "bf16", "What the drafter computes in; its weights are float32."
    ),
    value(
        "--draft-loss",
        click.Choice(["full", "top50"]),
        "full",
        "Against the target's whole law, or its 50 likeliest tokens as they stand.",
    ),
    value("--decay", SHARE, 0.8, "What every place ahead weighs of the one before."),
    click.option(
        "--begin",
        type=FOLDER,
        help="Drafter of this kind and target whose weights learn on; its sizes are asked for as they were.",
    ),
    OWN_TEXT,
    KEEP,
)


def _drafter(name: str, request: str, meaning: str, *own: Option) -> click.Command:
    """A command that trains a drafter of trees."""
    again = f"{meaning}\n\n{RESUMED}; one that is over is measured again."
    return trainer(name, "drafter", request, again, *_PACE, *own, minutes=60.0, done=_by_recipe)


def _by_recipe(home: ModuleType, request: Any, console: "Console") -> Any:
    """What all drafters of trees do, with what the module says of this kind."""
    from specviz_train.trees.train import train

    return train(request, home.RECIPE, console)


block_drafter = _drafter(
    "block-drafter",
    "trees.block_drafter.BlockDrafterRequest",
    "Train SpecBlock's drafter for a frozen target on text that it writes itself, and measure it.",
    value("--slots", click.IntRange(1, 16), 4, "Positions a block."),
    value("--layers", click.IntRange(2, 16), 2, "Layers of the drafter."),
    value("--blocks", click.IntRange(1, 4), 3, "Blocks unrolled in training."),
    value("--width", NATURAL, 0, "Of the drafter; 0: the target's.", show_default=False),
    value(
        "--rope-mode",
        click.Choice(["offset", "repeat"]),
        "offset",
        "Positions of later blocks' rows: behind the node they start at, or the root's again.",
    ),
    value(
        "--rank-loss",
        click.Choice(["invsqrt", "ce", "reference"]),
        "invsqrt",
        "How rank buckets are weighted: by rarity, not at all, or as the authors' code does.",
    ),
    click.option("--shift/--no-shift", default=True, help="Ablation: slots hear of the slot before at every layer."),
    click.option("--broadcast/--no-broadcast", default=True, help="Ablation: all slots read condition and token."),
    click.option("--valid-prefix/--no-valid-prefix", default=True, help="Ablation: no loss behind a wrong slot."),
    value(
        "--floor",
        click.FloatRange(0, 1),
        0.25,
        "Slots reached by less than this share of the places weigh less; 0: as in the paper.",
    ),
    value("--alone", NATURAL, 1200, "Steps that block 1 learns alone, half of the time at most; 0: as in the paper."),
)
eagle3 = _drafter(
    "eagle3",
    "trees.eagle3.Eagle3Request",
    "Train an EAGLE-3-style drafter for a frozen target on text that it writes itself, and measure it.",
    value("--steps", click.IntRange(1, 16), 7, "Levels unrolled in training."),
)
medusa = _drafter(
    "medusa",
    "trees.medusa.MedusaRequest",
    "Train Medusa heads for a frozen target on text that it writes itself, and find the fixed tree that suits them.",
    value("--heads", click.IntRange(1, 8), 4, "How far ahead they look."),
)
mtp = _drafter(
    "mtp",
    "trees.mtp.MtpRequest",
    "Train an MTP layer for a frozen target on text that it writes itself, and measure it.",
    value("--steps", click.IntRange(1, 16), 3, "Tokens ahead unrolled in training."),
    value("--ff", NATURAL, 0, "Inner size of its feed-forward part; 0: the target's.", show_default=False),
    value("--bits", click.Choice([8, 16]), 16, "Of a weight on disk."),
)
dflash = _drafter(
    "dflash",
    "trees.dflash.DflashRequest",
    "Train a parallel block drafter for a frozen target on text that it writes itself, and measure it.",
    value("--slots", click.IntRange(1, 32), 8, "Masked places of a block."),
    value("--layers", click.IntRange(2, 16), 2, "Layers of the drafter."),
    value("--anchors", COUNT, 48, "Blocks of a window in training."),
)


@click.command("text")
@TARGET
@value("--out", click.Path(dir_okay=False, path_type=Path), Path("own_text.npz"), "File for the text; gone on with.")
@click.option("--work", type=FOLDER, help="Folder for the encoded beginnings.")
@value("--minutes", Minutes(min=0.05), 30.0, "Time for writing; reading text comes on top.")
@value("--length", COUNT, 320, "Tokens of a window.")
@value("--rows", COUNT, 128, "Windows that are written at once.")
@SEED
@with_options(machine())
def own_text(work: Path | None, **options: Any) -> None:
    """Let a target write the text that its parts learn on, once for all of them (--own-text of their trainers).

    With more --minutes the same command goes on with the file.
    """
    place = work or usual_work("train-text")
    with resumable(place):
        from specviz_train.common.console import Console
        from specviz_train.text import TextRequest, train_text

        train_text(TextRequest(work=place, **options), Console())
    click.echo(options["out"])


@click.command("static-tree")
@TARGET
@text(
    "--drafter",
    "FOLDER",
    "EAGLE-3 drafter or Medusa heads that get the tree [default: the target's own EAGLE-3 drafter].",
)
@value("--windows", COUNT, 48, "Texts to count on.")
@SEED
@with_options(machine())
def static_tree(threads: int | None, **options: Any) -> None:
    """Calibrate a fixed tree: count where the target's tokens stand in a drafter's ranks.

    Method static_tree takes the tree of an EAGLE-3 drafter, medusa that of its heads; drafters may be your own or
    published ones.
    """
    import torch

    from specviz_train.common.console import Console
    from specviz_train.trees.static_tree import StaticTreeRequest, train_static_tree

    if threads:
        torch.set_num_threads(threads)
    folder, _ = train_static_tree(StaticTreeRequest(**options), Console())
    click.echo(folder)


for command_group in (
    exit_heads,
    hrad,
    kangaroo,
    skip_set,
    block_drafter,
    eagle3,
    medusa,
    mtp,
    dflash,
    static_tree,
    own_text,
    draft,
):
    command.add_command(command_group)
