"""`specviz run`: decode one prompt in this process, or a stream of them one after another.

Cheap checks come first, so that bad input is refused before torch is imported: prompt, method, verifier, knobs, a place
for the trace. Text is standard output, everything else standard error; with `--json` standard output is one object.
"""

import contextlib
import signal
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from specviz.cli import Terminated, options
from specviz.cli import request as prompts
from specviz.cli.flags import SectionedCommand
from specviz.cli.printing import Sink, fan_out
from specviz.cli.recording import recording
from specviz.cli.request import RunRequest
from specviz.cli.run.output import Output
from specviz.cli.run.result import Result, RunError, StreamResult
from specviz.errors import SpecvizError

if TYPE_CHECKING:
    from specviz.engine.run.local import LocalRun


@click.command("run", cls=SectionedCommand, sections=options.sections())
@prompts.prompt_options
@click.option(
    "--stream",
    metavar="FILE",
    help="Decode the prompts of a JSONL file (fields prompt, domain) one after another with one drafter, which may "
    "learn from query to query: --adapt on. A line per query, one trace for all; - is standard input, bundled the "
    "bundled prompts.",
)
@click.option("--method", default="draft", show_default=True, metavar="NAME", help=options.method_help())
@options.VERIFIER
@options.model_options
@options.lane_options
@options.CHAT
@options.recording_options("Write a trace, *.sv.jsonl; compressed to *.sv.jsonl.gz when the run ends.")
@click.option("--level", metavar="NAME", help="none, summary or full [default: full with --record].")
@click.option("--rounds", is_flag=True, help="A line for every round on standard error; the text follows at the end.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output instead of the text.")
@click.option("--verbose", "-v", is_flag=True, help="With --rounds: say why every token was kept or not.")
@click.option("--quiet", "-q", is_flag=True, help="No narration; errors are still told.")
@options.knob_options
def command(**given: Any) -> None:
    """Decode a prompt, round by round, or a stream of prompts.

    Every knob is a flag; a knob that the chosen method lacks is an error. With no model named, the embedded pair is
    used. Standard output holds the new text alone.

    \b
      specviz run --example code
      specviz run --prompt 'def add(a, b):' --gamma 6 --record add.sv.jsonl
      echo 'The module' | specviz run - --method ngram --temperature 0.8 --json
      specviz run --stream prompts.jsonl --method specblock --adapt on --record learnt.sv.jsonl
    """
    request = RunRequest.of(given)
    result = StreamResult(whole=request.as_json) if request.stream else Result()
    output = Output(request, result)
    output.begin()
    try:
        _decode(request, result, output.sink)
    except BaseException:
        with contextlib.suppress(BrokenPipeError):  # the first error is the one that counts
            output.end()
        raise
    output.end()


def _decode(request: RunRequest, result: Result, printed: Sink) -> None:
    """Load the pair, open the trace, decode to the end.

    The trace is opened last, so that a model that cannot be loaded destroys no older trace of that name.
    """
    from specviz.engine.run.local import LocalRun, load_pair

    pair = load_pair(
        request.target,
        request.draft,
        request.needs_draft,
        request.device,
        request.dtype,
        request.threads,
        request.draft_device,
    )
    with recording(request.record, printed, result, request.redact) as recorder:
        sinks: list[Sink] = [result, printed] if recorder is None else [recorder.write, result, printed]
        run = LocalRun(pair, request.start, fan_out(*sinks))
        try:
            with _interruptible(run):
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
    hint = "" if verbose else " (--verbose shows where)"
    return RunError(f"the run failed: {type(error).__name__}: {error}{hint}")


@contextlib.contextmanager
def _interruptible(run: "LocalRun") -> Iterator[None]:
    """The first SIGINT or SIGTERM lets the round in hand finish, the second unwinds at once.

    An interrupt that lands in the middle of writing a record would leave trace and text apart; asked between rounds,
    the trace ends whole, as cancelled.
    """
    asked: list[type[KeyboardInterrupt]] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        asked.append(Terminated if number == signal.SIGTERM else KeyboardInterrupt)
        if len(asked) > 1:
            raise asked[-1]
        run.stop("cancelled")

    try:
        before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise asked[0]
