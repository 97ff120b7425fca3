"""Options that several commands share: one flag per knob of any method, and the models.

Flags come from the knob tables, so a new method brings its flags with it. A flag is kept as the text that was typed and
checked by the spec of the chosen method, because range and default may differ between methods.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from specviz.cli.flags import COMPILED, DEVICE, DRAFT, DTYPE, TARGET, Command, Option, flag, gone, text, with_options
from specviz.commands import USUAL
from specviz.errors import KnobError, SpecvizError, suggestion
from specviz.knobs import RUN, SAMPLING, KnobSpec
from specviz.local_models.catalogue import to_install
from specviz.local_models.found import embedded_pair
from specviz.local_models.named import path_of
from specviz.local_models.shipped import known_name, shipped_folder, usual_draft
from specviz.methods import Method, Part, all_methods, get_method, pick_verifier
from specviz.model_folder import shown
from specviz.text import running
from specviz.verifiers import get_verifier
from specviz.verifiers.lossy import lossy_rules

MODELS = ("target", "draft", "device", "draft_device", "dtype", "threads")
_SHARED = frozenset(spec.name for spec in (*SAMPLING, *RUN))
_METAVARS = {"int": "N", "float": "X", "choice": "NAME", "bool": "on|off", "texts": "TEXT"}


def knob_specs() -> dict[str, dict[str, KnobSpec]]:
    """`{knob: {method: its spec}}` over all methods; the knobs of single methods first, those of every run last."""
    specs: dict[str, dict[str, KnobSpec]] = defaultdict(dict)
    for method in all_methods().values():
        for spec in method.own:
            specs[spec.name][method.name] = spec
    for spec in (*SAMPLING, *RUN):
        specs[spec.name] = dict.fromkeys(all_methods(), spec)
    return dict(specs)


REDACT_HELP = (
    "Record token ids in place of text; stop texts, domains and file names are left out. Reversible: who has the "
    "tokenizer can read prompt and text again."
)
RECORD_HELP = "The file holds prompts, text and settings, for your eyes alone (mode 600); see --redact."


def knob_options(function: Command) -> Command:
    """Give a command one option per knob, in the order of the tables."""
    knob_flags = []
    for name, by_method in knob_specs().items():
        spec = next(iter(by_method.values()))
        texts = spec.kind == "texts"
        words = _help(name, by_method)
        knob_flags.append(
            click.option(spec.flag, name, type=str, metavar=_METAVARS[spec.kind], multiple=texts, help=words)
        )
    return with_options(knob_flags)(function)


def _read_knobs(ctx: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    """What the file says becomes the default of the options of the same names. Raises SpecvizError."""
    if path is None:
        return
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecvizError(f"--knobs {shown(path)}: {error.strerror}; specviz tune -o FILE writes one") from None
    except ValueError as error:
        raise SpecvizError(f"--knobs {shown(path)}: this is no TOML file: {running(str(error))}") from None
    known = {"method", "verifier", *knob_specs()}
    wrong = next((name for name in values if name not in known), None)
    if wrong is not None:
        raise SpecvizError(f"--knobs {shown(path)}: no knob '{shown(wrong)}'{suggestion(wrong, known)}")
    ctx.default_map = {**(ctx.default_map or {}), **values}


KNOB_FILE = click.option(
    "--knobs",
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_read_knobs,
    help="Method and knobs out of a TOML file, as specviz tune writes it; what is typed goes before it.",
)


def _help(name: str, by_method: Mapping[str, KnobSpec]) -> str:
    """Meaning, range and default, once for every group of methods that agree on them."""
    groups: dict[str, list[str]] = defaultdict(list)
    for method, spec in by_method.items():
        symbol = f"{spec.symbol}: " if spec.symbol else ""
        groups[f"{symbol}{spec.help} [{spec.range}; default {_shown(spec.default)}"].append(method)
    if name in _SHARED:
        return "; ".join(f"{text}]" for text in groups)
    return "; ".join(f"{text}; {', '.join(methods)}]" for text, methods in groups.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value in ([], None) else f"{value:g}" if isinstance(value, float) else str(value)


def given_knobs(method: Method, options: Mapping[str, Any]) -> dict[str, Any]:
    """The knobs that were typed, checked by the table of the method.

    Raises KnobError for a value out of range, and for a knob the method lacks, naming the methods that have it; and
    SpecvizError when the verifier could not judge what would be drafted, naming those that can.
    """
    known = knob_specs()
    typed = {name: options[name] for name in known if options.get(name) not in (None, ())}
    for name in typed:
        holders = known[name]
        if method.name not in holders:
            flag = next(iter(holders.values())).flag
            raise KnobError(f"method {method.name} has no knob {flag}; methods that have it: {', '.join(holders)}")
    checked = method.table.check(typed)
    pick_verifier(method, options.get("verifier"), method.table.knobs(checked))
    return checked


def idle_knobs(method: Method, checked: Mapping[str, Any]) -> list[str]:
    """The knobs that were typed and have no effect beside the others, each with what it would need."""
    values = method.table.knobs(checked)
    out = []
    for name in checked:
        spec = method.table.spec(name)
        unmet = [(other, wanted) for other, wanted in spec.needs.items() if str(values[other]) not in wanted]
        needs = " and ".join(f"{method.table.spec(other).flag} {' or '.join(wanted)}" for other, wanted in unmet)
        if needs:
            out.append(f"{spec.flag} (needs {needs})")
    return out


def chosen_method(name: str, verifier: str | None) -> Method:
    """The method, once the verifier is known to be one of its own. Raises SpecvizError naming those that fit."""
    method = get_method(name)
    if verifier is not None and verifier not in method.verifiers:
        if verifier in lossy_rules():
            get_verifier(verifier)  # which says who runs it, and what may be asked of it here
        hint = suggestion(verifier, method.verifiers)
        raise SpecvizError(f"method {name} takes no verifier '{verifier}'{hint}")
    return method


USUAL_HELP = "[default: draft, where there is a draft model, else ngram]"


def usual_method(arguments: Mapping[str, Any]) -> str:
    """The method that was named; else the first of the usual ones that can run with the models that were."""
    named = arguments.get("method")
    if named is not None:
        return str(named)
    target, draft = arguments.get("target"), arguments.get("draft")
    has_draft = target is None or draft is not None or usual_draft(target) is not None
    return next(name for name in USUAL if has_draft or not get_method(name).needs_draft)


def sections() -> dict[str, Sequence[str]]:
    """Headings for the help of a command with all these options."""
    names = knob_specs()
    return {
        "Prompt": ("prompt", "prompt_file", "example", "stream", "chat"),
        "Method and models": ["method", "verifier", *MODELS, "compile", "lanes", "auto"],
        "Output": ("record", "level", "rounds", "as_json", "verbose", "timings", "quiet"),
        "Knobs of the methods": [name for name in names if name not in _SHARED],
        "Sampling and length": [name for name in names if name in _SHARED],
    }


def lacking(target: str | None = None) -> dict[str, str]:
    """Of every method that cannot run with this target, the embedded one by default, the line that makes its part."""
    return {m.name: _part_line(m, m.part, target) for m in all_methods().values() if m.part and _lacks(m.part, target)}


def method_rows(target: str | None = None) -> list[tuple[str, str]]:
    """The same as lines of a section: those that run in one, then the others with what they lack."""
    missing = lacking(target)
    able = [method for method in all_methods().values() if method.name not in missing]
    need = [m.name for m in able if m.needs_draft]
    plain = ", ".join(m.name for m in able if not m.needs_draft)
    if target is None:  # a draft model is embedded too
        return [("run", ", ".join(m.name for m in able)), *missing.items()]
    if usual_draft(target) is not None:
        return [("run", ", ".join(m.name for m in able)), *missing.items()]
    return [("run", plain), ("with --draft", ", ".join(need)), *missing.items()]


def _part_line(method: Method, part: Part, target: str | None) -> str:
    install = None if target is None else to_install(known_name(target), part.beside)
    if install is not None:
        return f"not here: {install}"
    there = part.on is not None and not _lacks(part.on, target)
    folder = target is not None and Path(target).is_dir()
    named = "" if folder or there else f", then give --{part.knob} {part.beside}"
    return f"not here, no {part.what} of specviz's training: {part.command(target, folder, there)}{named}"


def _lacks(part: Part, target: str | None) -> bool:
    return not any(part.lies_in(folder) for folder in _part_folders(target))


def _part_folders(target: str | None) -> list[Path]:
    """Folders that may hold trained parts of a target; those of the embedded target are beside it."""
    pair = embedded_pair()
    own = [] if target is None else [path_of(target) or Path(target), *filter(None, [shipped_folder(target)])]
    return [*own, pair] if target is None or Path(target).resolve() == (pair / "target").resolve() else [*own]


def method_help() -> str:
    """The methods with their one-line meaning; of those that the embedded target cannot run, what they lack."""
    missing = lacking()
    words = {m.name: f" ({missing[m.name]})" if m.name in missing else "" for m in all_methods().values()}
    return " · ".join(f"{m.name}: {m.help}{words[m.name]}" for m in all_methods().values()) + "."


def verifier_help() -> str:
    """The verifiers, by the methods that take them."""
    names = sorted({name for method in all_methods().values() for name in method.verifiers})
    return f"{', '.join(names)} [default: the method's own for the temperature]."


TENSOR_PARALLEL = gone(
    "--tensor-parallel",
    "specviz no longer divides a target over processes; serve a target that outgrows this machine with vLLM or SGLang "
    "and look at it from here: specviz attach URL, or the recorder inside the server (docs/outside.md)",
)
_THREADS = "Threads [default: 1 for a small target, else torch's choice]."
model_options = with_options(
    (
        TARGET,
        DRAFT,
        DEVICE,
        DTYPE,
        click.option("--threads", type=click.IntRange(min=1), metavar="N", help=_THREADS),
        COMPILED,
    )
)
AUTO = click.option(
    "--auto/--no-auto",
    default=None,
    help="Draft nothing for a while where a round costs more plain passes than it brings tokens, and try again; the "
    "text is the same [default: --auto, --no-auto for the embedded models]. --no-auto drafts every round.",
)
VERIFIER = text("--verifier", "NAME", verifier_help())
CHAT = click.option(
    "--chat/--raw",
    default=None,
    help="Hand the prompt over as a message through the tokenizer's chat template, or as it stands "
    "[default: --chat for models with a template, --raw for the embedded ones].",
)


def recording_options(words: str) -> Option:
    """Where the trace of a run goes, what is left out of it, and whether an older one is there."""
    return with_options(
        (
            text("--record", "FILE", f"{words} {RECORD_HELP}"),
            flag("--redact", REDACT_HELP),
            flag("--force", "With --record: over a trace that is there."),
        )
    )
