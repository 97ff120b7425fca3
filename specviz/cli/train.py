"""`specviz train`: make the weights that specviz ships, or smaller ones, on your own machine."""

from pathlib import Path
from typing import Any

import click

from specviz.cli.minutes import Minutes
from specviz.cli.train_trees import COMMANDS
from specviz.errors import KnobError

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def numbers(text: str) -> tuple[int, ...]:
    """Layers as they are given to --layers. Raises KnobError for what is no number from 1."""
    words = text.replace(",", " ").split()
    wrong = next((word for word in words if not (word.isdecimal() and len(word) < 6 and int(word) > 0)), None)
    if wrong is not None:
        raise KnobError(f"--layers: '{wrong[:40]}' is no layer; give numbers from 1, such as 3,6")
    return tuple(sorted({int(word) for word in words}))


@click.group("train")
def command() -> None:
    """Train a model pair from nothing, or the small parts that methods add to a model."""


for each in COMMANDS:
    command.add_command(each)


@command.command("pair")
@click.option("--out", type=_FOLDER, default=Path("pair"), show_default=True, help="Folder for the finished pair.")
@click.option("--work", type=_FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@click.option("--minutes", type=Minutes(min=0.1), default=100.0, show_default=True, help="Training time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--packages", is_flag=True, help="Also train on the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also train on this .txt or .jsonl; repeatable.")
@click.option("--arithmetic/--no-arithmetic", default=True, show_default=True, help="Also train on templated sums.")
@click.option("--compile/--no-compile", "compiled", default=None, help="Use torch.compile [default: from 20 minutes].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def pair(
    out: Path,
    work: Path | None,
    minutes: float,
    seed: int,
    packages: bool,
    texts: tuple[Path, ...],
    arithmetic: bool,
    compiled: bool | None,
    threads: int | None,
) -> None:
    """Train a target and a draft model from nothing: tokenizer, target, draft model, distillation, model card.

    An interrupted run is resumed by giving the same command again.
    """
    import shutil

    import platformdirs
    import torch

    from specviz.train.console import Console
    from specviz.train.pair import Request, train_pair

    if threads:
        torch.set_num_threads(threads)
    if compiled is None:
        compiled = minutes >= 20 and shutil.which("g++") is not None
    folder = work or Path(platformdirs.user_cache_dir("specviz")) / "train-pair"
    train_pair(Request(out, folder, minutes, seed, packages, texts, arithmetic, compiled), Console())
    click.echo(out)


@command.command("exit-heads")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--out", type=_FOLDER, default=Path("exit-heads"), show_default=True, help="Folder for the heads.")
@click.option("--work", type=_FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@click.option("--minutes", type=Minutes(min=0.05), default=20.0, show_default=True, help="Training time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--layers", default="", metavar="N,N", help="Layers that get a head [default: all below the last].")
@click.option(
    "--kind",
    type=click.Choice(["gain", "lowrank", "square", "full", "factored"]),
    default="lowrank",
    show_default=True,
    help="gain: own norm gain; lowrank: and a low-rank update; square: a d x d map; full, factored: an own head.",
)
@click.option("--rank", type=click.IntRange(min=1), default=64, show_default=True, help="For lowrank and factored.")
@click.option("--shortlist", type=click.IntRange(min=0), default=0, help="Only the K most frequent tokens; 0: all.")
@click.option(
    "--labels",
    type=click.Choice(["hard", "soft"]),
    default="hard",
    show_default=True,
    help="hard: the target's best token (greedy decoding); soft: its distribution (sampling).",
)
@click.option("--packages", is_flag=True, help="Also take text from the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def exit_heads(
    target: str | None, out: Path, work: Path | None, threads: int | None, layers: str, **options: Any
) -> None:  # fmt: skip
    """Train exit heads for a frozen target, mostly on text that it writes itself, and measure them.

    An interrupted run is resumed by giving the same command again.
    """
    import platformdirs
    import torch

    from specviz.train.console import Console
    from specviz.train.exit_heads import Request, train_exit_heads

    if threads:
        torch.set_num_threads(threads)
    folder = work or Path(platformdirs.user_cache_dir("specviz")) / "train-exit-heads"
    train_exit_heads(Request(target, out, folder, layers=numbers(layers), **options), Console())
    click.echo(out)


@command.command("hrad")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--draft", metavar="MODEL", help="Folder or hub id of the draft model [default: the embedded one].")
@click.option("--out", type=_FOLDER, default=Path("hrad"), show_default=True, help="Folder for the network.")
@click.option("--work", type=_FOLDER, help="Folder for rounds and checkpoints; a run goes on from what it finds there.")
@click.option("--rounds", type=click.IntRange(min=200), default=20_000, show_default=True, help="Rounds to learn from.")
@click.option("--gamma", type=click.IntRange(1, 64), default=4, show_default=True, help="The draft length it is for.")
@click.option(
    "--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True, help="And the temperature."
)
@click.option(
    "--layers", type=click.IntRange(1, 8), default=4, show_default=True, help="States of the target it reads."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--packages", is_flag=True, help="Also take text from the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def hrad(target: str | None, draft: str | None, out: Path, work: Path | None, **options: Any) -> None:
    """Train H-RAD for a pair: what tells SpecBranch, before a round, how much of a draft will be accepted.

    Decodes prompts by plain speculative sampling and learns from its rounds. An interrupted run is resumed by giving
    the same command again; with more --rounds it goes on from those it has.
    """
    import platformdirs

    from specviz.train.console import Console
    from specviz.train.hrad import Request, train_hrad

    folder = work or Path(platformdirs.user_cache_dir("specviz")) / f"train-hrad-{options['gamma']}"
    train_hrad(Request(target, draft, out, folder, **options), Console())
    click.echo(out)


@command.command("kangaroo")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--out", type=_FOLDER, default=Path("kangaroo"), show_default=True, help="Folder for the adapter.")
@click.option("--work", type=_FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@click.option("--minutes", type=Minutes(min=0.05), default=15.0, show_default=True, help="Training time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--layers", default="", metavar="N,N", help="Layers to try; the best is trained [default: several].")
@click.option("--packages", is_flag=True, help="Also take text from the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def kangaroo(
    target: str | None, out: Path, work: Path | None, threads: int | None, layers: str, **options: Any
) -> None:
    """Train Kangaroo's adapter for a frozen target: several layers are tried, the best is trained and measured.

    An interrupted run is resumed by giving the same command again.
    """
    import platformdirs
    import torch

    from specviz.train.console import Console
    from specviz.train.kangaroo import Request, train_kangaroo

    if threads:
        torch.set_num_threads(threads)
    folder = work or Path(platformdirs.user_cache_dir("specviz")) / "train-kangaroo"
    train_kangaroo(Request(target, out, folder, layers=numbers(layers), **options), Console())
    click.echo(out)


@command.command("skip-set")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--out", type=_FOLDER, default=Path("skip-set"), show_default=True, help="Folder for the set.")
@click.option("--work", type=_FOLDER, help="Folder for what was tried; a run goes on from what it finds there.")
@click.option("--minutes", type=Minutes(min=0.05), default=10.0, show_default=True, help="Time for trials.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--packages", is_flag=True, help="Also take prompts from the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def skip_set(target: str | None, out: Path, work: Path | None, threads: int | None, **options: Any) -> None:
    """Search the sublayers that a draft of the target can do without, by decoding sample prompts.

    An interrupted search is gone on with by giving the same command again.
    """
    import platformdirs
    import torch

    from specviz.train.console import Console
    from specviz.train.skip_set import Request, train_skip_set

    if threads:
        torch.set_num_threads(threads)
    folder = work or Path(platformdirs.user_cache_dir("specviz")) / "train-skip-set"
    train_skip_set(Request(target, out, folder, **options), Console())
    click.echo(out)
