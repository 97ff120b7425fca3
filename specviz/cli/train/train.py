"""`specviz train`: make the weights that specviz ships, or smaller ones, on your own machine."""

from pathlib import Path
from typing import Any

import click

from specviz.cli.flags import Minutes
from specviz.cli.train.options import FILE, FOLDER, resumable, trainer, usual_work
from specviz.cli.train.trees import COMMANDS
from specviz.errors import KnobError


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


@command.command("pair")
@click.option("--out", type=FOLDER, default=Path("pair"), show_default=True, help="Folder for the finished pair.")
@click.option("--work", type=FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@click.option("--minutes", type=Minutes(min=0.1), default=100.0, show_default=True, help="Training time.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--packages", is_flag=True, help="Also train on the packages of this Python environment.")
@click.option("--text", "texts", type=FILE, multiple=True, help="Also train on this .txt or .jsonl; repeatable.")
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

    import torch

    from specviz.train.common.console import Console
    from specviz.train.draft_pair.train import PairRequest, train_pair

    if threads:
        torch.set_num_threads(threads)
    if compiled is None:
        compiled = minutes >= 20 and shutil.which("g++") is not None
    folder = work or usual_work("train-pair")
    with resumable(folder):
        train_pair(PairRequest(out, folder, minutes, seed, packages, texts, arithmetic, compiled), Console())
    click.echo(out)


@trainer("exit-heads", "heads", 20.0)
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
def exit_heads(layers: str, **options: Any) -> None:
    """Train exit heads for a frozen target, mostly on text that it writes itself, and measure them.

    An interrupted run is resumed by giving the same command again.
    """
    from specviz.train.common.console import Console
    from specviz.train.exits.train import ExitHeadRequest, train_exit_heads

    train_exit_heads(ExitHeadRequest(layers=numbers(layers), **options), Console())


@trainer("hrad", "network", kept="rounds and checkpoints", folder=lambda options: f"-{options['gamma']}")
@click.option("--draft", metavar="MODEL", help="Folder or hub id of the draft model [default: the embedded one].")
@click.option("--rounds", type=click.IntRange(min=200), default=20_000, show_default=True, help="Rounds to learn from.")
@click.option("--gamma", type=click.IntRange(1, 64), default=4, show_default=True, help="The draft length it is for.")
@click.option(
    "--temperature", type=click.FloatRange(min=0), default=0.0, show_default=True, help="And the temperature."
)
@click.option(
    "--layers", type=click.IntRange(1, 8), default=4, show_default=True, help="States of the target it reads."
)
def hrad(**options: Any) -> None:
    """Train H-RAD for a pair: what tells SpecBranch, before a round, how much of a draft will be accepted.

    Decodes prompts by plain speculative sampling and learns from its rounds. An interrupted run is resumed by giving
    the same command again; with more --rounds it goes on from those it has.
    """
    from specviz.train.common.console import Console
    from specviz.train.hrad.train import HradRequest, train_hrad

    train_hrad(HradRequest(**options), Console())


@trainer("kangaroo", "adapter", 15.0)
@click.option("--layers", default="", metavar="N,N", help="Layers to try; the best is trained [default: several].")
def kangaroo(layers: str, **options: Any) -> None:
    """Train Kangaroo's adapter for a frozen target: several layers are tried, the best is trained and measured.

    An interrupted run is resumed by giving the same command again.
    """
    from specviz.train.common.console import Console
    from specviz.train.kangaroo.train import KangarooRequest, train_kangaroo

    train_kangaroo(KangarooRequest(layers=numbers(layers), **options), Console())


@trainer("skip-set", "set", 10.0, kept="what was tried", clocked="Time for trials", text="prompts")
def skip_set(**options: Any) -> None:
    """Search the sublayers that a draft of the target can do without, by decoding sample prompts.

    An interrupted search is gone on with by giving the same command again.
    """
    from specviz.train.common.console import Console
    from specviz.train.self_skip.train import SkipSetRequest, train_skip_set

    train_skip_set(SkipSetRequest(**options), Console())


for each in (exit_heads, hrad, kangaroo, skip_set, *COMMANDS):
    command.add_command(each)
