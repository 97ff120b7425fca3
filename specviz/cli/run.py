"""`specviz run`: decode one prompt in this process.

Cheap checks come first, so that bad input is refused before torch is imported: prompt, method, verifier, knobs, a place
for the trace. Text is standard output, everything else standard error; with `--json` standard output is one object.
"""

import contextlib
import signal
import sys
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any, Literal, NoReturn

import click

from specviz.cli import Terminated, options
from specviz.cli.layout import echo_json
from specviz.cli.printer import Narrator, RoundLines, Sink, TextStream, fan_out
from specviz.cli.recording import recording
from specviz.cli.request import Request
from specviz.cli.result import Result, RunError
from specviz.cli.sections import SectionedCommand
from specviz.errors import SpecvizError


@click.command("run", cls=SectionedCommand, sections=options.sections())
@options.prompt_options
@click.option("--method", default="draft", show_default=True, metavar="NAME", help=options.method_help())
@click.option("--verifier", metavar="NAME", help=options.verifier_help())
@options.model_options
@click.option("--chat", is_flag=True, help="Apply the tokenizer's chat template to the prompt.")
@click.option(
    "--record", metavar="FILE", help="Write a trace, *.sv.jsonl; compressed to *.sv.jsonl.gz when the run ends."
)
@click.option("--level", metavar="NAME", help="none, summary or full [default: full with --record].")
@click.option("--rounds", is_flag=True, help="A line for every round on standard error; the text follows at the end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output instead of the text.")
@click.option("--verbose", "-v", is_flag=True, help="With --rounds: say why every token was kept or not.")
@click.option("--quiet", "-q", is_flag=True, help="No narration; errors are still told.")
@options.knob_options
def command(**given: Any) -> None:
    """Decode a prompt, round by round.

    Every knob is a flag; a knob that the chosen method lacks is an error. With no model named, the embedded pair is
    used. Standard output holds the new text alone.

    \b
      specviz run --example code
      specviz run --prompt 'def add(a, b):' --gamma 6 --record add.sv.jsonl
      echo 'The module' | specviz run - --method ngram --temperature 0.8 --json
    """
    request = Request.of(given)
    result = Result()
    printers, text = _printers(request)
    try:
        with _terminable():
            _decode(request, result, printers)
    finally:
        with contextlib.suppress(
            BrokenPipeError
        ):  # the reader of standard output went away; that is already on its way up
            _tell(request, result, text)


def _decode(request: Request, result: Result, printers: Sink) -> None:
    """Load the pair, open the trace, decode to the end.

    The trace is opened last, so that a model that cannot be loaded destroys no older trace of that name.
    """
    from specviz.engine.local import LocalRun, load_pair

    pair = load_pair(request.target, request.draft, request.needs_draft, request.device, request.dtype, request.threads)
    with recording(request.record, printers, result) as recorder:
        sinks: list[Sink] = [result, printers] if recorder is None else [recorder.write, result, printers]
        run = LocalRun(pair, request.start, fan_out(*sinks))
        try:
            for _ in run.rounds():
                pass
        except (SpecvizError, BrokenPipeError):
            raise
        except Exception as error:
            raise _failed(error, request.verbose) from error
        finally:
            result.text, result.tokens = run.text, list(run.tokens)


def _failed(error: Exception, verbose: bool) -> RunError:
    """What the user cannot mend becomes one line too; the trace ends with the reason, --verbose shows where."""
    if verbose:
        traceback.print_exc()
    return RunError(
        f"the run failed: {type(error).__name__}: {error}" + ("" if verbose else " (--verbose shows where)")
    )


def _tell(request: Request, result: Result, text: TextStream | None) -> None:
    """The end of the output: the rest of the line, the text or the object, the summary."""
    if not result.has_begun:
        return
    if text is not None:
        text.finish()
    if request.as_json and result.is_done:
        echo_json(result.as_json())
    if request.rounds and not request.as_json:
        print(file=sys.stderr, flush=True)
        stream = TextStream()
        stream.write(result.text)
        stream.finish()
    if not request.quiet:
        for line in result.summary():
            print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds like an interrupt, so that the trace gets its end and its reason."""

    def leave(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _prompt_view(request: Request) -> Literal["joined", "line", "none"]:
    """Where the prompt is shown: before its text when both go to one terminal, else on a line when rounds are told."""
    if request.rounds:
        return "line"
    on_screen = sys.stdout.isatty() and sys.stderr.isatty()
    return "joined" if on_screen and not (request.start.chat or request.as_json) else "none"


def _printers(request: Request) -> tuple[Sink, TextStream | None]:
    """The sink of everything that is printed during the run, and the text stream to finish at its end."""
    sinks: list[Sink] = []
    if not request.quiet:
        sinks.append(Narrator(prompt=_prompt_view(request)))
    if request.rounds:
        sinks.append(RoundLines(sys.stderr, request.verbose))
    text = None if request.as_json or request.rounds else TextStream()
    if text is not None:
        sinks.append(text)
    return fan_out(*sinks), text
