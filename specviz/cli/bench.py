"""`specviz bench`: measure our methods against the library's own loops on this machine.

Standard output is a card for people and, last, one JSON line; with `--json` the line alone. Cheap checks come first,
so that bad input is refused before torch is imported.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from specviz.bench.prompts import load_prompts
from specviz.bench.settings import DEFAULT, OURS, PEERS, Settings, contestants, parse_knobs
from specviz.cli import options
from specviz.cli.layout import narrate
from specviz.cli.sections import SectionedCommand
from specviz.errors import KnobError, SpecvizError, suggestion

_DTYPES = ("float32", "bfloat16", "float16", "float64")
_SECTIONS = {
    "What": ("methods", "gamma", "max_new_tokens", "temperature", "knobs"),
    "How much": ("prompts", "limit", "repeats", "minutes", "memory"),
    "Models": ("target", "draft", "device", "dtype", "threads"),
    "Output": ("html", "as_json", "quiet"),
}


@click.command("bench", cls=SectionedCommand, sections=_SECTIONS)
@click.option("--methods", default=DEFAULT, show_default=True, metavar="LIST", help=f"Of {', '.join((*OURS, *PEERS))}; +none, +summary or +full behind one of ours records it.")  # fmt: skip
@click.option("--gamma", type=click.IntRange(1, 64), default=4, show_default=True, help="Drafted tokens a round, the same for all chains and lookups.")  # fmt: skip
@click.option("--max-new-tokens", type=click.IntRange(2), default=64, show_default=True, help="Tokens every run writes.")  # fmt: skip
@click.option("--temperature", type=click.FloatRange(0), default=0.0, show_default=True, help="0 is greedy.")
@click.option("--knob", "knobs", multiple=True, metavar="METHOD.NAME=VALUE", help="A knob of one of our methods; repeatable.")  # fmt: skip
@click.option("--prompts", metavar="FILE", help="JSONL with prompt, turns or question [default: the bundled prompts].")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most so many prompts, spread over the file.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Times every prompt is measured.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Stop measuring in time.")
@click.option("--memory/--no-memory", default=True, show_default=True, help="Peak memory, a process for each method.")
@click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@click.option("--draft", metavar="MODEL", help="Folder or hub id of the draft model [default: the embedded one].")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@click.option("--dtype", metavar="NAME", help="float32, bfloat16, float16 or float64 [default: the device's own].")
@click.option("--threads", default="auto", show_default=True, metavar="N", help="Threads, or auto: found by a probe.")
@click.option("--html", metavar="FILE", help="Also write the report as one HTML file.")
@click.option("--json", "as_json", is_flag=True, help="The JSON line alone on standard output.")
@click.option("--quiet", "-q", is_flag=True, help="No narration; errors are still told.")
def command(**given: Any) -> None:
    """Measure speeds against the library's own loops.

    Plain decoding, chains, trees and lookup of ours against generate, assisted generation and prompt lookup of
    transformers: same models, prompts, dtype and threads, interleaved, with ratios paired by prompt, a check that texts
    are equal where that is promised, and what recording costs.

    \b
      specviz bench --minutes 3
      specviz bench --prompts questions.jsonl --limit 20 --temperature 0.8 --html report.html
      specviz bench --methods chain,hf-assisted --gamma 6 --json | jq .ratios
    """
    settings = _settings(given)
    page = _place(given["html"])
    load_prompts(settings.prompts, settings.limit)  # a bad file is told before torch is imported
    import msgspec

    from specviz.bench.run import bench

    report = bench(settings, _command(given), (lambda _: None) if given["quiet"] else narrate)
    if page is not None:
        from specviz.bench.page import write_page

        write_page(report, page)
    if not given["as_json"]:
        from specviz.bench.card import print_card

        print_card(report)
    click.echo(msgspec.json.encode(report).decode())


def _settings(given: Mapping[str, Any]) -> Settings:
    """Raises SpecvizError for anything that can be known without a model."""
    if given["dtype"] is not None and given["dtype"] not in _DTYPES:
        raise SpecvizError(f"no dtype '{given['dtype']}'{suggestion(given['dtype'], _DTYPES)}")
    same = ("gamma", "max_new_tokens", "temperature", "limit", "repeats", "minutes", "memory", "target", "draft")
    settings = Settings(
        arms=contestants(given["methods"]),
        device=options.checked_device(given["device"]) if hasattr(options, "checked_device") else given["device"],
        dtype=given["dtype"],
        threads=_threads(given["threads"]),
        prompts=Path(given["prompts"]) if given["prompts"] else None,
        knobs=parse_knobs(given["knobs"]),
        **{name: given[name] for name in same},
    )
    if settings.target is not None and settings.draft is None and settings.needs_draft:
        needy = next(arm.name for arm in settings.arms if arm.kind in ("chain", "tree", "hf-assisted"))
        raise SpecvizError(
            f"--target needs its --draft for '{needy}'; name one, or leave such methods out of --methods"
        )
    for kind in OURS:
        try:
            settings.method_knobs(kind)
        except KnobError as error:
            raise SpecvizError(f"--knob {kind}: {error}") from None
    return settings


def _threads(text: str) -> int:
    if text == "auto":
        return 0
    if not text.isdigit() or int(text) < 1:
        raise SpecvizError(f"--threads '{text}': give a number from 1 on, or auto")
    return int(text)


def _place(html: str | None) -> Path | None:
    """Where the page goes; a folder that is not there is told now, not after minutes of measuring."""
    if html is None:
        return None
    path = Path(html)
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
        raise SpecvizError(f"--html '{html}': {why}; name a file in a folder that exists")
    return path


def _command(given: Mapping[str, Any]) -> str:
    """The command line again, files and models by their names alone."""
    words = ["specviz bench"]
    for parameter in command.params:
        value = given.get(str(parameter.name))
        if not isinstance(parameter, click.Option) or value == parameter.get_default(click.Context(command)):
            continue
        if parameter.name in ("html", "as_json", "quiet") or value in (None, ()):
            continue
        for item in value if isinstance(value, tuple) else (value,):
            words.append(_flag(parameter, item))
    return " ".join(words)


def _flag(option: click.Option, value: Any) -> str:
    if isinstance(value, bool):
        return option.opts[0] if value else option.secondary_opts[0]
    shown = f"{Path(value).parent.name}/{Path(value).name}" if option.name in ("target", "draft") else value
    return f"{option.opts[0]} {Path(value).name if option.name == 'prompts' else shown}"
