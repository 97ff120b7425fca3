"""The command line. Data goes to standard output, narration to standard error, exit codes are promises.

Sub-commands are imported when they are used, so `specviz --help` costs little more than Python itself. Bad input of any
kind ends in one line `specviz: …` on standard error: what was wrong, the value seen, what to do.
"""

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from specviz import lean
from specviz.errors import MissingExtra, SpecvizError, suggestion

OK, FAILED, BAD_INPUT, INTERRUPTED, CLOSED_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143

# Where each command lives, below this package or in that of an extra, and what it does: the list imports none of them.
_TABLE = (
    ("run.run", "Decode a prompt, round by round, and say what speculation brought."),
    ("look.tui", "Watch a run live, or replay a trace, in the terminal."),
    ("look.web", "Watch a run live, or look at a trace, in the browser."),
    ("look.learn", "Learn speculative decoding on recordings, in eight lessons that ask before they show."),
    ("look.export", "Save a run as one HTML page that plays, a round as SVG, PNG or GIF, the tables of a trace."),
    ("look.stats", "Print the metrics of traces, or ask them by SQL."),
    ("look.whatif", "Decide recorded rounds again: another verifier, a shorter draft, other draws, other early exits."),
    (
        "measure.compare",
        "Say what differs between recordings, or sets of them; or compare verifiers on the same drafts.",
    ),
    ("measure.tune", "Find the fastest setting for a pair on your prompts, and say when nothing pays."),
    ("look.check", "Say whether a target and a draft can work together, from their files alone."),
    ("outside.attach", "Send a prompt to a running server of llama.cpp, vLLM or SGLang and rebuild its rounds."),
    ("outside.import", "Turn a log or report of another engine into a trace."),
    ("look.diagnose", "Say what is wrong, by traces, logs, counters, model folders: fault, certainty, next step."),
    ("look.watch", "Watch the counters of a vLLM, llama.cpp or SGLang server, with nothing installed on it."),
    ("look.doctor", "Show versions, devices, memory, terminal and missing extras; the schema of traces."),
    ("models", "Show, list, fetch, convert and remove models."),
    ("specviz_train.train", "Train a model pair from nothing, or the small parts that methods add to a model."),
    ("specviz_lab.commands.lab", "Measure speeds and prove laws: bench, ablate, prove."),
)
HOMES = {home.rpartition(".")[2]: home if home.startswith("specviz_") else f"{__name__}.{home}" for home, _ in _TABLE}
COMMANDS = {home.rpartition(".")[2]: words for home, words in _TABLE}
FIRST = "…"  # among what is put in front: the first argument that is no option
# What a command of the version before is called now: the command, and what is put in front of its arguments. Each goes
# on for one version, says its new name and stands in no help.
OLD_NAMES: dict[str, tuple[str, tuple[str, ...]]] = {
    "report": ("export", ("--html",)),
    "query": ("stats", ("--sql", FIRST)),
    "sweep": ("whatif", ("--sweep", FIRST)),
    "diff": ("compare", ()),
    "convert": ("models", ("convert",)),
    "schema": ("doctor", ("--schema",)),
    "bench": ("lab", ("bench",)),
    "ablate": ("lab", ("ablate",)),
    "prove": ("lab", ("prove",)),
}

_NO_MEMORY = "out of memory; smaller models, a shorter prompt or fewer new tokens need less"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# What a name that somebody gave can be wrong about, wherever it is first looked up.
_BAD_NAME = (
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EROFS,
    errno.ENXIO,
)
_EXTRA_OF = {
    "specviz_train": "train",
    "specviz_lab": "lab",
    "torch": "engine",
    "numpy": "tui",  # the smallest that brings it
    "transformers": "engine",
    "accelerate": "engine",
    "safetensors": "engine",
    "tokenizers": "engine",
    "huggingface_hub": "engine",
    "gguf": "engine",
    "textual": "tui",
    "streamlit": "web",
    "plotly": "web",
    "PIL": "export",
    "playwright": "export",
    "pyarrow": "export",
    "duckdb": "scale",
    "xllamacpp": "engines",
}


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where the program stands, so that whatever runs can end in order."""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports the module that holds one on use.

    `homes`: the module of each; `words`: what each does; `old_names`: as `OLD_NAMES`.
    """

    def __init__(
        self,
        *args: Any,
        homes: Mapping[str, str],
        words: Mapping[str, str],
        old_names: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType({}),
        **rest: Any,
    ) -> None:
        super().__init__(*args, **rest)
        self._homes, self._words, self._old_names = homes, words, old_names

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table, which is the order of use."""
        return list(self._words)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in self._homes:
            return None
        command: click.Command = importlib.import_module(self._homes[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Put the new words in the place of an old name; refuse an unknown command with the nearest known one."""
        name = str(args[0])
        if name in self._old_names:
            new, front = self._old_names[name]
            print(
                f"specviz: '{name}' is now '{' '.join((new, *front))}'; the old name goes with the next version",
                file=sys.stderr,
            )
            args = [new, *_in_front(front, args[1:])]
        elif name not in self._words and not name.startswith("-"):
            raise click.UsageError(f"no command '{name}'{suggestion(name, self._words)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._words.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a reader that went away (`| head`) is no error of ours."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(CLOSED_PIPE)


def _in_front(front: Sequence[str], args: Sequence[str]) -> list[str]:
    """The arguments behind the words of a new name; alone where the first argument, which these need, is none."""
    if FIRST not in front:
        return [*front, *args]
    at = next((k for k, argument in enumerate(args) if not argument.startswith("-")), None)
    return list(args) if at is None else [*front[:-1], args[at], *args[:at], *args[at + 1 :]]


def _version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from specviz import __version__

        click.echo(f"specviz {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    homes=HOMES,
    words=COMMANDS,
    old_names=OLD_NAMES,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
@click.pass_context
def group(ctx: click.Context) -> None:
    """See speculative decoding: run real models, record every round, and watch why each drafted token lived or died.

    Exit codes: 0 done · 1 the run failed · 2 bad input · 130 interrupted · 141 the reader went away · 143 terminated.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """The console script: returns the exit code, prints one line for anything the user can mend."""
    lean.begin_process(own=args is None)
    _open_streams()
    odd = next((arg for arg in args or () if "\0" in arg), None)
    if odd is not None:
        return complain(f"'{_short(odd)}' holds a zero byte, which no name and no text may")
    try:
        code = group.main(args, prog_name="specviz", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except (click.Abort, KeyboardInterrupt) as error:
        return TERMINATED if Terminated in (type(error), type(error.__cause__)) else INTERRUPTED
    except BrokenPipeError:
        return CLOSED_PIPE
    except click.ClickException as error:
        return complain(_usage(error))
    except ModuleNotFoundError as error:
        return complain(str(_missing(error)))
    except SpecvizError as error:
        return complain(str(error), error.exit_code)
    except MemoryError:
        return complain(_NO_MEMORY, FAILED)
    except ImportError as error:  # a library that does not fit is not found missing
        if "annot allocate memory" not in str(error):
            raise
        return complain(_NO_MEMORY, FAILED)
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return complain(_NO_MEMORY, FAILED)
        if error.errno in NO_ROOM:
            return complain(f"cannot write the output: {error.strerror}", FAILED)
        if error.errno not in _BAD_NAME or error.filename is None:
            raise
        return complain(f"'{_short(error.filename)}': {error.strerror}; name another file or folder")
    finally:
        _close_streams()


def complain(message: str, code: int = BAD_INPUT) -> int:
    """Print one line on standard error, whatever the message holds, and return the exit code."""
    from specviz.text import running

    line = " ".join(message.split())
    with contextlib.suppress(OSError):  # standard error may be closed too
        print(f"specviz: {running(line)}", file=sys.stderr, flush=True)
    return code


def _short(name: object) -> str:
    text = os.fsdecode(name) if isinstance(name, bytes) else str(name)
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


def _usage(error: click.ClickException) -> str:
    """A click message in our manner: no full stop, no usage block, and where help is."""
    message = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    where = f" (see {context.command_path} --help)" if context else ""
    return f"{message[:1].lower()}{message[1:]}{where}"


def _missing(error: ModuleNotFoundError) -> MissingExtra:
    """The install line of the extra that holds the module. A module of no extra is a bug and stays a traceback."""
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRA_OF:
        raise error
    return MissingExtra(_EXTRA_OF[module], f"this command uses {module}, which is not installed; it")


def _open_streams() -> None:
    """Give every stream somewhere to read from or write to, and a way to write what its encoding lacks."""
    if sys.stdin is None:  # closed by the shell (`<&-`): empty
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (it lives as long as we do)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell (`>&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (it lives as long as we do)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _close_streams() -> None:
    """Flush now; what cannot be written is pointed at nothing, so that Python's exit stays quiet and keeps our code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
