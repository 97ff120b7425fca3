"""`specviz lab clinic`: faults planted in real runs, and what the judge makes of them."""

from pathlib import Path

import click

from specviz.cli.printing import narrate
from specviz_lab.clinic.case import SEEDS, wanted_cases

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group("clinic", cls=click.Group)
def command() -> None:
    """Plant the sixteen faults in real runs, and score the judge on them and on healthy twins."""


@command.command("make")
@click.option("--fault", type=click.IntRange(1, 16), metavar="N", help="One fault alone [default: all].")
@click.option("--seed", type=click.IntRange(0, max(SEEDS)), metavar="N", help="One seed alone [default: all].")
@click.option("--out", type=_FOLDER, default=Path("clinic"), show_default=True, metavar="FOLDER", help="Where to.")
def make_command(fault: int | None, seed: int | None, out: Path) -> None:
    """Decode planted runs and their healthy twins into folders, a case each.

    Needs SmolLM2 (specviz models get smollm2) for some of them.

    \b
      specviz lab clinic make --fault 3 --seed 1
    """
    cases = wanted_cases(fault, seed)
    from specviz_lab.clinic.make import make

    make(cases, out, narrate)
