"""What the commands that train a part share: options, the work folder, and the line that tells how to go on."""

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from specviz.cli import Terminated
from specviz.cli.flags import DEVICE, TARGET, Command, Minutes, Option, with_options

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)


def machine(text: str = "text") -> tuple[Option, ...]:
    """Where more text comes from, and what to compute on."""
    return (
        click.option(
            "--packages", is_flag=True, help=f"Also take {text} from the packages of this Python environment."
        ),
        click.option("--text", "texts", type=FILE, multiple=True, help="Also take this .txt or .jsonl; repeatable."),
        DEVICE,
        click.option("--threads", type=click.IntRange(min=1), help="Threads for torch."),
    )


def folders(name: str, what: str, kept: str) -> tuple[Option, ...]:
    """Where the result goes, and what is needed to go on."""
    goes_on = f"Folder for {kept}; a run goes on from what it finds there."
    return (
        click.option("--out", type=FOLDER, default=Path(name), show_default=True, help=f"Folder for the {what}."),
        click.option("--work", type=FOLDER, help=goes_on),
    )


def clock(minutes: float | None, clocked: str) -> tuple[Option, ...]:
    """The time that is given; none for a trainer that counts otherwise."""
    if minutes is None:
        return ()
    told = f"{clocked}; reading text and measuring come on top."
    return (click.option("--minutes", type=Minutes(min=0.05), default=minutes, show_default=True, help=told),)


def trainer(
    name: str,
    what: str,
    minutes: float | None = None,
    *,
    kept: str = "checkpoints",
    clocked: str = "Training time",
    text: str = "text",
    folder: Callable[[dict[str, Any]], str] = lambda options: "",
) -> Callable[[Command], click.Command]:
    """A command of `specviz train` that makes a part: `function` gets all options, with `work` filled in.

    `folder` adds to the work folder's usual name what runs must not share.
    """

    def decorate(function: Command) -> click.Command:
        @functools.wraps(function)
        def run(work: Path | None, **options: Any) -> None:
            place = work or usual_work(f"train-{name}{folder(options)}")
            with resumable(place):
                finished = function(work=place, **options)
            if finished is not False:
                click.echo(options["out"])

        shared: list[Option] = [TARGET, *folders(name, what, kept), *clock(minutes, clocked), SEED, *machine(text)]
        return click.command(name)(with_options(shared)(run))

    return decorate


def usual_work(name: str) -> Path:
    """Where a run is kept when nobody said where."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("specviz")) / name


@contextmanager
def resumable(work: Path) -> Iterator[None]:
    """Tell whoever interrupts how to go on; the exit code is left to the interruption itself."""
    try:
        with _terminable():
            yield
    except KeyboardInterrupt:
        told = f"specviz: interrupted; give the same command again to go on from what is in {work}"
        if os.environ.get("RANK", "0") == "0":  # of several processes that train together one tells
            print(told, file=sys.stderr, flush=True)
        raise


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends a training as Ctrl-C does."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
