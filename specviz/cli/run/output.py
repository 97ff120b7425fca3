"""The streams of one `specviz run`: which printers it needs, and what is left to say when it is over."""

import sys
from typing import Literal

from specviz.cli.printing import Narrator, Sink, TextPrinter, echo_json, fan_out
from specviz.cli.request import RunRequest
from specviz.cli.run.lines import RoundLines, StreamLines
from specviz.cli.run.result import Result, StreamResult
from specviz.events import Event, Header
from specviz.trace.private import STORED


class Output:
    """`sink` takes the events of the run; `end` says the rest, however the run ended."""

    def __init__(self, request: RunRequest, result: Result) -> None:
        self._request, self._result = request, result
        self._narrator = None if request.quiet else Narrator(prompt=_prompt_view(request))
        self._text = None if request.as_json or request.rounds or request.stream else TextPrinter()
        rounds = RoundLines(result.run, sys.stderr, request.verbose) if request.rounds else None
        self._queries = _query_lines(request, result)
        told = self._recorded if self._narrator is not None and request.record is not None else None
        sinks: list[Sink | None] = [self._narrator, told, rounds, self._text, self._queries]
        self.sink = fan_out(*(sink for sink in sinks if sink is not None))

    def begin(self) -> None:
        """Say what is ignored, and that loading takes a moment."""
        if self._narrator is None:
            return
        if self._request.draft and not self._request.needs_draft:
            method = self._request.start.method
            self._narrator.say(f"specviz: warning: method {method} uses no draft model, --draft is not used")
        if self._request.start.knobs.get("adapt") == "on" and not self._request.stream:
            self._narrator.say(
                "specviz: warning: --adapt learns between prompts, and this is one: give more with --stream"
            )
        if self._request.idle:
            self._narrator.say(f"specviz: warning: without effect here: {', '.join(self._request.idle)}")
        self._narrator.wait("loading the models …")

    def _recorded(self, event: Event) -> None:
        """Beside the setting: what the recording holds."""
        if isinstance(event, Header) and self._narrator is not None:
            self._narrator.say(f"recording  {'token ids, no text' if self._request.redact else STORED}")

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
        if self._narrator is not None:
            for line in self._result.summary():
                self._narrator.say(line)

    def _whole_text(self) -> None:
        if self._narrator is not None:
            self._narrator.say("")
        stream = TextPrinter()
        stream.write(self._result.text)
        stream.finish()
        if self._narrator is not None and not sys.stdout.isatty():
            self._narrator.say("")  # both streams may go to one file, and the text ends in no line of its own


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
    return "joined" if on_screen and not (request.start.chat or request.as_json) else "none"
