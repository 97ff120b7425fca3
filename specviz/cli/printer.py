"""What `specviz run` writes while it decodes: text on standard output, rounds and warnings on standard error.

Each printer is a sink: a callable that takes the events of a run as they happen. Text goes out raw into a pipe or file,
so that it stays data, and made safe for a terminal, since a model is free to write escape sequences.
"""

import re
import sys
from collections.abc import Callable, Iterator
from typing import Literal, TextIO

from specviz import events
from specviz.events import Event
from specviz.text import ascii_only, clip, running, shown, width
from specviz.view import numbers, palette
from specviz.view.case import case
from specviz.view.closings import closing_words
from specviz.view.family import Family
from specviz.view.fold import Run
from specviz.view.frame import Mark
from specviz.view.records import RoundRecord
from specviz.view.words import node_words

Sink = Callable[[Event], None]
_LAYOUT = re.compile(r"([\n\t])")
_PROMPT_TAIL = 400  # characters of a long prompt that are worth showing again
_TOKEN_CELLS, _TOKENS_CELLS, _PROMPT_CELLS = 16, 56, 100
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
    """What a person should know besides the text: the setting, the prompt, warnings. All on standard error.

    `prompt`: `joined` shows it dim and right before the text that goes on from it, `line` clipped on a line of its own.
    """

    def __init__(self, err: TextIO | None = None, prompt: Literal["joined", "line", "none"] = "none") -> None:
        self._err = err or sys.stderr
        self._prompt = prompt
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
        elif isinstance(event, events.Warn):
            self.say(f"specviz: warning: {running(event.message)}")
        elif isinstance(event, events.Prefill) and self._prompt == "line":
            self.say(f"prompt  {clip(running(event.text), _PROMPT_CELLS)}")
        elif isinstance(event, events.Prefill) and self._prompt == "joined":
            tail = event.text[-_PROMPT_TAIL:]
            self.say(self._dim(("…" if tail != event.text else "") + terminal_text(tail)), end="")

    def say(self, text: str, end: str = "\n") -> None:
        """Write one line of narration."""
        self.clear()
        print(text, end=end, file=self._err, flush=True)

    def clear(self) -> None:
        """Erase the line of `wait`."""
        if self._passing:
            print("\r\x1b[2K", end="", file=self._err, flush=True)
            self._passing = False

    def _dim(self, text: str) -> str:
        return text if palette.no_color() else f"\x1b[2m{text}\x1b[22m"


def setting(header: events.Header) -> str:
    """What runs, on one line: method, verifier, its promise, models, sampling, seed."""
    target, draft = header.models.target, header.models.draft
    models = " ⇐ ".join(shown(model.name) for model in (target, draft) if model)
    promise = "lossless" if header.lossless else "NOT lossless"
    if header.distance:
        promise += f", {numbers.number(header.distance, 3)} from the target's law on the toy"
    temperature, seed = header.sampling.get("temperature", 0), header.sampling.get("seed", 0)
    return f"{header.method} · {header.verifier} ({promise}) · {models} · T {numbers.knob(temperature)} · seed {seed}"


class RoundLines:
    """One plain line for each round: the drafted tokens with their marks, the closing token, counts and time.

        r3    ✓▁return ✓▁n ✗▁- ·▁1 → ↻▁+      2 of 4 kept, 3 new, 14 ms

    A chain shows every token; of a tree only the tested ones, since a line cannot show what hangs below a lost branch.
    `verbose` adds a sentence for every tested token and for the closing one.
    """

    def __init__(self, out: TextIO | None = None, verbose: bool = False) -> None:
        self._out = out or sys.stdout
        self._verbose = verbose
        self._run = Run()
        self._ascii = not _can_print(self._out, "✓✗↻★·→▁")

    def __call__(self, event: Event) -> None:
        """Fold the event; write the round when it ends."""
        self._run.apply(event)
        if isinstance(event, events.RoundEnd):
            self._write(self.line(event))
            for sentence in self._sentences() if self._verbose else ():
                self._write(f"      {sentence}")

    def line(self, end: events.RoundEnd) -> str:
        """The round that just ended, as one line."""
        record = self._run.rounds[-1]
        tokens = " ".join(part for part in (self._drafted(record), self._closing(record)) if part)
        counts = f"{end.n_accepted} of {end.n_drafted} kept, {end.n_emitted} new"
        spent = numbers.duration(sum(end.stage_ns.values()))
        return f"r{end.r:<4} {tokens}{' ' * max(0, _TOKENS_CELLS - width(tokens))}  {counts}, {spent}"

    def _drafted(self, record: RoundRecord) -> str:
        family = Family(record)
        if self._run.level == "none":
            return self._committed(record)
        is_chain = all(len(children) <= 1 for children in family.children.values())
        listed = list(family.kept_nodes) if is_chain else [v.node for v in family.tests]
        hidden = len(family.kept_nodes) - len(listed)
        tokens = [self._token(_MARKS[record.verdicts[i].status], record.query.nodes[i]) for i in listed]
        return " ".join([*tokens, *([f"(+{hidden} never tested)"] if hidden else [])])

    def _committed(self, record: RoundRecord) -> str:
        """Level `none` has no nodes: the kept tokens are all there is to show."""
        commit = record.commit
        pairs = zip(commit.kinds, commit.texts, strict=True) if commit else ()
        return " ".join(self._piece(_MARKS[kind], shown(text)) for kind, text in pairs)

    def _closing(self, record: RoundRecord) -> str:
        last = record.closing
        if last is None or last.kind == "none" or last.token is None:
            return ""
        return f"{'->' if self._ascii else '→'} {self._piece(_MARKS[last.kind], self._run.word(last.token))}"

    def _token(self, mark: Mark, node: events.Node) -> str:
        return self._piece(mark, clip(shown(node.text, node.bytes), _TOKEN_CELLS))

    def _piece(self, mark: Mark, token: str) -> str:
        return palette.glyph(mark, self._ascii) + (ascii_only(token) if self._ascii else token)

    def _sentences(self) -> Iterator[str]:
        """What `specviz.view` says of every tested node, in the order of the tests, and of the closing token."""
        record = self._run.rounds[-1]
        family = Family(record)
        for verdict in family.tests:
            yield self._readable(node_words(case(self._run, family, verdict.node)))
        if record.closing is not None:
            yield self._readable(closing_words(self._run, family))

    def _readable(self, sentence: str) -> str:
        return ascii_only(sentence) if self._ascii else sentence

    def _write(self, line: str) -> None:
        print(line, file=self._out, flush=True)


def _can_print(out: TextIO, characters: str) -> bool:
    """Whether the encoding of a stream has these characters; a stream without one takes anything."""
    try:
        characters.encode(out.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
