"""Options that several commands share, in the words of their help, and how a command takes them.

Knobs, methods and verifiers have flags of their own tables (`specviz.cli.options`).
"""

import functools
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from specviz.errors import SpecvizError, suggestion
from specviz.names import COMPILE, LANES
from specviz.trace.files import FLAG, KEPT_MB, STREAMED_MB, VARIABLE

_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?|auto")
_DTYPES = ("float32", "bfloat16", "float16", "float64")
Command = Callable[..., Any]
Option = Callable[[Command], Command]


def flag(names: str, meaning: str) -> Option:
    """An option without a value. `names`: as click takes them, the parameter's own among them, with spaces between."""
    return click.option(*names.split(), is_flag=True, help=meaning)


def text(names: str, metavar: str, meaning: str, **rest: Any) -> Option:
    """An option that is kept as it was typed, None where it was not."""
    return click.option(*names.split(), metavar=metavar, help=meaning, **rest)


def value(names: str, kind: "click.ParamType[Any]", default: Any, meaning: str = "", **rest: Any) -> Option:
    """An option of a kind, with a default that its help tells."""
    return click.option(
        *names.split(), type=kind, default=default, help=meaning or None, **{"show_default": True, **rest}
    )


def gone(name: str, instead: str) -> Option:
    """A removed option: hidden from the help; giving it is an error whose line names what to use now."""

    def refuse(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None:
            raise SpecvizError(f"{name}: {instead}")

    return click.option(name, hidden=True, expose_value=False, callback=refuse)


def _model(_ctx: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """A model's name as it was typed, once what it stands for was looked at. Raises ModelError."""
    from specviz.local_models.named import checked_path
    from specviz.self_drafts import is_self

    itself = option.name == "draft" and is_self(name)
    if name is not None and not itself:
        checked_path(name, option.opts[0])
    return name


def one_of(what: str, name: str, known: Collection[str]) -> str:
    """The name, when it is one of those known. Raises SpecvizError."""
    if name not in known:
        raise SpecvizError(f"no {what} '{name}'{suggestion(name, known)}")
    return name


def checked_device(name: str | None) -> str | None:
    """The device name, when it is one. Raises SpecvizError."""
    if name is not None and name.startswith("auto:"):
        raise SpecvizError(
            f"--device {name}: limits are no longer taken; auto fills what is free, GPUs first "
            "(CUDA_VISIBLE_DEVICES says which of them)"
        )
    if name is not None and not _DEVICE.fullmatch(name):
        one_of("device", name, ("cpu", "cuda", "cuda:0", "mps", "auto"))
    return name


def _named(what: str, known: Collection[str]) -> Callable[[Any, Any, str | None], str | None]:
    """The callback of an option whose value is one of those known, where it is given."""
    return lambda _ctx, _option, name: name if name is None else one_of(what, name, known)


TARGET = text(
    "--target",
    "MODEL",
    "Name, folder, GGUF file or hub id of the target [default: the embedded one].",
    callback=_model,
)
DRAFT = text(
    "--draft",
    "MODEL",
    "Name, folder, GGUF file or hub id of the draft model, or self:int4: the target itself in four bits "
    "[default: the one made for the target].",
    callback=_model,
)
DEVICE = text(
    "--device --device-map device",
    "NAME",
    "cpu, cuda, cuda:N or mps; auto: a target spread over what is here, GPUs first, then memory, then disk "
    "[default: cpu].",
    callback=lambda _ctx, _option, name: checked_device(name),
)
DRAFT_DEVICE = text(
    "--draft-device",
    "NAME",
    "Where the draft model runs [default: --device].",
    callback=lambda _ctx, _option, name: checked_device(name),
)
LANE = text(
    "--lanes",
    "NAME",
    f"How target and draft model run side by side: {', '.join(LANES)} [default: auto, the fastest by a short probe, "
    "for methods that draft while the target works]. Never changes the tokens.",
    callback=_named("lanes", LANES),
)
DTYPE = text(
    "--dtype",
    "NAME",
    "float32, bfloat16, float16 or float64 [default: bfloat16 where the device multiplies it and "
    "the weights are stored so, else float32].",
    callback=_named("dtype", _DTYPES),
)
PROMPTS = text("--prompts", "FILE", "JSONL with prompt, turns or question [default: the bundled prompts].")
LIMIT = click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="At most so many prompts, spread over the file."
)
OWN_LINE = text(
    "--line pattern",
    "PATTERN",
    "Lines of an engine that is not known here: words as they stand, {rounds} {drafted} {kept} {generated} {length} "
    "{rate} for numbers, {} for what is passed over.",
)
JSON = flag("--json as_json", "One JSON object on standard output.")
JSON_LINE = flag("--json as_json", "The JSON line alone on standard output.")


def with_options(options: Iterable[Option]) -> Option:
    """All of them, in that order."""
    return lambda function: functools.reduce(lambda so_far, option: option(so_far), reversed([*options]), function)


def minutes(words: str) -> Option:
    """The time a measurement may take."""
    return click.option("--minutes", type=click.FloatRange(min=0, min_open=True), metavar="X", help=words)


def quiet(words: str = "No narration; errors are still told.") -> Option:
    """No lines on standard error."""
    return flag("--quiet -q", words)


class SectionedCommand(click.Command):
    """A command whose help puts its many options under headings.

    `sections`: heading → names of parameters. What stands in none comes last, under `Other`.
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **rest: Any) -> None:
        super().__init__(*args, **rest)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options section by section, each in the order of its names."""
        records = {p.name: record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))}
        for title, names in self.sections.items():
            rows = [records.pop(name) for name in names if name in records]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if records:
            with formatter.section("Other"):
                formatter.write_dl(list(records.values()))


class Minutes(click.FloatRange):
    """A finite time: neither nan nor inf ever ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        minutes = super().convert(value, param, ctx)
        if not math.isfinite(minutes):
            self.fail(f"{value} is no time in minutes", param, ctx)
        return minutes


def _hold(ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
    """Set the bound in the environment, for the processes that the command starts too, until it ends."""
    if value is None:
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(value)

    def back() -> None:
        os.environ.pop(VARIABLE, None)
        os.environ.update({} if before is None else {VARIABLE: before})

    ctx.call_on_close(back)


max_mb_option = click.option(
    FLAG,
    metavar="N",
    type=click.IntRange(1, 1 << 20),
    expose_value=False,
    callback=_hold,
    help=f"Most megabytes of a trace to read [default: {STREAMED_MB}, {KEPT_MB} where all records are kept].",
)
SERVER_KEY = text(
    "--key-env", "NAME", "Variable of the environment that holds the server's key [default: SPECVIZ_SERVER_KEY]."
)


def _compile(context: click.Context, option: click.Parameter, value: str | None) -> None:
    """Told by a variable: the worker of a screen is another process."""
    if value is not None:
        os.environ[COMPILE] = value


COMPILED = click.option(
    "--compile",
    type=click.Choice(["auto", "off"]),
    callback=_compile,
    expose_value=False,
    help="auto: on a CPU, take rows through the layers in a kernel that is built here once, where a C compiler is at "
    f"hand and its rows are exact. off: by torch [default: auto, or the variable {COMPILE}].",
)


def command_line(name: str, of: click.Command, options: Mapping[str, Any]) -> str:
    """The command line again, files and models by their names alone."""
    words = [name]
    for parameter in of.params:
        value = options.get(str(parameter.name))
        if not isinstance(parameter, click.Option) or value == parameter.get_default(click.Context(of)):
            continue
        if parameter.name in ("html", "out", "force", "as_json", "quiet") or value in (None, ()):
            continue
        words += [_typed_again(parameter, item) for item in (value if isinstance(value, tuple) else (value,))]
    return " ".join(words)


def _typed_again(option: click.Option, value: Any) -> str:
    from specviz.trace.private import without_folders

    if isinstance(value, bool):
        return option.opts[0] if value else option.secondary_opts[0]
    if option.name == "prompts":
        value = Path(value).name
    elif option.name in ("target", "draft"):
        value = value if not Path(value).exists() else f"{Path(value).parent.name}/{Path(value).name}"
    elif isinstance(value, str):
        value = without_folders(value)  # a knob may name a trained part
    return f"{option.opts[0]} {value:g}" if isinstance(value, float) else f"{option.opts[0]} {value}"
