"""What `specviz run` writes while it decodes: text on standard output, rounds and warnings on standard error.

Each printer is a sink: a callable that takes the events of a run as they happen. Text goes out raw into a pipe or file, so
that it stays data, and made safe for a terminal, since a model is free to write escape sequences.
"""

import re
import sys
from collections.abc import Callable
from typing import TextIO

from specviz import events
from specviz.events import Event
from specviz.text import pad, quoted, running, shown, width
from specviz.view import numbers, palette
from specviz.view.frame import Mark

Sink = Callable[[Event], None]
_LAYOUT = re.compile(r"([\n\t])")
_PROMPT_TAIL = 400  # characters of a long prompt that are worth showing again
_TOKEN_CELLS = 16
_MARKS: dict[str, Mark] = {
    "accepted": "accepted", "branch": "accepted", "rejected": "rejected", "untested": "untested", "pruned": "pruned",
    "recovered": "recovered", "bonus": "bonus",
}  # fmt: skip


def terminal_text(text: str) -> str:
    """Text with its lines and tabs, and nothing else that could steer a terminal."""
    return "".join(part if part in "\n\t" else running(part) for part in _LAYOUT.split(text))


def fan_out(*sinks: Sink) -> Sink:
    """One sink that feeds all, in order."""

    def sink(event: Event) -> None:
        for each in sinks:
            each(event)

    return sink


class TextStream:
    """Committed text, written and flushed round by round. `finish` ends the line of a terminal.

    It waits for `round_end`, so that a pipe that closes under it leaves a trace of whole rounds.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._is_terminal = self._out.isatty()
        self._last = self._waiting = ""

    def __call__(self, event: Event) -> None:
        """Take the texts of a `commit`, write them when the round ends."""
        if isinstance(event, events.Commit):
            self._waiting = "".join(event.texts)
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
    """What a person should know besides the text: the setting, the prompt, warnings. All on standard error."""

    def __init__(self, err: TextIO | None = None, show_prompt: bool = True) -> None:
        self._err = err or sys.stderr
        self._show_prompt = show_prompt and self._err.isatty() and sys.stdout.isatty()

    def __call__(self, event: Event) -> None:
        """A line for a `header` or `warn`; the prompt, dim, before the text that goes on from it."""
        if isinstance(event, events.Header):
            self.say(setting(event))
        elif isinstance(event, events.Warn):
            self.say(f"specviz: warning: {running(event.message)}")
        elif isinstance(event, events.Prefill) and self._show_prompt:
            tail = event.text[-_PROMPT_TAIL:]
            self.say(self._dim(("…" if tail != event.text else "") + terminal_text(tail)), end="")

    def say(self, text: str, end: str = "\n") -> None:
        """Write one line of narration."""
        print(text, end=end, file=self._err, flush=True)

    def _dim(self, text: str) -> str:
        return text if palette.no_color() else f"\x1b[2m{text}\x1b[22m"


def setting(header: events.Header) -> str:
    """What runs, on one line: method, verifier, its promise, models, sampling, seed."""
    target, draft = header.models.target, header.models.draft
    models = " ⇐ ".join(shown(model.name) for model in (target, draft) if model)
    promise = "lossless" if header.lossless else "NOT lossless"
    temperature, seed = header.sampling.get("temperature", 0), header.sampling.get("seed", 0)
    return f"{header.method} · {header.verifier} ({promise}) · {models} · T {numbers.knob(temperature)} · seed {seed}"


class RoundLines:
    """One plain line for each round: the drafted tokens with their marks, the closing token, counts and time.

        r3   ✓▁return ✓▁n ✗▁- ·▁1 → ↻▁+      2 of 4 kept, 3 new, 14 ms

    A chain shows every token; of a tree only the tested ones, since a line cannot show what hangs below a lost branch.
    `explain` adds sentences to a round.
    """

    def __init__(self, out: TextIO | None = None, explain: Callable[[list[Event]], list[str]] | None = None) -> None:
        self._out = out or sys.stdout
        self._explain = explain
        self._round: list[Event] = []
        self._ascii = not _can_print(self._out, "✓✗↻★·→▁")

    def __call__(self, event: Event) -> None:
        """Gather the records of a round, write it when it ends."""
        if isinstance(event, events.RoundStart):
            self._round = []
        self._round.append(event)
        if isinstance(event, events.RoundEnd):
            self._write(self.line(event))
            for sentence in self._explain(self._round) if self._explain else ():
                self._write(f"       {sentence}")

    def _write(self, line: str) -> None:
        print(line, file=self._out, flush=True)

    def line(self, end: events.RoundEnd) -> str:
        """The round as one line."""
        spent = sum(ns for ns in end.stage_ns.values())
        counts = f"{end.n_accepted} of {end.n_drafted} kept, {end.n_emitted} new, {numbers.duration(spent)}"
        tokens = " ".join(part for part in (self._drafted(), self._closing()) if part)
        return f"r{end.r:<4} {pad(tokens, 64) if width(tokens) <= 64 else tokens}  {counts}"

    def _drafted(self) -> str:
        nodes = {e.node: e for e in self._round if isinstance(e, events.Node)}
        verdicts = [e for e in self._round if isinstance(e, events.Verify) and e.node in nodes]
        if not verdicts:
            return self._committed()
        is_chain = len({nodes[v.node].parent for v in verdicts}) == len(verdicts)
        tested = sorted((v for v in verdicts if v.order is not None), key=lambda v: v.order or 0)
        untested = [v for v in verdicts if v.order is None]
        listed = verdicts if is_chain else tested
        tokens = [self._token(_MARKS[v.status], nodes[v.node].text, nodes[v.node].bytes) for v in listed]
        hidden = 0 if is_chain else len(untested)
        return " ".join([*tokens, *([f"(+{hidden} never tested)"] if hidden else [])])

    def _committed(self) -> str:
        """Level `none` has no nodes: the kept tokens are all there is to show."""
        pairs = [p for e in self._round if isinstance(e, events.Commit) for p in zip(e.kinds, e.texts, strict=True)]
        return " ".join(self._token(_MARKS[kind], text) for kind, text in pairs)

    def _closing(self) -> str:
        last = next((e for e in self._round if isinstance(e, events.Closing)), None)
        if last is None or last.kind == "none":
            return ""
        arrow = "->" if self._ascii else "→"
        return f"{arrow} {self._token(_MARKS[last.kind], last.text or '')}"

    def _token(self, mark: Mark, text: str, raw: str | None = None) -> str:
        from specviz.text import ascii_only

        token = palette.glyph(mark, self._ascii) + quoted(text, raw, _TOKEN_CELLS)
        return ascii_only(token) if self._ascii else token


def _can_print(out: TextIO, characters: str) -> bool:
    """Whether the encoding of a stream has these characters; a stream without one takes anything."""
    try:
        characters.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
