"""`specviz train block-drafter`, `eagle3`, `medusa`: drafters that read the target's states and grow trees.

Several processes train together when `accelerate launch -m specviz train ..` starts them.
"""

from collections.abc import Callable
from typing import Any

import click

from specviz.cli.flags import TARGET, Command, with_options
from specviz.cli.train.options import SEED, machine, trainer

_PACE = (
    click.option(
        "--draft-vocab", type=click.IntRange(min=0), default=0, help="Only the K most frequent tokens; 0: all."
    ),
    click.option(
        "--batch", type=click.IntRange(min=1), default=2, show_default=True, help="Windows a process takes at once."
    ),
    click.option(
        "--accumulate", type=click.IntRange(min=1), default=1, show_default=True, help="Such batches that make a step."
    ),
    click.option(
        "--length", type=click.IntRange(min=0), default=0, help="Tokens of a window that the target writes; 0: 257."
    ),
    click.option(
        "--optimizer",
        type=click.Choice(["muon", "adamw"]),
        default="muon",
        show_default=True,
        help="muon: for the matrices between states, and AdamW for the rest; adamw: for all.",
    ),
    click.option(
        "--rate",
        type=click.FloatRange(min=0, min_open=True, max=1),
        default=1.5e-3,
        show_default=True,
        help="Peak learning rate of AdamW.",
    ),
    click.option(
        "--muon-rate",
        type=click.FloatRange(min=0, min_open=True, max=1),
        default=2e-2,
        show_default=True,
        help="And of Muon.",
    ),
    click.option(
        "--warm-up", type=click.IntRange(min=1), default=50, show_default=True, help="Steps up to the peak rate."
    ),
    click.option(
        "--precision",
        type=click.Choice(["bf16", "fp32"]),
        default="bf16",
        show_default=True,
        help="What the drafter computes in; its weights are float32.",
    ),
    click.option(
        "--draft-loss",
        type=click.Choice(["full", "top50"]),
        default="full",
        show_default=True,
        help="Against the target's whole law, or its 50 likeliest tokens as they stand.",
    ),
    click.option(
        "--decay",
        type=click.FloatRange(min=0, min_open=True, max=1),
        default=0.8,
        show_default=True,
        help="What every place ahead weighs of the one before.",
    ),
)


def _drafter(name: str) -> Callable[[Command], click.Command]:
    """A command that trains a drafter of that name."""
    return lambda function: trainer(name, "drafter", 60.0)(with_options(_PACE)(function))


@_drafter("block-drafter")
@click.option("--slots", type=click.IntRange(1, 16), default=4, show_default=True, help="Positions a block.")
@click.option("--layers", type=click.IntRange(2, 16), default=2, show_default=True, help="Layers of the drafter.")
@click.option("--blocks", type=click.IntRange(1, 4), default=3, show_default=True, help="Blocks unrolled in training.")
@click.option("--width", type=click.IntRange(min=0), default=0, help="Of the drafter; 0: the target's.")
@click.option(
    "--rope-mode",
    type=click.Choice(["offset", "repeat"]),
    default="offset",
    show_default=True,
    help="Positions of later blocks' rows: behind the node they start at, or the root's again.",
)
@click.option(
    "--rank-loss",
    type=click.Choice(["invsqrt", "ce", "reference"]),
    default="invsqrt",
    show_default=True,
    help="How rank buckets are weighted: by rarity, not at all, or as the authors' code does.",
)
@click.option("--shift/--no-shift", default=True, help="Ablation: slots hear of the slot before at every layer.")
@click.option("--broadcast/--no-broadcast", default=True, help="Ablation: all slots read condition and token.")
@click.option("--valid-prefix/--no-valid-prefix", default=True, help="Ablation: no loss behind a wrong slot.")
@click.option(
    "--floor",
    type=click.FloatRange(0, 1),
    default=0.25,
    show_default=True,
    help="Slots reached by less than this share of the places weigh less; 0: as in the paper.",
)
@click.option(
    "--alone",
    type=click.IntRange(min=0),
    default=1200,
    show_default=True,
    help="Steps that block 1 learns alone, half of the time at most; 0: as in the paper.",
)
def block_drafter(**options: Any) -> bool:
    """Train SpecBlock's drafter for a frozen target on text that it writes itself, and measure it.

    An interrupted run is resumed by giving the same command again; one that is over is measured again.
    """
    from specviz.train.common.console import Console
    from specviz.train.trees.block_drafter import BlockDrafterRequest, train_block_drafter

    return train_block_drafter(BlockDrafterRequest(**options), Console()) is not None


@_drafter("eagle3")
@click.option("--steps", type=click.IntRange(1, 16), default=7, show_default=True, help="Levels unrolled in training.")
def eagle3(**options: Any) -> bool:
    """Train an EAGLE-3-style drafter for a frozen target on text that it writes itself, and measure it.

    An interrupted run is resumed by giving the same command again; one that is over is measured again.
    """
    from specviz.train.common.console import Console
    from specviz.train.trees.eagle3 import Eagle3Request, train_eagle3

    return train_eagle3(Eagle3Request(**options), Console()) is not None


@_drafter("medusa")
@click.option("--heads", type=click.IntRange(1, 8), default=4, show_default=True, help="How far ahead they look.")
def medusa(**options: Any) -> bool:
    """Train Medusa heads for a frozen target on text that it writes itself, and find the fixed tree that suits them.

    An interrupted run is resumed by giving the same command again; one that is over is measured again.
    """
    from specviz.train.common.console import Console
    from specviz.train.trees.medusa import MedusaRequest, train_medusa

    return train_medusa(MedusaRequest(**options), Console()) is not None


@click.command("static-tree")
@with_options(
    (
        TARGET,
        click.option(
            "--drafter",
            metavar="FOLDER",
            help="EAGLE-3 drafter or Medusa heads that get the tree [default: the target's own EAGLE-3 drafter].",
        ),
        click.option("--windows", type=click.IntRange(min=1), default=48, show_default=True, help="Texts to count on."),
        SEED,
        *machine(),
    )
)
def static_tree(threads: int | None, **options: Any) -> None:
    """Calibrate a fixed tree: count where the target's tokens stand in a drafter's ranks.

    Method static_tree takes the tree of an EAGLE-3 drafter, medusa that of its heads; drafters may be your own or
    published ones.
    """
    import torch

    from specviz.train.common.console import Console
    from specviz.train.trees.static_tree import StaticTreeRequest, train_static_tree

    if threads:
        torch.set_num_threads(threads)
    folder, _ = train_static_tree(StaticTreeRequest(**options), Console())
    click.echo(folder)


COMMANDS = (block_drafter, eagle3, medusa, static_tree)
