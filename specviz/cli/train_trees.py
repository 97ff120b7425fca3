"""`specviz train block-drafter`, `eagle3`, `medusa`: drafters that read the target's states and grow trees."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from specviz.cli.minutes import Minutes

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _common(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that all trainers of such drafters have."""
    options = (
        click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one]."),
        click.option("--out", type=_FOLDER, default=Path(name), show_default=True, help="Folder for the drafter."),
        click.option("--work", type=_FOLDER, help="Folder for checkpoints; a run goes on from what it finds there."),
        click.option("--minutes", type=Minutes(min=0.05), default=60.0, show_default=True, help="Training time."),
        click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True),
        click.option(
            "--draft-vocab", type=click.IntRange(min=0), default=0, help="Only the K most frequent tokens; 0: all."
        ),
        click.option("--packages", is_flag=True, help="Also take text from the packages of this Python environment."),
        click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable."),
        click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu]."),
        click.option("--threads", type=click.IntRange(min=1), help="Threads for torch."),
    )

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _prepared(name: str, work: Path | None, threads: int | None) -> Path:
    """The work folder; torch's threads are set."""
    import platformdirs
    import torch

    if threads:
        torch.set_num_threads(threads)
    return work or Path(platformdirs.user_cache_dir("specviz")) / f"train-{name}"


@click.command("block-drafter")
@_common("block-drafter")
@click.option("--slots", type=click.IntRange(1, 16), default=4, show_default=True, help="Positions a block.")
@click.option("--layers", type=click.IntRange(2, 16), default=2, show_default=True, help="Layers of the drafter.")
@click.option("--blocks", type=click.IntRange(1, 4), default=3, show_default=True, help="Blocks unrolled in training.")
@click.option("--width", type=click.IntRange(min=0), default=0, help="Of the drafter; 0: the target's.")
@click.option(
    "--rope-mode", type=click.Choice(["offset", "repeat"]), default="offset", show_default=True,
    help="Positions of later blocks' rows: behind the node they start at, or the root's again.",
)  # fmt: skip
@click.option(
    "--rank-loss", type=click.Choice(["invsqrt", "ce", "reference"]), default="invsqrt", show_default=True,
    help="How rank buckets are weighted: by rarity, not at all, or as the authors' code does.",
)  # fmt: skip
@click.option("--shift/--no-shift", default=True, help="Ablation: slots hear of the slot before at every layer.")
@click.option("--broadcast/--no-broadcast", default=True, help="Ablation: all slots read condition and token.")
@click.option("--valid-prefix/--no-valid-prefix", default=True, help="Ablation: no loss behind a wrong slot.")
def block_drafter(target: str | None, out: Path, work: Path | None, threads: int | None, **options: Any) -> None:
    """Train SpecBlock's drafter for a frozen target on text that it writes itself, and measure it.

    An interrupted run is resumed by giving the same command again.
    """
    from specviz.train.block_drafter import Request, train_block_drafter
    from specviz.train.console import Console

    folder = _prepared("block-drafter", work, threads)
    train_block_drafter(Request(target, out, folder, **options), Console())
    click.echo(out)


@click.command("eagle3")
@_common("eagle3")
@click.option("--steps", type=click.IntRange(1, 16), default=7, show_default=True, help="Levels unrolled in training.")
def eagle3(target: str | None, out: Path, work: Path | None, threads: int | None, **options: Any) -> None:
    """Train an EAGLE-3-style drafter for a frozen target on text that it writes itself, and measure it.

    An interrupted run is resumed by giving the same command again.
    """
    from specviz.train.console import Console
    from specviz.train.eagle3 import Request, train_eagle3

    folder = _prepared("eagle3", work, threads)
    train_eagle3(Request(target, out, folder, **options), Console())
    click.echo(out)


@click.command("medusa")
@_common("medusa")
@click.option("--heads", type=click.IntRange(1, 8), default=4, show_default=True, help="How far ahead they look.")
def medusa(target: str | None, out: Path, work: Path | None, threads: int | None, **options: Any) -> None:
    """Train Medusa heads for a frozen target on text that it writes itself, and find the fixed tree that suits them.

    An interrupted run is resumed by giving the same command again.
    """
    from specviz.train.console import Console
    from specviz.train.medusa import Request, train_medusa

    folder = _prepared("medusa", work, threads)
    train_medusa(Request(target, out, folder, **options), Console())
    click.echo(out)


@click.command("static-tree")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--drafter", metavar="FOLDER", help="EAGLE-3 drafter that gets the tree [default: the target's own].")
@click.option("--windows", type=click.IntRange(min=1), default=48, show_default=True, help="Texts to count on.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--packages", is_flag=True, help="Also take text from the packages of this Python environment.")
@click.option("--text", "texts", type=_FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--threads", type=click.IntRange(min=1), help="Threads for torch.")
def static_tree(target: str | None, drafter: str | None, threads: int | None, **options: Any) -> None:
    """Calibrate the fixed tree of method static_tree: count where the target's tokens stand in an EAGLE-3 drafter."""
    import torch

    from specviz.train.console import Console
    from specviz.train.static_tree import Request, train_static_tree

    if threads:
        torch.set_num_threads(threads)
    folder, _ = train_static_tree(Request(target, drafter, **options), Console())
    click.echo(folder)


COMMANDS = (block_drafter, eagle3, medusa, static_tree)
