"""`specviz compare`: recordings, or sets of them, side by side; or several verifiers on the same prompts and drafts.

Standard output is a card for people and, last, one JSON line; with `--json` the line alone. Bad input is refused before
torch is imported.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import FAILED, INTERRUPTED, OK, flags, options
from specviz.cli.flags import flag, max_mb_option, text, value
from specviz.cli.measure.values import varied
from specviz.cli.printing import echo_json, narrate
from specviz.cli.request import check_models
from specviz.errors import SpecvizError
from specviz.knobs import LAST_SEED, Knobs
from specviz.methods import Method, get_method, pick_verifier
from specviz.probability.plan import Verifier
from specviz.sources.prompts import PromptSet, load_prompts
from specviz.text import running
from specviz.traits import TOKENWISE
from specviz.verifiers import get_verifier

if TYPE_CHECKING:
    from specviz.comparison.measured import ComparisonSettings, Progress
    from specviz.comparison.sheets import Sheet
    from specviz.view.compare import GateRule

_SECTIONS = {
    "Recordings": ("prompt_number", "fail_if", "out", "force", "max_mb"),
    "What": ("verifiers", "vary", "method"),
    "How much": ("prompts", "limit", "seeds", "minutes", "traces"),
    **{name: of for name, of in options.sections().items() if name.startswith(("Knobs", "Sampling"))},
    "Models": ("target", "draft", "device", "dtype", "threads", "compile"),
    "Output": ("as_json", "quiet"),
}
_OF_RUNS = ("prompt_number", "fail_if", "out", "force")  # options that say something of recordings alone
_FOUR = ("tokenwise", "blockwise", "hsd", "walk")
_SIZES = ("shape", "gamma", "candidates", "replacement", "d_max", "w_max", "k_max", "node_budget")
_FIXED = {"seed": "--seeds N", "max_new_tokens": "--max-new-tokens"}  # what is no setting of a method
_DEFAULTS = {"temperature": "1", "max_new_tokens": "64"}


@click.command("compare", cls=flags.SectionedCommand, sections=_SECTIONS)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@value(
    "--prompt-number", click.IntRange(1), 1, "With RUNs: which of the prompts that all were given is laid side by side."
)
@click.option("--fail-if", "fail_if", multiple=True, metavar="RULE", help="With RUNs: exit code 1 where it holds.")
@click.option("--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="With RUNs: a report as HTML file.")
@flag("--force", "Write over a file that is there.")
@max_mb_option
@text(
    "--verifiers",
    "LIST",
    "Of those that fit the draft; differences are taken to the first "
    f"[default: {','.join(_FOUR)}; for drafts that these do not all fit, the lossless ones that do].",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KNOB=V,V",
    help="Compare settings: a knob and its values, 2,4,8 or 1..6; several knobs each with each. Under one verifier "
    "unless --verifiers names more.",
)
@text("--method", "NAME", options.method_help(), default="draft", show_default=True)
@flags.PROMPTS
@flags.LIMIT
@value("--seeds", click.IntRange(1), 1, "Runs of every prompt, from --seed on.")
@flags.minutes("Begin no prompt after so long.")
@text("--traces", "FOLDER", "Keep the recording of every run in a folder.")
@flags.gone("--onto", "a comparison is made in one go now; --traces FOLDER keeps the recording of every run")
@options.knob_options
@options.model_options
@flags.JSON_LINE
@flags.quiet("No progress; errors are still told.")
def command(**arguments: Any) -> int:
    """Say what differs between recordings, or compare verifiers on the same drafts.

    With two to six RUNs nothing is decoded. Each is a trace, the name of a bundled one, a folder of traces or a
    pattern in quotes. Of traces the texts are laid side by side by position, with where they part; of all: every number
    with its 95 % interval and its difference to the first, over the prompts that all have in pairs, else over rounds;
    whose texts part, and what they were set to. A rule of --fail-if is METRIC drops|rises|changes N% (or N), with
    'surely' behind it where the whole interval has to lie beyond, or 'text differs'; several stand with ; between.
    Of counts (logs, reports and scrapes that 'specviz import' read) a rule takes what they tell.
    Metrics: block_efficiency, mean_accepted, draft_acceptance_rate, test_acceptance_rate, tokens_per_second,
    over_plain, drafting_share, survival@K, position_acceptance@K, depth_acceptance@K.

    With one RUN and a setting (a knob, --method, --verifiers) its prompt is decoded again with that alone set
    otherwise, and laid beside it.

    Without a RUN every prompt is decoded under every verifier with the same keys, so rounds at the same text see the
    same draft and the same uniforms. Block efficiency is compared in pairs of prompts; beside it stands what each rule
    is expected to keep of exactly the same drafts, and, estimated from them, of drafts as they are drawn. Temperature 1
    and 64 new tokens unless told otherwise.

    Exit codes: 0 done · 1 a rule of --fail-if holds · 2 bad input.

    \b
      specviz compare a.sv.jsonl.gz b.sv.jsonl.gz
      specviz compare 'main/*.gz' 'branch/*.gz' --fail-if 'block_efficiency drops 5%; survival@1 drops 0.05 surely'
      specviz compare before after -o report.html
      specviz compare a.sv.jsonl.gz --gamma 2
      specviz compare --verifiers tokenwise,blockwise,hsd --gamma 10 --seeds 4
      specviz compare --vary gamma=2,4,8 --vary temperature=0,1 --traces grid
      specviz compare --verifiers multi_tokenwise,multi_hsd --shape chains --candidates 4 --prompts questions.jsonl
    """
    if arguments["runs"]:
        return _recorded(arguments)
    wrong = next((name for name in _OF_RUNS if _was_typed(name)), None)
    if wrong is not None:
        raise SpecvizError(f"--{wrong.replace('_', '-')} is of recorded runs: name two or more")
    method = get_method(arguments["method"])
    prompts = load_prompts(Path(arguments["prompts"]) if arguments["prompts"] else None, arguments["limit"])
    check_models(arguments["target"], arguments["draft"], method.needs_draft)
    question = _question(method, arguments)
    import msgspec

    from specviz.comparison import words
    from specviz.comparison.measured import compare
    from specviz.comparison.sheets import print_sheets

    with _progress(arguments["quiet"]) as progress:
        report = compare(question, prompts, _command(question, prompts, arguments), progress)
    heading, report_sheets = words.heading(report), words.sheets(report)
    if not arguments["as_json"]:
        print_sheets(heading, report_sheets)
    click.echo(msgspec.json.encode(report).decode())
    return INTERRUPTED if report.interrupted else OK


def _recorded(arguments: Mapping[str, Any]) -> int:
    """Recordings; or a single one and its prompt decoded again with what was typed. Exit code 1 where a rule holds.

    Raises SpecvizError for an option that says nothing of that, for too few or too many, and for bad rules.
    """
    ours, sets = (*_OF_RUNS, "runs", "as_json", "quiet"), (*options.knob_specs(), "verifiers", "method")
    typed = [name for name in arguments if name not in ours and _was_typed(name)]
    again = len(arguments["runs"]) == 1 and any(name in sets for name in typed)
    wrong = next((name for name in typed if not again or name not in (*sets, *options.MODELS)), None)
    if wrong is not None:
        flag = f"--{wrong.replace('_', '-')}"
        raise SpecvizError(f"{flag} says nothing of recorded runs; leave it out, or leave out the runs")
    from specviz.cli.look.written import refuse_place
    from specviz.cli.measure import counted
    from specviz.comparison.recorded import as_object, files_of, heading, read_set, sheets
    from specviz.comparison.sheets import print_sheets
    from specviz.view.compare import MOST, comparison_of, parse_rules, set_of

    runs, out = arguments["runs"], arguments["out"]
    if not again and not 2 <= len(runs) <= MOST:
        more = ", or give a setting to decode its prompt again with, as --gamma 2" if len(runs) == 1 else ""
        raise SpecvizError(f"{len(runs)} recorded runs to compare; name 2 to {MOST}{more}")
    rules = parse_rules(arguments["fail_if"])
    traces = [path for name in runs for path in files_of(name)]
    if out is not None:
        for path in traces:
            refuse_place(out, path, arguments["force"])
    if not again and counted.are_counts(traces, runs):
        return _counted(arguments, traces, rules)
    if again:
        from specviz.cli.measure.again import decoded_again

        verifiers = [name.strip() for name in (arguments["verifiers"] or "").split(",") if name.strip()]
        method = arguments["method"] if "method" in typed else None
        run_sets = [set_of(name, run) for name, run in decoded_again(runs[0], method, verifiers, arguments)]
    else:
        run_sets = [read_set(name) for name in runs]
    report = comparison_of(run_sets, arguments["prompt_number"] - 1)
    gates = [(rule.text, rule.broken(report)) for rule in rules]
    if out is not None:
        _write(out, traces, heading(report), sheets(report, gates))
    if arguments["as_json"]:
        echo_json(as_object(report, gates))
    else:
        print_sheets(heading(report), sheets(report, gates))
    return FAILED if any(why is not None for _, why in gates) else OK


def _counted(arguments: Mapping[str, Any], traces: Sequence[Path], rules: "Sequence[GateRule]") -> int:
    """Histories of counts, or totals. Exit code 1 where a rule holds; raises SpecvizError for one that counts do not
    tell."""
    from specviz.cli.measure import counted
    from specviz.comparison.sheets import gate_sheet, print_sheets

    compared = counted.CountsCompared.of(traces)
    gates = compared.gates(rules)
    sheets = [*compared.sheets, *([gate_sheet(gates)] if gates else [])]
    if arguments["out"] is not None:
        _write(arguments["out"], traces, compared.heading, sheets)
    if arguments["as_json"]:
        echo_json(compared.as_object(gates))
    else:
        print_sheets(compared.heading, sheets)
    return FAILED if any(why is not None for _, why in gates) else OK


def _was_typed(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def _write(out: Path, traces: Sequence[Path], heading: Sequence[str], sheets: "Sequence[Sheet]") -> None:
    """The page: who may read the traces may read it. Raises SpecvizError."""
    from specviz.cli.look.written import unwritten
    from specviz.comparison.sheets import page
    from specviz.trace.private import open_like

    try:
        with open_like(out, traces) as file:
            file.write(page("specviz compare", heading, sheets, "").encode())
    except OSError as error:
        raise unwritten(out, error) from None
    narrate(f"specviz: report in {running(str(out))}")


def _folder(name: str | None) -> Path | None:
    """The folder for recordings, created if missing. Raises SpecvizError."""
    if name is None:
        return None
    folder = Path(name)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SpecvizError(f"--traces {folder}: {error.strerror}; name a folder that can be written") from None
    return folder


def _question(method: Method, arguments: Mapping[str, Any]) -> "ComparisonSettings":
    """Raises SpecvizError for anything that can be known without a model."""
    with_defaults = {**arguments, **{name: value for name, value in _DEFAULTS.items() if arguments.get(name) is None}}
    asked = None if arguments["verifiers"] is None else _names(arguments["verifiers"], method)
    knobs = options.given_knobs(method, {**with_defaults, "verifier": asked[0] if asked else None})
    _check_amounts(knobs, arguments)
    snapshot = method.table.knobs(knobs)
    knobs = _drafted_with(method, snapshot) | knobs
    specs = {spec.name: spec for spec in method.table.specs if spec.kind != "texts"}
    several = varied(arguments["vary"], specs, method.name, _FIXED)
    names = asked or (_that_fit(method, snapshot) if not several else [pick_verifier(method, None, snapshot).name])
    verifiers: list[Verifier] = [pick_verifier(method, name, snapshot) for name in names]
    from specviz.comparison.measured import ComparisonSettings

    models = {name: arguments[name] for name in ("target", "draft", "device", "dtype", "threads")}
    seconds = arguments["minutes"] * 60 if arguments["minutes"] else None
    question = ComparisonSettings(
        method.name,
        tuple(verifiers),
        knobs,
        arguments["seeds"],
        seconds,
        {**models, "needs_draft": method.needs_draft},
        several,
        _folder(arguments["traces"]),
    )
    for setting in question.settings:  # each must be one that can be decoded
        pick_verifier(method, setting.verifier.name, method.table.knobs({**knobs, **setting.knobs}))
    return question


def _names(text: str, method: Method) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SpecvizError(f"--verifiers names none; {method.name} takes: {', '.join(method.verifiers)}")
    twice = next((name for k, name in enumerate(names) if name in names[:k]), None)
    if twice:
        raise SpecvizError(f"--verifiers names '{twice}' twice")
    return names


def _that_fit(method: Method, knobs: Knobs) -> list[str]:
    """The four, or all lossless verifiers that such a draft fits: tokenwise is the base where it is one of them."""
    fitting = [name for name in method.fitting(knobs.values) if get_verifier(name).lossless]
    if set(_FOUR) <= set(fitting):
        return list(_FOUR)

    def place(name: str) -> int:
        traits = get_verifier(name).traits
        return 0 if traits.replays_as == TOKENWISE else 2 if traits.draws else 1

    return sorted(fitting, key=place)


def _drafted_with(method: Method, knobs: Knobs) -> dict[str, Any]:
    """What sizes the draft, defaults too: numbers of a comparison mean nothing without them."""
    specs = {spec.name: spec for spec in method.table.specs}
    works = [n for n in _SIZES if n in specs and all(knobs[k] in values for k, values in specs[n].needs.items())]
    return {name: knobs[name] for name in works}


def _check_amounts(knobs: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if arguments["minutes"] is not None and not math.isfinite(arguments["minutes"]):
        raise SpecvizError(f"--minutes {arguments['minutes']} is no time; give a number, or leave it out for no bound")
    last = int(knobs.get("seed", 0)) + arguments["seeds"] - 1
    if last > LAST_SEED:
        raise SpecvizError(f"--seeds {arguments['seeds']} goes up to seed {last}; the last there is is {LAST_SEED}")


@contextmanager
def _progress(quiet: bool) -> Iterator["Progress"]:
    """A bar on standard error while the prompts are decoded."""
    if quiet:
        yield lambda done, total: None
        return
    import sys

    import rich.console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = rich.console.Console(file=sys.stderr, highlight=False)
    columns = (TextColumn("prompts"), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("prompts", total=None)
        advance: Callable[[int, int], None] = lambda done, total: bar.update(task, completed=done, total=total)  # noqa: E731
        yield advance


def _command(question: "ComparisonSettings", prompts: PromptSet, arguments: Mapping[str, Any]) -> str:
    """The command line again, files and models by their names alone."""
    words = [
        "specviz compare",
        f"--verifiers {','.join(v.name for v in question.verifiers)}",
        f"--method {question.method}",
    ]
    words += [
        f"--{name.replace('_', '-')} {value}" for name, value in question.knobs.items() if name not in question.varied
    ]
    words += [f"--vary {word}" for word in arguments["vary"]]
    words += [f"--prompts {prompts.source}"] * bool(arguments["prompts"])
    words += [f"--{name} {arguments[name]}" for name in ("limit", "seeds", "minutes") if arguments[name] is not None]
    words += [f"--{name} {Path(arguments[name]).name}" for name in ("target", "draft") if arguments[name]]
    return " ".join(words)
