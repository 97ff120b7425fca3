"""What `specviz lab bench` and `ablate` share: options, checks, and the command line told again."""

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from specviz.cli import flags
from specviz.cli.flags import text, value
from specviz.errors import SpecvizError
from specviz_lab.bench.settings import LANES, BenchSettings, parse_knobs

HTML = text("--html", "FILE", "Also write the report as one HTML file.")
OUTPUT = flags.with_options((HTML, flags.JSON_LINE, flags.quiet()))


def length(words: str) -> flags.Option:
    """How much every run writes and how."""
    return flags.with_options(
        (
            value("--max-new-tokens", click.IntRange(2), 64, words),
            value("--temperature", click.FloatRange(0), 0.0, "0 is greedy."),
        )
    )


def knob(words: str) -> flags.Option:
    """Knobs of single methods."""
    return click.option("--knob", "knobs", multiple=True, metavar="METHOD.NAME=VALUE", help=words)


def amounts(repeats: int) -> flags.Option:
    """Prompts, and how often and how long they are measured."""
    times = "Times every prompt is measured."
    return flags.with_options(
        (
            flags.PROMPTS,
            flags.LIMIT,
            value("--repeats", click.IntRange(1), repeats, times),
            flags.minutes("Stop measuring in time."),
        )
    )


def machine(auto: str, show_default: bool = True) -> flags.Option:
    """What is computed on and in. `auto`: how the number of threads is found."""
    words, where = f"Threads, or auto: {auto}.", "Where methods that overlap run; auto: by a probe."
    return flags.with_options(
        (
            flags.DEVICE,
            flags.DTYPE,
            click.option("--threads", default="auto", show_default=show_default, metavar="N", help=words),
            flags.COMPILED,
            value("--lanes", click.Choice(LANES), "auto", where),
        )
    )


def settings_of(options: Mapping[str, Any], **fixed: Any) -> BenchSettings:
    """What `bench` and `ablate` measure, by the options of the same names. Raises SpecvizError."""
    same = {setting.name: options[setting.name] for setting in fields(BenchSettings) if setting.name in options}
    checked: dict[str, Any] = {"threads": _threads(options["threads"]), "knobs": parse_knobs(options["knobs"])}
    checked["prompts"] = Path(options["prompts"]) if options["prompts"] else None
    return BenchSettings(**{**same, **checked, **fixed})


def _threads(text: str) -> int:
    """The number of `--threads`, 0 for auto. Raises SpecvizError."""
    if text == "auto":
        return 0
    if not text.isdigit() or int(text) < 1:
        raise SpecvizError(f"--threads '{text}': give a number from 1 on, or auto")
    return int(text)


def page_of(html: str | None) -> Path | None:
    """Where the page goes; a folder that is not there is told now, not after minutes of measuring."""
    if html is None:
        return None
    path = Path(html)
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
        raise SpecvizError(f"--html '{html}': {why}; name a file in a folder that exists")
    return path


def check_kept(option: str, path: Path) -> None:
    """A file that is to grow while something is measured: told now if it cannot be. Raises SpecvizError."""
    folder = path.parent
    if not folder.is_dir():
        raise SpecvizError(f"{option} {path}: there is no folder '{folder}'; name a file in a folder that exists")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise SpecvizError(f"{option} {path}: it may not be written; name another file")


def put_out(
    options: Mapping[str, Any],
    report: Any,
    words: ModuleType,
    title: str = "",
    page: Path | None = None,
    charts: Callable[[Any], str] = lambda report: "",
) -> None:
    """A report as one page, as tables and as one JSON line. `words`: the module that has its heading and tables."""
    import msgspec

    from specviz.comparison.sheets import page as page_of_sheets
    from specviz.comparison.sheets import print_sheets

    heading, parts = words.heading(report), words.sheets(report)
    if page is not None:
        foot = f"{report.command} · {report.wall}"
        _write(page, page_of_sheets(title, heading, parts, foot, charts(report)))
    if not options["as_json"]:
        print_sheets(heading, parts)
    click.echo(msgspec.json.encode(report).decode())


def _write(path: Path, text: str) -> None:
    """Write the file. Raises SpecvizError when it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecvizError(f"--html: cannot write '{path}': {error.strerror or error}") from None
