"""`specviz tune`: which method and which knobs are fastest with this pair on these prompts, in a given time."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import OK, flags, options
from specviz.cli.flags import value
from specviz.cli.measure.values import varied
from specviz.cli.printing import narrate
from specviz.cli.request import check_models, check_place
from specviz.errors import SpecvizError
from specviz.methods import Method, all_methods, get_method
from specviz.numerals import UNKNOWN, plural, times
from specviz.sources.prompts import load_prompts
from specviz.text import running

if TYPE_CHECKING:
    from specviz.tuning.measured import TuneReport

ALL = "all"
_LISTED = 24  # settings in the table
_WIDE = 32  # cells of the longest bar
_SECTIONS = {
    "What": ("methods", "vary"),
    "How much": ("prompts", "limit", "minutes"),
    **{name: of for name, of in options.sections().items() if name.startswith(("Knobs", "Sampling"))},
    "Models": ("target", "draft", "device", "dtype", "threads", "compile"),
    "Output": ("out", "force", "as_json", "quiet"),
}


@click.command("tune", cls=flags.SectionedCommand, sections=_SECTIONS)
@click.option(
    "--method",
    "methods",
    multiple=True,
    metavar="NAME",
    help=f"A method to search, several times for several; {ALL}: every one that can run with these models "
    f"{options.USUAL_HELP}.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KNOB=V,V",
    help="Search this knob alone, over these values; several times for several knobs [default: every number that "
    "shapes the draft].",
)
@flags.PROMPTS
@flags.LIMIT
@value("--minutes", flags.Minutes(min=0, min_open=True), 5.0, "Time for all of it.")
@options.knob_options
@options.model_options
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the chosen knobs, as TOML.")
@flags.flag("--force", "Write over a file that is there.")
@flags.JSON_LINE
@flags.quiet("No progress; errors are still told.")
def command(**arguments: Any) -> int:
    """Find the fastest setting for a pair on your prompts, and say when nothing pays.

    What a recorded run decides is replayed and not decoded: every early-exit setting exactly, draft lengths by
    acceptance and the cost of rows. The others race: all decode the same prompts, the slower half goes, the rest get
    twice as many. The one that wins is then measured beside plain decoding on prompts that the race never saw; that
    number has a 95 % interval. Text and law stay as they are: only what shapes the draft is searched.

    FILE is taken by run, tui and web as --knobs FILE.

    \b
      specviz tune --target smollm2 --prompts questions.jsonl --minutes 5 -o fast.toml
      specviz tune --method all
      specviz tune --method draft --shape tree --vary node_budget=8,16,32
      specviz run --target smollm2 --knobs fast.toml --prompt 'Why is the sky blue?'
    """
    if arguments["out"] is not None:
        check_place(arguments["out"], arguments["force"])
    names = _methods(arguments)
    specs = {spec.name: spec for name in names for spec in get_method(name).own if spec.kind != "texts"}
    asked = varied(arguments["vary"], specs, ", ".join(names), {})
    fixed = _fixed(names, arguments)
    prompts = load_prompts(Path(arguments["prompts"]) if arguments["prompts"] else None, arguments["limit"])
    check_models(arguments["target"], arguments["draft"], any(get_method(name).needs_draft for name in names))
    from specviz.engine.run.local import load_pair
    from specviz.engine.run.prepare import wants_chat
    from specviz.sources.prompts import suited
    from specviz.tuning.measured import Tuning

    needs_draft = any(get_method(name).needs_draft for name in names)
    models = (arguments[name] for name in ("device", "dtype", "threads"))
    pair = load_pair(arguments["target"], arguments["draft"], needs_draft, *models)
    pair.runtime.begin()
    tuning = Tuning(
        pair,
        suited(prompts, wants_chat(pair.target, None)),
        names,
        fixed,
        asked,
        arguments["minutes"] * 60,
        running(flags.command_line("specviz tune", command, arguments)),
        (lambda words: None) if arguments["quiet"] else narrate,
    )
    report = tuning.run()
    if not arguments["as_json"]:
        _print(report)
    if arguments["out"] is not None:
        arguments["out"].write_text(knob_file(report), encoding="utf-8")
        narrate(
            f"specviz: knobs in {running(str(arguments['out']))}; specviz run --knobs {running(str(arguments['out']))}"
        )
    import msgspec

    click.echo(msgspec.json.encode(report).decode())
    return OK


def _methods(arguments: Mapping[str, Any]) -> list[str]:
    """Raises SpecvizError for a method that drafts nothing, or is none."""
    if ALL in arguments["methods"]:
        lacking = options.lacking(arguments["target"])
        return [m.name for m in all_methods().values() if not m.traits.plain and m.name not in lacking]
    names = list(dict.fromkeys(arguments["methods"])) or [options.usual_method({**arguments, "method": None})]
    plain = next((name for name in names if get_method(name).traits.plain), None)
    if plain is not None:
        raise SpecvizError(f"--method {plain} drafts nothing: it is the baseline of the others")
    return names


def _fixed(names: Sequence[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs that were typed; a method that lacks one goes without. Raises KnobError where all lack it."""
    first: Method = get_method(names[0])
    known = options.knob_specs()
    typed = {name: arguments[name] for name in known if arguments.get(name) not in (None, ())}
    fixed: dict[str, Any] = {"max_new_tokens": 64}
    for name in typed:
        holder = next((get_method(method) for method in names if method in known[name]), first)
        fixed |= options.given_knobs(holder, {name: typed[name]})
    return fixed


def knob_file(report: "TuneReport") -> str:
    """What `--knobs FILE` takes: the method, and the knobs that are not at their defaults. Plain decoding where that is
    the fastest."""
    from specviz.tuning.measured import PLAIN

    knobs = {name: value for name, value in report.fixed.items() if name != "max_new_tokens"}
    method = report.method
    if report.verdict == "nothing pays":
        method, has = PLAIN, {spec.name for spec in get_method(PLAIN).table.specs}
        knobs = {name: value for name, value in knobs.items() if name in has}
    else:
        knobs |= report.knobs
    lines = [f"# {report.command}", f"# {_verdict(report)}", f"method = {json.dumps(method)}"]
    return "\n".join([*lines, *(f"{name} = {json.dumps(value)}" for name, value in knobs.items())]) + "\n"


def _verdict(report: "TuneReport") -> str:
    estimate, n = report.over_plain, plural(report.n_confirmed, "prompt")
    ends = "" if estimate.interval is None else f" ({times(estimate.interval[0])} to {times(estimate.interval[1])})"
    seen = "that the search never saw" if report.fresh else "that were searched on: give more for an honest number"
    number = f"{times(estimate.value)} plain decoding{ends} on {n} {seen}"
    if report.verdict == "nothing pays":
        return f"nothing here pays: {report.setting.name}, the best, is {number}"
    if report.verdict == "cannot tell":
        return f"cannot tell whether anything pays: {report.setting.name}, the best, is {number}"
    return f"{report.setting.name} is best: {number}"


def _print(report: "TuneReport") -> None:
    """The verdict, who was in the race, and the curves."""
    from specviz.comparison.sheets import Sheet, print_sheets

    default = report.over_default
    ends = "" if default is None or default.interval is None else tuple(map(times, default.interval))
    lines = [_verdict(report)]
    if default is not None:
        lines.append(
            f"{times(default.value)} {report.method} at its defaults" + (f" ({ends[0]} to {ends[1]})" if ends else "")
        )
    ranked = sorted(report.trials, key=lambda trial: (trial.n_prompts, trial.over_plain or 0), reverse=True)
    from specviz.tuning.space import KnobSetting

    rows = [
        [
            KnobSetting(trial.method, trial.knobs).name,
            UNKNOWN if trial.over_plain is None else times(trial.over_plain),
            str(trial.n_prompts),
            trial.why,
        ]
        for trial in ranked[:_LISTED]
    ]
    more = len(ranked) - len(rows)
    note = "of plain: speed over plain decoding, looked at while choosing: the number above was not" + (
        f"; {more} more in the JSON line" if more else ""
    )
    sheets = [Sheet("The race", ("", "of plain", "prompts", "why"), rows, note)]
    top = max((speed for points in report.curves.values() for _, speed in points), default=1.0)
    sheets += [
        Sheet(name, (name.rpartition(" ")[2], "of plain", ""), [_bar(*point, top) for point in points], "alone changed")
        for name, points in report.curves.items()
    ]
    print_sheets([*lines, *report.replays], sheets)


def _bar(value: Any, speed: float, top: float) -> list[str]:
    """A point of a curve: a bar as long as the speed, with a mark at plain decoding."""
    cells, plain = round(_WIDE * speed / top), round(_WIDE / top)
    bar = "".join("│" if k == plain else "█" if k < cells else " " for k in range(max(cells, plain + 1)))
    return [str(value), times(speed), bar]
