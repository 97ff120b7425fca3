"""`specviz train`: make the weights that specviz ships, or smaller ones, on your own machine."""

from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group("train")
def command() -> None:
    """Train a model pair from nothing."""


@command.command("pair")
@click.option("--out", type=_FOLDER, default=Path("pair"), show_default=True, help="Folder for the finished pair.")
@click.option("--work", type=_FOLDER, help="Folder for checkpoints; a run goes on from what it finds there.")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=100.0, show_default=True, help="Training time.")
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
