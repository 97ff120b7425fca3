"""Where a prompt comes from: the command line, a file, standard input, or the bundled examples."""

import sys
from collections.abc import Callable, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import click

from specviz.errors import SpecvizError, suggestion

F = TypeVar("F", bound=Callable[..., Any])
SOURCES = {"stdin": "-", "prompt": "--prompt", "prompt_file": "--prompt-file", "example": "--example"}


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
