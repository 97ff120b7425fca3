"""Options that several commands share: one flag per knob of any method, the models, the prompt.

Flags come from the knob tables, so a new method brings its flags with it. A flag is kept as the text that was typed and
checked by the spec of the chosen method, because range and default may differ between methods.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import click

from specviz.errors import KnobError, SpecvizError, suggestion
from specviz.knobs import RUN, SAMPLING, KnobSpec
from specviz.methods import Method, all_methods, get_method

F = TypeVar("F", bound=Callable[..., Any])
_SHARED = frozenset(spec.name for spec in (*SAMPLING, *RUN))
_METAVARS = {"int": "N", "float": "X", "choice": "NAME", "bool": "on|off", "texts": "TEXT"}


@cache
def knob_specs() -> dict[str, dict[str, KnobSpec]]:
    """`{knob: {method: its spec}}` over all methods; the knobs of single methods first, those of every run last."""
    specs: dict[str, dict[str, KnobSpec]] = defaultdict(dict)
    for method in all_methods().values():
        for spec in method.knobs:
            specs[spec.name][method.name] = spec
    for spec in (*SAMPLING, *RUN):
        specs[spec.name] = dict.fromkeys(all_methods(), spec)
    return dict(specs)


def knob_options(function: F) -> F:
    """Give a command one option per knob, in the order of the tables."""
    for name, by_method in reversed(knob_specs().items()):
        spec = next(iter(by_method.values()))
        option = click.option(
            spec.flag,
            name,
            type=str,
            metavar=_METAVARS[spec.kind],
            multiple=spec.kind == "texts",
            help=_help(name, by_method),
        )
        function = option(function)
    return function


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

    Raises KnobError for a value out of range, and for a knob the method lacks, naming the methods that have it.
    """
    typed = {name: options[name] for name in knob_specs() if options.get(name) not in (None, ())}
    for name in typed:
        holders = knob_specs()[name]
        if method.name not in holders:
            flag = next(iter(holders.values())).flag
            raise KnobError(f"method {method.name} has no knob {flag}; methods that have it: {', '.join(holders)}")
    return method.table.check(typed)


def chosen_method(name: str, verifier: str | None) -> Method:
    """The method, once the verifier is known to be one of its own. Raises SpecvizError naming those that fit."""
    method = get_method(name)
    if verifier is not None and verifier not in method.verifiers:
        hint = suggestion(verifier, method.verifiers)
        raise SpecvizError(f"method {name} takes no verifier '{verifier}'{hint}")
    return method


def sections() -> dict[str, Sequence[str]]:
    """Headings for the help of a command with all these options."""
    names = knob_specs()
    return {
        "Prompt": ("prompt", "prompt_file", "example", "chat"),
        "Method and models": ("method", "verifier", "target", "draft", "device", "dtype", "threads"),
        "Output": ("record", "level", "rounds", "as_json", "verbose", "quiet"),
        "Knobs of the methods": [name for name in names if name not in _SHARED],
        "Sampling and length": [name for name in names if name in _SHARED],
    }


def method_help() -> str:
    """The methods with their one-line meaning."""
    return " · ".join(f"{method.name}: {method.help}" for method in all_methods().values()) + "."


def verifier_help() -> str:
    """The verifiers, by the methods that take them."""
    names = sorted({name for method in all_methods().values() for name in method.verifiers})
    return f"{', '.join(names)} [default: the method's own for the temperature]."


def model_options(function: F) -> F:
    """Give a command the options that choose models and where they run."""
    for option in reversed(_MODEL_OPTIONS):
        function = option(function)
    return function


_MODEL_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.option("--target", metavar="MODEL", help="Folder or hub id of the target [default: the embedded one]."),
    click.option("--draft", metavar="MODEL", help="Folder or hub id of the draft model [default: the embedded one]."),
    click.option("--device", metavar="NAME", help="cpu, cuda, cuda:N or mps [default: cpu]."),
    click.option("--dtype", metavar="NAME", help="float32, bfloat16, float16 or float64 [default: the device's own]."),
    click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads for the processor."),
)


def prompt_options(function: F) -> F:
    """Give a command the options that bring a prompt, and `-` for standard input."""
    for option in reversed(_PROMPT_OPTIONS):
        function = option(function)
    return function


_PROMPT_OPTIONS: tuple[Callable[[F], F], ...] = (
    click.argument("stdin", required=False, metavar="[-]"),
    click.option("--prompt", metavar="TEXT", help="The prompt itself."),
    click.option("--prompt-file", metavar="FILE", help="Read the prompt from a UTF-8 file; - is standard input."),
    click.option("--example", metavar="NAME", help="A bundled prompt: code, prose, sums, or one by its full name."),
)


def prompt_text(options: Mapping[str, Any]) -> str:
    """The one prompt that was given. Raises SpecvizError for none, for two, for an empty one and for foreign bytes."""
    stdin, text, file, example = (options[name] for name in ("stdin", "prompt", "prompt_file", "example"))
    if stdin not in (None, "-"):
        raise SpecvizError(f"'{stdin}' is neither an option nor -; a prompt is given as --prompt '{stdin}'")
    given = {"-": stdin, "--prompt": text, "--prompt-file": file, "--example": example}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        wrong = f"{' and '.join(names)} both give a prompt" if names else "no prompt"
        raise SpecvizError(
            f"{wrong}: give one of --prompt TEXT, --prompt-file FILE, --example NAME, - (standard input)"
        )
    return _checked(_read(stdin or file, text, example), names[0])


def _read(file: str | None, text: str | None, example: str | None) -> bytes:
    if text is not None:
        return text.encode("utf-8", "surrogateescape")  # bytes of the command line that were not UTF-8 come back
    if example is not None:
        return example_file(example).read_bytes()
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(str(file)).read_bytes()
    except OSError as error:
        raise SpecvizError(f"cannot read the prompt file '{file}': {error.strerror or error}") from None


def _checked(raw: bytes, where: str) -> str:
    try:
        prompt = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        raise SpecvizError(
            f"the prompt from {where} is not UTF-8: byte 0x{byte:02x} at offset {error.start}; save it as UTF-8"
        ) from None
    if not prompt:
        raise SpecvizError(f"the prompt from {where} is empty; decoding needs at least one token to start from")
    return prompt


def examples() -> dict[str, Traversable]:
    """Bundled prompts by name (`code-fibonacci`); the first of each domain also by the domain alone (`code`)."""
    folder = resources.files("specviz_assets") / "prompts"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".txt")), key=lambda f: f.name)
    named = {f.name.removesuffix(".txt"): f for f in files}
    domains: dict[str, Traversable] = {}
    for name, file in named.items():
        domains.setdefault(name.partition("-")[0], file)
    return domains | named


def example_file(name: str) -> Traversable:
    """The bundled prompt of that name. Raises SpecvizError with the nearest name."""
    known = examples()
    if name not in known:
        raise SpecvizError(f"no example '{name}'{suggestion(name, known)}")
    return known[name]
