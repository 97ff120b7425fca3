"""What `specviz run` was asked for, checked as far as it can be without a model."""

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.cli import options, prompts
from specviz.cli.recording import check_place
from specviz.cli.stream import Stream, read_stream
from specviz.commands import Start
from specviz.errors import MissingExtra, ModelError, SpecvizError, suggestion
from specviz.events.base import LEVELS, Level
from specviz.names import LANES

_DEVICE = re.compile(r"cpu|mps|cuda(:\d+)?")
_DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True, slots=True)
class Request:
    """One run: the command to start it, the models, and what to do with its events."""

    start: Start
    target: str | None
    draft: str | None
    needs_draft: bool
    device: str | None
    dtype: str | None
    threads: int | None
    record: Path | None
    redact: bool
    rounds: bool
    as_json: bool
    verbose: bool
    quiet: bool
    draft_device: str | None = None
    idle: tuple[str, ...] = ()  # knobs that were given and have no effect
    stream: Stream | None = None  # the prompts, when there are several

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Request":
        """From the options of the command line. Raises SpecvizError."""
        method = options.chosen_method(given["method"], given["verifier"])
        knobs = options.given_knobs(method, given)
        stream = None if given["stream"] is None else _stream(given)
        start = Start(
            prompt="" if stream else prompts.prompt_text(given),
            stream=list(stream.prompts) if stream else [],
            method=method.name,
            verifier=given["verifier"],
            knobs=knobs,
            chat=given["chat"],
            level=_level(given),
            lanes=checked_lanes(given["lanes"]),
        )
        record = Path(given["record"]) if given["record"] else None
        if record:
            check_place(record, given["force"])
        elif given["redact"]:
            raise SpecvizError("--redact leaves the text out of a recording: name its file with --record, or drop it")
        plain = ("target", "draft", "threads", "redact", "rounds", "as_json", "verbose", "quiet")
        return cls(
            start=start,
            needs_draft=method.needs_draft,
            device=checked_device(given["device"]),
            dtype=checked_dtype(given["dtype"]),
            record=record,
            draft_device=checked_device(given["draft_device"]),
            idle=tuple(options.idle_knobs(method, knobs)),
            stream=stream,
            **{name: given[name] for name in plain},
        )


def _stream(given: Mapping[str, Any]) -> Stream:
    both = [flag for name, flag in prompts.SOURCES.items() if given[name] is not None]
    if both:
        raise SpecvizError(f"--stream brings its prompts: leave out {' and '.join(both)}")
    return read_stream(given["stream"])


def _level(given: Mapping[str, Any]) -> Level:
    """`full` for a trace, `summary` for lines of rounds, `none` when nobody looks."""
    level: Level = given["level"] or ("full" if given["record"] else "summary" if given["rounds"] else "none")
    if level not in LEVELS:
        raise SpecvizError(f"no level '{level}'{suggestion(level, LEVELS)}")
    return level


def checked_device(name: str | None) -> str | None:
    """The device name, when it is one. Raises SpecvizError."""
    if name is not None and not _DEVICE.fullmatch(name):
        raise SpecvizError(f"no device '{name}'{suggestion(name, ('cpu', 'cuda', 'cuda:0', 'mps'))}")
    return name


def checked_dtype(name: str | None) -> str | None:
    """The dtype name, when it is one. Raises SpecvizError."""
    if name is not None and name not in _DTYPES:
        raise SpecvizError(f"no dtype '{name}'{suggestion(name, _DTYPES)}")
    return name


def checked_lanes(name: str) -> str:
    """The name of the lanes, when it is one. Raises SpecvizError."""
    if name not in LANES:
        raise SpecvizError(f"no lanes '{name}'{suggestion(name, LANES)}")
    return name


def check_models(target: str | None, draft: str | None, needs_draft: bool) -> None:
    """What is plainly wrong with the models, before a process is started for them."""
    from specviz.cli import models

    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
        raise MissingExtra("engine", "decoding uses torch and transformers, which are not installed; it")
    for name in filter(None, (target, draft)):
        if missing := models.described(name).get("missing"):
            raise ModelError(f"model folder '{name}' lacks {', '.join(missing)}; give a folder of save_pretrained")
    if target is None and models.embedded()["target"] is None:
        raise ModelError(
            "this install has no embedded target model; name one with --target FOLDER, or run specviz train pair"
        )
    if target is not None and draft is None and needs_draft:
        raise ModelError("a target of your own needs its draft model: name it with --draft, or use --method ngram")
