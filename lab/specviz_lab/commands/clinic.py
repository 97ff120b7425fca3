"""`specviz lab clinic`: faults planted in real runs, and what the judge makes of them."""

from pathlib import Path

import click

from specviz.cli.printing import narrate
from specviz.errors import SpecvizError
from specviz_lab.clinic.case import usual_folders, wanted_cases

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.group("clinic", cls=click.Group)
def command() -> None:
    """Plant the sixteen faults in real runs, score the judge on them and on healthy twins, and name them yourself."""


@command.command("make")
@click.option("--fault", type=click.IntRange(1, 16), metavar="N", help="One fault alone [default: all].")
@click.option("--seed", type=click.IntRange(0, 999_999), metavar="N", help="One seed alone [default: 0 to 2].")
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


@command.command("score")
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=_FOLDER)
@click.option("--fault", type=click.IntRange(1, 16), metavar="N", help="Cases of one fault alone [default: all].")
@click.option("--keep", is_flag=True, help="Keep the scores in benchmarks/clinic-seeds.json, which the page shows.")
@click.option("--unseen", is_flag=True, help="With --keep: nobody has looked at a case of these seeds yet.")
@click.option("--page", "to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page.")
def score_command(folders: tuple[Path, ...], fault: int | None, keep: bool, unseen: bool, to: Path | None) -> None:
    """Hold the judge's first answer to every case against what was planted.

    Of rounds, of histories made of them, and of their totals: precision and recall, on the half of the seeds that
    thresholds are set on and on the other one; then of public cases, by what they were in the end. Without a folder on
    the cases that come with specviz.
    """
    from specviz_lab.clinic import other_seeds
    from specviz_lab.clinic.page import lines, page, public_lines
    from specviz_lab.clinic.public import public_answers
    from specviz_lab.clinic.score import answers

    if fault is not None and (keep or to is not None):
        raise SpecvizError("--page and --keep take the scores of all faults; leave out --fault")
    if folders and to is not None:
        raise SpecvizError("--page is about the cases that come with specviz; name no folder")
    if (keep and not folders) or (unseen and not keep):
        raise SpecvizError("--keep and --unseen are about other seeds: name their FOLDER, and --keep")
    scored = answers(folders or usual_folders(), fault)
    public = public_answers(folders or usual_folders()) if fault is None else []
    if not scored:
        raise SpecvizError("no cases there; make some: specviz lab clinic make")
    if keep:
        other_seeds.keep(other_seeds.kept_file(), scored, unseen)
    for line in (*lines(scored), *public_lines(public)):
        click.echo(line)
    for answer in scored:
        if answer.fault and not answer.right:
            whose = "" if answer.case.ill else "healthy twin of "
            narrate(
                f"{answer.level}: {whose}{answer.case.fault}, seed {answer.case.seed}: {answer.fault} {answer.detector}"
            )
    if to is not None:
        kept = other_seeds.read_kept(other_seeds.kept_file())
        to.write_text(page(scored, public, kept), encoding="utf-8")
