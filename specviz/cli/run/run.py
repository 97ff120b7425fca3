"""`specviz run`: decode one prompt in this process, or a stream of them one after another.

Cheap checks come first, so that bad input is refused before torch is imported: prompt, method, verifier, knobs, a place
for the trace. Text is standard output, everything else standard error; with `--json` standard output is one object.
"""

import contextlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

import click

from specviz.cli import NO_ROOM, Terminated, flags, options
from specviz.cli import request as prompts
from specviz.cli.flags import SectionedCommand, flag, text
from specviz.cli.printing import Narrator, Sink, TextPrinter, echo_json, fan_out, narrate
from specviz.cli.request import RunRequest
from specviz.cli.run.lines import RoundLines, StreamLines
from specviz.cli.run.result import Result, RunError, StreamResult
from specviz.cli.run.timings import Timings, memory_words
from specviz.errors import SpecvizError, TraceError, WriteError
from specviz.events import Event, Header
from specviz.lean import lean_start
from specviz.trace.private import IDS_ALONE, STORED

if TYPE_CHECKING:
    from specviz.engine.run.local import LocalRun
    from specviz.trace import Recorder

_MUCH = 100_000_000  # bytes that a run takes beside its models


@click.command("run", cls=SectionedCommand, sections=options.sections())
@prompts.prompt_options
@text(
    "--stream",
    "FILE",
    "Decode the prompts of a JSONL file (fields prompt, domain) one after another with one drafter, which may "
    "learn from query to query: --adapt on. A line per query, one trace for all; - is standard input, bundled the "
    "bundled prompts.",
)
@text("--method", "NAME", f"{options.method_help()} {options.USUAL_HELP}")
@options.VERIFIER
@options.model_options
@options.TENSOR_PARALLEL
@flags.DRAFT_DEVICE
@flags.LANE
@options.AUTO
@options.CHAT
@options.recording_options("Write a trace, *.sv.jsonl; compressed to *.sv.jsonl.gz when the run ends.")
@text("--level", "NAME", "none, summary or full [default: full with --record].")
@flag("--rounds", "A line for every round on standard error; the text follows at the end.")
@flag("--json as_json", "One JSON object on standard output instead of the text.")
@flag("--verbose -v", "With --rounds: say why every token was kept or not.")
@flag("--timings", "What the time to the first token went into, on standard error.")
@flag("--quiet -q", "No narration; errors are still told.")
@options.KNOB_FILE
@options.knob_options
def command(**arguments: Any) -> None:
    """Decode a prompt, round by round, or a stream of prompts.

    Every knob is a flag; a knob that the chosen method lacks is an error. With no model named, the embedded pair is
    used. Standard output holds the new text alone. A model with a chat template answers; 'specviz tui' and
    'specviz web' hold a conversation.

    \b
      specviz run --example code
      specviz run --prompt 'def add(a, b):' --gamma 6 --record add.sv.jsonl
      specviz run --target smollm2 --prompt 'Why is the sky blue?' --method ngram
      echo 'The module' | specviz run - --method ngram --temperature 0.8 --json
      specviz run --stream prompts.jsonl --method specblock --adapt on --record learnt.sv.jsonl
    """
    timings = Timings() if arguments.pop("timings") else None
    _decoded(RunRequest.of(arguments), timings=timings)


def _decoded(request: RunRequest, timings: Timings | None = None) -> None:
    """Decode what was asked for, and say so."""
    result = StreamResult(whole=request.as_json) if request.stream else Result()
    output = Output(request, result)
    output.begin()
    try:
        run = _decode(request, result, output, timings)
    except BaseException:
        with contextlib.suppress(BrokenPipeError):  # the first error is the one that counts
            output.end()
        raise
    output.end()
    if timings is not None:
        timings.tell(run.memory, run.session.chunks)


def _decode(request: RunRequest, result: Result, output: "Output", timings: Timings | None) -> "LocalRun":
    """Load the pair, open the trace, decode to the end; the run that is over.

    The trace is opened last, so that a model that cannot be loaded destroys no older trace of that name.
    """
    mark: Callable[[str], None] = timings.mark if timings is not None else lambda _: None
    mark("start")
    with lean_start(request.device):
        from specviz.engine.run.local import LocalRun, load_pair, usual_auto

        mark("imports")
        pair = load_pair(*request.models, on_loaded=mark)
    pair.runtime.begin()
    mark("models")
    printed = output.sink
    with recording(request.record, printed, result, request.redact) as recorder:
        sinks: list[Sink] = [result, printed] if recorder is None else [recorder.write, result, printed]
        sinks += [timings.sink] if timings is not None else []
        run = LocalRun(pair, usual_auto(pair, request.start), fan_out(*sinks))
        mark("session")
        output.is_chat(run.chat)
        run.on_prompt = output.reading
        try:
            with interruptible(run):
                for _ in run.rounds():
                    pass
        except (SpecvizError, BrokenPipeError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM:  # of standard output: a trace's is told otherwise
                raise
            # what the user cannot mend becomes one line too; the trace ends with the reason
            if request.verbose:
                traceback.print_exc()
            hint = "" if request.verbose else " (--verbose shows where)"
            raise RunError(f"the run failed: {type(error).__name__}: {error}{hint}") from error
        finally:
            result.text, result.tokens = run.answer, list(run.tokens)
    return run


@contextlib.contextmanager
def recording(path: Path | None, warned: Sink, result: Result, redact: bool = False) -> Iterator["Recorder | None"]:
    """A recorder for the run, None without a path. `warned` is told when the disk fills; the run goes on.

    Afterwards `result.trace` is the file, by the name it has in the end; None when it could not be written whole, which
    is a WriteError unless something else went wrong before.
    """
    if path is None:
        yield None
        return
    from specviz.trace import Recorder

    running = False

    def tell(warning: Event) -> None:
        if running and recorder.taken:  # told by the first record: nothing was decoded yet
            raise TraceError(f"cannot record to {path}: {recorder.problem}; choose another name")
        if running:
            warned(warning)

    recorder = Recorder(path, on_problem=tell, redact=redact)
    if recorder.problem:
        recorder.close("error", recorder.problem)
        raise TraceError(f"cannot record to '{path}': {recorder.problem}")
    running = True
    try:
        yield recorder
    except BaseException as error:
        recorder.close("error" if isinstance(error, Exception) else "cancelled", type(error).__name__)
        lost = _lost(recorder)
        if lost:  # the first error is reported, but the missing trace must be as well
            narrate(f"specviz: {lost}")
        raise
    finally:
        recorder.close("done")
        result.trace = None if _lost(recorder) else recorder.path
    lost = _lost(recorder)
    if lost:
        raise WriteError(lost)


def _lost(recorder: "Recorder") -> str | None:
    problem = None if recorder.taken else recorder.problem
    return f"the trace {recorder.path} was not written whole: {problem}" if problem else None


@contextlib.contextmanager
def interruptible(run: "LocalRun") -> Iterator[None]:
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
    except ValueError:  # not the main thread: its owner handles signals
        yield
        return
    try:
        yield
    except KeyboardInterrupt:  # between chunks of a prompt a run ends by itself: it says less than what was asked
        raise asked[-1] if asked else KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if asked:
        raise asked[0]


class Output:
    """`sink` takes the events of the run; `end` says the rest, however the run ended."""

    def __init__(self, request: RunRequest, result: Result) -> None:
        self._request, self._result = request, result
        self._narrator = None if request.quiet else Narrator(prompt=_prompt_view(request))
        self._text = None if request.as_json or request.rounds or request.stream else TextPrinter()
        rounds = RoundLines(result.run, sys.stderr, request.verbose) if request.rounds else None
        self._queries = _query_lines(request, result)
        recorder = self._recorded if request.record is not None else None
        sinks: list[Sink | None] = [self._narrator, self._held, recorder, rounds, self._text, self._queries]
        self.sink = fan_out(*(sink for sink in sinks if sink is not None))

    def begin(self) -> None:
        """Say what is ignored, and that loading takes a moment."""
        request = self._request
        if request.draft and not request.needs_draft:
            self._warn(f"method {request.start.method} uses no draft model, --draft is not used")
        if request.start.knobs.get("adapt") == "on" and not request.stream:
            self._warn("--adapt learns between prompts, and this is one: give more with --stream")
        if request.idle:
            self._warn(f"without effect here: {', '.join(request.idle)}")
        if self._narrator is not None:
            self._narrator.wait("loading the models …")

    def is_chat(self, chat: bool) -> None:
        """Whether what comes answers the prompt; known once the tokenizer is."""
        for printer in (self._narrator, self._text):
            if printer is not None:
                printer.chat = chat

    def _held(self, event: Event) -> None:
        """What a run will hold in memory, where it is worth a line."""
        plan = event.env.get("memory") if isinstance(event, Header) else None
        if plan is not None and plan["caches"] + plan["work"] >= _MUCH:
            self._say(f"memory  {memory_words(plan)}")

    def reading(self, done: int, total: int) -> None:
        """On a terminal: how much of a long prompt went through."""
        if self._narrator is not None and done < total:
            self._narrator.clear()
            self._narrator.wait(f"reading the prompt: {done:,} of {total:,} tokens …")

    def _say(self, line: str) -> None:
        if self._narrator is not None:
            self._narrator.say(line)

    def _warn(self, what: str) -> None:
        self._say(f"specviz: warning: {what}")

    def _recorded(self, event: Event) -> None:
        """Beside the setting: what the recording holds."""
        if isinstance(event, Header):
            self._say(f"recording  {IDS_ALONE if self._request.redact else STORED}")

    def end(self) -> None:
        """The rest of the line, then the text or the object, then the summary; nothing when no run came about."""
        if self._narrator is not None:
            self._narrator.clear()
        if not self._result.has_begun:
            return
        if self._text is not None:
            self._text.finish()
        if self._queries is not None:
            self._queries.finish()
        if self._request.rounds and not (self._request.as_json or self._request.stream):
            self._whole_text()
        if self._request.as_json and self._result.is_done:
            echo_json(self._result.as_json())
        for line in self._result.summary() if self._narrator is not None else ():
            self._say(line)

    def _whole_text(self) -> None:
        self._say("")
        stream = TextPrinter()
        stream.write(self._result.text)
        stream.finish()
        if not sys.stdout.isatty():
            self._say("")  # both streams may go to one file, and the text ends in no line of its own


def _query_lines(request: RunRequest, result: Result) -> StreamLines | None:
    """A line a query: data on standard output, unless one object stands there."""
    if not isinstance(result, StreamResult) or (request.as_json and request.quiet):
        return None
    return StreamLines(result, sys.stderr if request.as_json else sys.stdout, request.verbose)


def _prompt_view(request: RunRequest) -> Literal["joined", "line", "none"]:
    """Where the prompt is shown: before its text when both go to one terminal, else on a line when rounds are told."""
    if request.rounds:
        return "line"
    if request.stream:
        return "none"
    on_screen = sys.stdout.isatty() and sys.stderr.isatty()
    return "joined" if on_screen and not request.as_json else "none"
