"""What a run was asked for, checked as far as it can be without a model.

A prompt comes from the command line, a file, standard input, or the bundled examples; with `--stream` prompts come from
a file and are decoded one after another with one drafter, and what is wrong with them is said by line.
"""

import importlib.util
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import click

from specviz.cli import options
from specviz.cli.flags import one_of, text, with_options
from specviz.commands import Prompt, Start
from specviz.errors import MissingExtra, ModelError, SpecvizError, TraceError, suggestion
from specviz.events.base import LEVELS, Level
from specviz.local_models.shipped import usual_draft
from specviz.self_drafts import NEEDS_ONE
from specviz.sources.prompts import load_prompts, parse_prompts
from specviz.trace.files import plain_path

SOURCES = {"stdin": "-", "prompt": "--prompt", "prompt_file": "--prompt-file", "example": "--example"}


prompt_options = with_options(
    (
        click.argument("stdin", required=False, metavar="[-]"),
        text("--prompt", "TEXT", "The prompt itself."),
        text("--prompt-file", "FILE", "Read the prompt from a UTF-8 file; - is standard input."),
        text("--example", "NAME", "A bundled prompt: code, prose, sums, or one by its full name."),
    )
)


def prompt_text(options: Mapping[str, Any]) -> str:
    """The one prompt that was given. Raises SpecvizError for none, for two, for an empty one and for foreign bytes."""
    stdin, text, file, example = (options[name] for name in ("stdin", "prompt", "prompt_file", "example"))
    if stdin not in (None, "-"):
        raise SpecvizError(f"'{stdin}' is neither an option nor -; a prompt is given as --prompt '{stdin}'")
    prompt_sources = {"-": stdin, "--prompt": text, "--prompt-file": file, "--example": example}
    names = [name for name, value in prompt_sources.items() if value is not None]
    if len(names) != 1:
        wrong = f"{' and '.join(names)} both give a prompt" if names else "no prompt"
        raise SpecvizError(
            f"{wrong}: give one of --prompt TEXT, --prompt-file FILE, --example NAME, - (standard input); "
            "'specviz tui' and 'specviz web' hold a conversation"
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


BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Stream:
    """The prompts in their order, and the name they came under."""

    source: str
    prompts: tuple[Prompt, ...]

    @property
    def domains(self) -> dict[str, int]:
        """Number of prompts by domain, in order of appearance."""
        out: dict[str, int] = {}
        for prompt in self.prompts:
            out[prompt.domain] = out.get(prompt.domain, 0) + 1
        return out


def read_stream(name: str) -> Stream:
    """A JSONL file of prompts; `-` standard input; `bundled` those that come along. Raises SpecvizError by line."""
    if name == "-":
        prompts = parse_prompts(sys.stdin.buffer.read(), "standard input", "stream")
    else:
        prompts = load_prompts(None if name == BUNDLED and not Path(name).exists() else Path(name))
    return Stream(prompts.source, prompts.stream)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run: the command to start it, the models, and what to do with its events."""

    start: Start
    target: str | None
    draft: str | None
    needs_draft: bool
    device: str | None
    draft_device: str | None
    dtype: str | None
    threads: int | None
    record: Path | None
    redact: bool
    rounds: bool
    as_json: bool
    verbose: bool
    quiet: bool
    idle: tuple[str, ...] = ()  # knobs that were given and have no effect
    stream: Stream | None = None  # the prompts, when there are several

    @property
    def models(self) -> tuple[Any, ...]:
        """What `load_pair` takes, in its order."""
        named = (self.target, self.draft, self.needs_draft, self.device, self.dtype, self.threads)
        return (*named, self.draft_device)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "RunRequest":
        """Build the request from the command line's options. Raises SpecvizError."""
        method = options.chosen_method(options.usual_method(arguments), arguments["verifier"])
        knobs = options.given_knobs(method, arguments)
        stream = None if arguments["stream"] is None else _stream(arguments)
        start = Start(
            prompt="" if stream else prompt_text(arguments),
            stream=list(stream.prompts) if stream else [],
            method=method.name,
            verifier=arguments["verifier"],
            knobs=knobs,
            chat=arguments["chat"],
            level=_level(arguments),
            lanes=arguments["lanes"] or "auto",
            auto=arguments["auto"],
        )
        record = Path(arguments["record"]) if arguments["record"] else None
        if record:
            check_place(record, arguments["force"])
        elif arguments["redact"]:
            raise SpecvizError("--redact leaves the text out of a recording: name its file with --record, or drop it")
        plain = (*options.MODELS, "redact", "rounds", "as_json", "verbose", "quiet")
        return cls(
            start=start,
            needs_draft=method.needs_draft,
            record=record,
            idle=tuple(options.idle_knobs(method, knobs)),
            stream=stream,
            **{name: arguments[name] for name in plain},
        )


def _stream(arguments: Mapping[str, Any]) -> Stream:
    both = [flag for name, flag in SOURCES.items() if arguments[name] is not None]
    if both:
        raise SpecvizError(f"--stream brings its prompts: leave out {' and '.join(both)}")
    return read_stream(arguments["stream"])


def _level(arguments: Mapping[str, Any]) -> Level:
    """What the core records: `full` for `--record`, `summary` for `--rounds`, else `none`."""
    level: Level = arguments["level"] or (
        "full" if arguments["record"] else "summary" if arguments["rounds"] else "none"
    )
    one_of("level", level, LEVELS)
    return level


def check_models(target: str | None, draft: str | None, needs_draft: bool) -> None:
    """What is plainly wrong with the models together, before a process is started for them. Raises ModelError.

    What a name stands for is looked at by the option that takes it (`specviz.cli.flags`).
    """
    from specviz.cli import models

    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise MissingExtra("engine", "decoding uses torch and transformers, which are not installed; it")
    if target is None and models.embedded()["target"] is None:
        raise ModelError(
            "this install has no embedded target model; name one with --target FOLDER, or run specviz train pair"
        )
    if target is not None and draft is None and needs_draft and usual_draft(target) is None:
        raise ModelError(NEEDS_ONE)


def check_place(path: Path, force: bool = False) -> None:
    """Raise TraceError when it is plain before anything runs that no file can be made there.

    An older trace is recorded over by `force` only.
    """
    from specviz.trace.recorder import existing, refuse_foreign

    try:
        _check(path)
    except OSError as error:  # a folder that may not be searched, a name that is too long
        raise TraceError(f"cannot record to '{path}': {error.strerror or error}; name another file") from None
    refuse_foreign(plain_path(path))  # what --force would not help with is told first
    older = None if force else existing(path)
    if older is not None:
        raise TraceError(
            f"cannot record to '{path}': {older} is there; give --force to record over it, or another name"
        )


def _check(path: Path) -> None:
    from specviz.trace.recorder import longest_name

    folder = path.parent
    if not folder.is_dir():
        raise TraceError(f"cannot record to '{path}': there is no folder '{folder}'; make it or name another")
    if path.is_dir():
        raise TraceError(f"cannot record to '{path}': it is a folder; name a file in it")
    with suppress(FileNotFoundError):
        longest_name(path).lstat()
    if path.exists() and not path.is_file():  # a trace is renamed into place and zipped, which a device is not
        raise TraceError(f"cannot record to '{path}': it is no regular file; name one, or leave out --record")
    if not os.access(folder, os.W_OK):
        raise TraceError(f"cannot record to '{path}': the folder '{folder}' is not writable; name another")
