"""What the commands write, for people and for programs.

A run in progress goes to sinks, callables that take its events as they happen: text on standard output, the setting and
warnings on standard error. Text goes out raw into a pipe or file, so that it stays data, and made safe for a terminal,
since a model is free to write escape sequences. What was found is printed as sections of names and values, as tables,
or as one JSON object.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TextIO

import click
import msgspec
from rich import box
from rich.table import Table

from specviz import events, numerals
from specviz.events import Event
from specviz.metrics import Estimate
from specviz.text import clip, running, shown
from specviz.view.words import numbers, palette
from specviz.view.words.models import exactness, precision, rounding

Sink = Callable[[Event], None]
_LAYOUT = re.compile(r"([\n\t])")
_PROMPT_TAIL = 400  # characters of a long prompt that are worth showing again
_PROMPT_CELLS = 100


def terminal_text(text: str) -> str:
    """Text with its lines and tabs, and nothing else that could steer a terminal."""
    return "".join(part if part in "\n\t" else running(part) for part in _LAYOUT.split(text))


def fan_out(*sinks: Sink) -> Sink:
    """One sink that passes each event to all of `sinks`, in order."""

    def sink(event: Event) -> None:
        for receive in sinks:
            receive(event)

    return sink


class TextPrinter:
    """Committed text, written and flushed round by round. `finish` ends the line of a terminal.

    `chat`: the mark that ends a message is no part of the answer. It waits for `round_end`, so that a pipe that closes
    under it leaves a trace of whole rounds.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_terminal = self._out.isatty()
        self._last = self._waiting = ""
        self.chat = False

    def __call__(self, event: Event) -> None:
        """Take the texts of a `commit`, write them when the round ends."""
        if isinstance(event, events.Commit):
            ended = self.chat and event.finish == "eos"
            self._waiting = "".join(event.texts[:-1] if ended else event.texts)
        elif isinstance(event, events.RoundEnd):
            self.write(self._waiting)

    def write(self, text: str) -> None:
        """Write text, raw or made safe, and flush it."""
        if text:
            self._out.write(terminal_text(text) if self._is_terminal else text)
            self._out.flush()
            self._last = text[-1]

    def finish(self) -> None:
        """Leave the cursor of a terminal at the start of a line; add nothing to a pipe."""
        if self._is_terminal and self._last not in ("", "\n"):
            self._out.write("\n")
            self._out.flush()


class Narrator:
    """What a person should know besides the text: the setting, the prompt, warnings. All on standard error.

    `prompt`: `joined` shows it dim and right before the text that goes on from it, `line` clipped on a line of its own.
    `chat`: the text answers the prompt and does not go on from it.
    """

    def __init__(self, err: TextIO | None = None, prompt: Literal["joined", "line", "none"] = "none") -> None:
        self._err = err or sys.stderr
        self._prompt = prompt
        self.chat = False
        self._passing = False

    def wait(self, text: str) -> None:
        """On a terminal: a line that the next one overwrites."""
        if self._err.isatty():
            print(text, end="", file=self._err, flush=True)
            self._passing = True

    def __call__(self, event: Event) -> None:
        """A line for a `header` or `warn`, the prompt for a `prefill`."""
        if isinstance(event, events.Header):
            self.say(setting(event))
            for name, words in event.models.parts.items():
                self.say(f"{name}: {running(words)}")
        elif isinstance(event, events.Warn):
            self.say(f"specviz: warning: {running(event.message)}")
        elif isinstance(event, events.Prefill) and self._prompt == "line":
            self.say(f"prompt  {clip(running(event.text), _PROMPT_CELLS)}")
        elif isinstance(event, events.Prefill) and self._prompt == "joined" and not self.chat:
            tail = event.text[-_PROMPT_TAIL:]
            text = ("…" if tail != event.text else "") + terminal_text(tail)
            self.say(text if palette.no_color() else f"\x1b[2m{text}\x1b[22m", end="")

    def say(self, text: str, end: str = "\n") -> None:
        """Write one line of narration."""
        self.clear()
        print(text, end=end, file=self._err, flush=True)

    def clear(self) -> None:
        """Erase the line of `wait`."""
        if self._passing:
            print("\r\x1b[2K", end="", file=self._err, flush=True)
            self._passing = False


def setting(header: events.Header) -> str:
    """What runs, on one line: method, verifier, its promise, models, sampling, seed."""
    if header.outside is not None:
        return outside_setting(header, header.outside)
    target, draft = header.models.target, header.models.draft
    models = " ⇐ ".join(shown(model.name) + precision(model) for model in (target, draft) if model)
    promise = f"lossless{rounding(header)}" if header.lossless else "NOT lossless"
    if header.distance:
        promise += f", {numerals.number(header.distance, 3)} from the target's law on the toy"
    temperature, seed = header.sampling.get("temperature", 0), header.sampling.get("seed", 0)
    line = f"{header.method} · {header.verifier} ({promise}) · {models} · T {numbers.knob(temperature)} · seed {seed}"
    line = " · ".join(filter(None, (line, exactness(header))))
    return f"{line} · {lanes(header)}" if header.lanes != "serial" or "lanes_ms" in header.env else line


def outside_setting(header: events.Header, outside: events.Outside) -> str:
    """Engine, method, rule and models of another engine's run, on one line."""
    models = " ⇐ ".join(shown(model.name) for model in (header.models.target, header.models.draft) if model)
    temperature = header.sampling.get("temperature")
    parts = (
        f"{outside.engine} {outside.version or ''}".strip(),
        f"{header.method} · {header.verifier} ({outside.promise})",
        models,
        "" if temperature is None else f"T {numbers.knob(temperature)}",
        f"{outside.known} known",
    )
    return " · ".join(filter(None, parts))


def lanes(header: events.Header) -> str:
    """The lanes of a run, and what a probe found of each: `lanes threads (serial 9.1 ms, threads 7.9 ms)`."""
    probed = header.env.get("lanes_ms") or {}
    times = ", ".join(f"{name} {numerals.number(ms, 1)} ms" for name, ms in probed.items())
    return f"lanes {header.lanes}" + (f" ({times})" if times else "")


def echo_json(value: Any) -> None:
    """One JSON object on standard output, keys in our order: on one line for a program, indented on a terminal."""
    raw = msgspec.json.encode(value)
    click.echo((msgspec.json.format(raw, indent=2) if sys.stdout.isatty() else raw).decode())


def echo_sections(sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Titles with aligned names and values below them; whatever a value holds, it stays on its line."""
    for number, (title, rows) in enumerate(sections.items()):
        if number:
            click.echo()
        click.secho(title, bold=True)
        widest = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            click.echo(f"  {name:<{widest}}  {running(value)}")


def narrate(text: str) -> None:
    """A line of narration on standard error."""
    print(text, file=sys.stderr, flush=True)


def table_of(first: str, *others: str) -> Table:
    """A table; every column but the first is numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=bool(heading))
    return table


def cells(estimate: Estimate | None) -> tuple[str, str, str]:
    """Value, interval, n."""
    if estimate is None:
        return numerals.UNKNOWN, "", ""
    unknown = {"few": "n too small", "alike": "all alike"}.get(estimate.why_unknown or "", "")
    interval = unknown if estimate.interval is None else " .. ".join(map(figure, estimate.interval))
    return figure(estimate.value), interval, f"{estimate.n:,}"


def figure(value: float) -> str:
    """Two digits from 1 on, more below, so that a small share does not read as nothing."""
    size = abs(value)
    return numerals.number(value, 2 if size >= 1 or not size else 3 if size >= 0.01 else 5)
