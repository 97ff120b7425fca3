"""`--max-mb`: how much of a trace is read at most, for every command that opens one, and for what it starts."""

import os
from typing import Any, TypeVar

import click

from specviz.trace.files import FLAG, KEPT_MB, STREAMED_MB, VARIABLE

C = TypeVar("C")


def max_mb_option(command: C) -> C:
    """Adds the flag; it holds while the command runs, in this process and in those that it starts."""
    return click.option(
        FLAG,
        metavar="N",
        type=click.IntRange(1, 1 << 20),
        expose_value=False,
        callback=_hold,
        help=f"Most megabytes of a trace to read [default: {STREAMED_MB}, {KEPT_MB} where all records are kept].",
    )(command)  # type: ignore[type-var]


def _hold(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
    if value is None:
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(value)

    def back() -> None:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before

    ctx.call_on_close(back)
