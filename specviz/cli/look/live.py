"""What `specviz tui` and `specviz web` share: the options of a live run, and the run they ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.cli import options
from specviz.cli.flags import text, with_options
from specviz.cli.request import check_models, check_place, prompt_text
from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.trace import resolve

REPLAY = text("--replay", "FILE", "Show a recorded trace; one that still grows is followed.")
PROMPT_AND_MODELS = with_options(
    (
        text("--prompt", "TEXT", "Decode this prompt live."),
        text("--prompt-file", "FILE", "Decode the prompt of a UTF-8 file live."),
        text("--example", "NAME", "Decode a bundled prompt live: code, prose, sums."),
        text("--method", "NAME", f"{options.method_help()} {options.USUAL_HELP}"),
        options.VERIFIER,
        options.KNOB_FILE,
        options.model_options,
    )
)
_PROMPTS = ("prompt", "prompt_file", "example")
_ARGV = ("target", "draft", "device", "dtype", "threads")
_NAMED = (*_PROMPTS, *_ARGV, "method", "verifier", "record", "lanes", "auto", "chat")
_FLAGS = ("paused", "full_speed", "redact")


@dataclass(frozen=True, slots=True)
class FirstRun:
    """The worker's command line, the run it begins with, and the file it is recorded in."""

    argv: tuple[str, ...]
    start: Start
    record: Path | None


def name_trace(arguments: dict[str, Any]) -> None:
    """A trace without a flag is one to replay. Raises SpecvizError for two of them and for one that is not there."""
    trace, replay = arguments.pop("trace"), arguments["replay"]
    if trace is None:
        return
    if replay is not None:
        raise SpecvizError(f"two traces, {trace} and --replay {replay}; 'specviz compare' shows them side by side")
    arguments["replay"] = str(resolve(trace))


def wants_run(arguments: Mapping[str, Any]) -> bool:
    """Whether anything was named that only a run of one's own has. SpecvizError beside a recording."""
    typed = any(arguments.get(name) not in (None, ()) for name in options.knob_specs())
    live = (
        typed or any(arguments.get(name) is not None for name in _NAMED) or any(arguments.get(name) for name in _FLAGS)
    )
    if live and arguments["replay"] is not None:
        raise SpecvizError("--replay shows a recording: leave out the prompt, the method, the models and the knobs")
    return live


def first_run(arguments: Mapping[str, Any], record: Path | None) -> FirstRun:
    """The run, checked as far as that goes without a model; without a prompt the screen asks for one."""
    method = options.chosen_method(options.usual_method(arguments), arguments["verifier"])
    asked = any(arguments[name] is not None for name in _PROMPTS)
    start = Start(
        prompt=prompt_text({**arguments, "stdin": None}) if asked else "",
        method=method.name,
        verifier=arguments["verifier"],
        knobs=options.given_knobs(method, arguments),
        chat=arguments["chat"],
        paused=arguments["paused"],
        lanes=arguments.get("lanes") or "auto",
        auto=arguments.get("auto"),
    )
    check_models(arguments["target"], arguments["draft"], method.needs_draft)
    if record is not None:
        check_place(record, arguments["force"])
    argv = [word for name in _ARGV if arguments[name] is not None for word in (f"--{name}", str(arguments[name]))]
    return FirstRun(tuple(argv), start, record)
