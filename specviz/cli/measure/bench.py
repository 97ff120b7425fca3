"""`specviz bench`: measure our methods against the library's own loops on this machine.

Standard output is a card for people and, last, one JSON line; with `--json` the line alone. Cheap checks come first,
so that bad input is refused before torch is imported.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from specviz.bench.settings import DEFAULT, DRAFTED, LANES, OURS, PEERS, SHAPES, BenchSettings, contestants, parse_knobs
from specviz.cli.printing import SectionedCommand, narrate
from specviz.cli.request import checked_device, checked_dtype
from specviz.errors import KnobError, SpecvizError, suggestion
from specviz.methods import pick_verifier
from specviz.sources.prompts import load_prompts

F = TypeVar("F", bound=Callable[..., Any])
_SECTIONS = {
    "What": ("methods", "gamma", "max_new_tokens", "temperature", "knobs"),
    "How much": ("prompts", "limit", "repeats", "minutes", "memory"),
    "Models": ("target", "draft", "shape", "device", "dtype", "threads", "lanes", "exit_layer"),
    "Output": ("html", "as_json", "quiet"),
}


_METHODS_HELP = (
    f"Of {', '.join((*OURS, *PEERS))}; :NAME behind one of ours is its verifier, +none, +summary or +full records it."
)
_SHAPE_HELP = "Random weights of that size in place of models, for the times of the stages: 0.5b or tiny."


def _option(*names: str, **rest: Any) -> Callable[[F], F]:
    """An option whose default is shown when it has one."""
    made: Callable[[F], F] = click.option(*names, show_default=rest.get("default") is not None, **rest)
    return made


@click.command("bench", cls=SectionedCommand, sections=_SECTIONS)
@_option("--methods", default=DEFAULT, metavar="LIST", help=_METHODS_HELP)
@_option("--gamma", type=click.IntRange(1, 64), default=4, help="Drafted tokens a round, for all chains and lookups.")
@_option("--max-new-tokens", type=click.IntRange(2), default=64, help="Tokens every run writes.")
@_option("--temperature", type=click.FloatRange(0), default=0.0, help="0 is greedy.")
@_option("--knob", "knobs", multiple=True, metavar="METHOD.NAME=VALUE", help="A knob of one of ours; repeatable.")
@_option("--prompts", metavar="FILE", help="JSONL with prompt, turns or question [default: the bundled prompts].")
@_option("--limit", type=click.IntRange(1), metavar="N", help="At most so many prompts, spread over the file.")
@_option("--repeats", type=click.IntRange(1), default=5, help="Times every prompt is measured.")
@_option("--minutes", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Stop measuring in time.")
@_option("--memory/--no-memory", default=True, help="Peak memory, a process for each method.")
@_option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one].")
@_option("--draft", metavar="MODEL", help="Folder or hub id of the draft model [default: the embedded one].")
@_option("--shape", metavar="NAME", help=_SHAPE_HELP)
@_option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu].")
@_option("--dtype", metavar="NAME", help="float32, bfloat16, float16 or float64 [default: the device's own].")
@_option("--threads", default="auto", metavar="N", help="Threads, or auto: found by a probe.")
@_option("--lanes", type=click.Choice(LANES), default="auto", help="Where methods that overlap run; auto: by a probe.")
@_option("--exit-layer", type=click.IntRange(1), metavar="N", help="Of hf-early-exit [default: half of the layers].")
@_option("--html", metavar="FILE", help="Also write the report as one HTML file.")
@_option("--json", "as_json", is_flag=True, help="The JSON line alone on standard output.")
@_option("--quiet", "-q", is_flag=True, help="No narration; errors are still told.")
def command(**given: Any) -> None:
    """Measure speeds against the library's own loops.

    Our methods against generate, assisted generation, prompt lookup and early exit of transformers: same models,
    prompts, dtype and threads, interleaved, with ratios paired by prompt, a check that texts are equal where that is
    promised, and what recording costs. With methods of early exit also layer calls, cells and head tests a token, and
    predicted beside measured times.

    \b
      specviz bench --minutes 3
      specviz bench --prompts questions.jsonl --limit 20 --temperature 0.8 --html report.html
      specviz bench --methods chain,hf-assisted --gamma 6 --json | jq .ratios
      specviz bench --methods ar,specbound,layerskip,hf-early-exit,hf-generate
    """
    settings = _settings(given)
    page = place(given["html"])
    load_prompts(settings.prompts, settings.limit)  # a bad file is told before torch is imported
    import msgspec

    from specviz.bench.report import sheets, speed
    from specviz.bench.speed.run import bench

    report = bench(settings, command_line(command, given), (lambda _: None) if given["quiet"] else narrate)
    if page is not None:
        sheets.write_page(page, speed.page(report))
    if not given["as_json"]:
        sheets.print_sheets(speed.heading(report), speed.sheets(report))
    click.echo(msgspec.json.encode(report).decode())


def _settings(given: Mapping[str, Any]) -> BenchSettings:
    """Raises SpecvizError for anything that can be known without a model."""
    same = (
        "gamma", "max_new_tokens", "temperature", "limit", "repeats", "minutes", "memory", "target", "draft", "shape",
        "lanes", "exit_layer",
    )  # fmt: skip
    settings = BenchSettings(
        arms=contestants(given["methods"]),
        device=checked_device(given["device"]),
        dtype=checked_dtype(given["dtype"]),
        threads=threads(given["threads"]),
        prompts=Path(given["prompts"]) if given["prompts"] else None,
        knobs=parse_knobs(given["knobs"]),
        **{name: given[name] for name in same},
    )
    _check_shape(settings)
    if settings.minutes is not None and not math.isfinite(settings.minutes):
        raise SpecvizError(f"--minutes {settings.minutes} is no time; give a number, or leave it out for no bound")
    if settings.target is not None and settings.draft is None and settings.needs_draft:
        needy = next(arm.name for arm in settings.arms if arm.kind in DRAFTED)
        raise SpecvizError(
            f"--target needs its --draft for '{needy}'; name one, or leave such methods out of --methods"
        )
    for kind in OURS:
        try:
            settings.method_knobs(kind)
        except KnobError as error:
            raise SpecvizError(f"--knob {kind}: {error}" if kind in settings.knobs else str(error)) from None
    for arm in settings.arms:
        if not arm.peer:
            method, knobs = settings.method_knobs(arm.kind)
            pick_verifier(method, arm.verifier, knobs)
    return settings


def _check_shape(settings: BenchSettings) -> None:
    if settings.shape is None:
        return
    if settings.shape not in SHAPES:
        raise SpecvizError(f"--shape: no size '{settings.shape}'{suggestion(settings.shape, SHAPES)}")
    if settings.target is not None or settings.draft is not None:
        raise SpecvizError("--shape makes models of its own; leave out --target and --draft")
    peer = next((arm.name for arm in settings.arms if arm.peer), None)
    if peer is not None:
        raise SpecvizError(f"--shape measures our own methods, not '{peer}'; name them with --methods, as in chain:hsd")


def threads(text: str) -> int:
    """The number of `--threads`, 0 for auto. Raises SpecvizError."""
    if text == "auto":
        return 0
    if not text.isdigit() or int(text) < 1:
        raise SpecvizError(f"--threads '{text}': give a number from 1 on, or auto")
    return int(text)


def place(html: str | None) -> Path | None:
    """Where the page goes; a folder that is not there is told now, not after minutes of measuring."""
    if html is None:
        return None
    path = Path(html)
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
        raise SpecvizError(f"--html '{html}': {why}; name a file in a folder that exists")
    return path


def command_line(of: click.Command, given: Mapping[str, Any]) -> str:
    """The command line again, files and models by their names alone."""
    words = [f"specviz {of.name}"]
    for parameter in of.params:
        value = given.get(str(parameter.name))
        if not isinstance(parameter, click.Option) or value == parameter.get_default(click.Context(of)):
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
