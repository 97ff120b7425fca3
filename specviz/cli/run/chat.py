"""A conversation in the terminal: `specviz run --target MODEL` without a prompt. Answers are streamed in the colours of
speculation; words that begin with a stroke change the method or a knob, or ask why.

Every answer is a run of its own with what was said before it; the target's cache is kept between them, and what it
holds of the conversation is not computed again.
"""

import contextlib
import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from specviz import events
from specviz.cli import Terminated
from specviz.cli.options import knob_specs, usual_method
from specviz.cli.printing import fan_out, narrate, setting, terminal_text
from specviz.cli.request import RunRequest
from specviz.cli.run.lines import RoundLines
from specviz.cli.run.result import Result
from specviz.commands import Said
from specviz.errors import SpecvizError, suggestion
from specviz.events import Event
from specviz.lean import lean_start
from specviz.methods import get_method
from specviz.runlog.fold import Run
from specviz.runlog.run import Mark
from specviz.sources.conversation import LENGTH
from specviz.view.words import palette

if TYPE_CHECKING:
    from specviz.engine.model.cache import KVCache
    from specviz.engine.model.pair import Pair

HELP = (
    ("/method NAME", "decode with another method from the next answer on"),
    ("/gamma 6", "set a knob, by its name: /temperature .8, /max-new-tokens 400"),
    ("/why", "why the tokens of the last answer's most telling round were kept or not; /why 12 of round 12"),
    ("/new", "forget the conversation"),
    ("/help", "these lines"),
    ("/quit", "end; Ctrl-D too. Ctrl-C ends an answer, not the conversation"),
)
_ASK = "› "


def converse(given: Mapping[str, Any]) -> None:
    """Hold the conversation until it is ended. Raises SpecvizError for what is wrong before it begins."""
    if given["record"] is not None:
        raise SpecvizError("--record keeps one run: give a --prompt with it, or leave it out of a conversation")
    chat = TerminalTalk({**given, "method": usual_method(given)})
    chat.load()
    chat.greet()
    while (line := _asked()) is not None:
        with _told():
            if not line.startswith("/"):
                chat.answer(line)
            elif not chat.obey(line[1:]):
                return


def _asked() -> str | None:
    """The next line that says something; None when the person leaves."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (arrows and history at the prompt)
    while True:
        try:
            line = input(_ASK).strip()
        except EOFError:
            print()
            return None
        except Terminated:
            raise
        except KeyboardInterrupt:
            print("\n(/quit ends the conversation)")
            continue
        if line:
            return line


@contextlib.contextmanager
def _told() -> Any:
    """What is wrong with a line is told, and the conversation goes on."""
    try:
        yield
    except SpecvizError as error:
        narrate(f"specviz: {terminal_text(' '.join(str(error).split()))}")


class AnswerPrinter:
    """Committed tokens in the colour of how they came about; the mark that ends a message is left out."""

    def __init__(self, run: Run, console: Console) -> None:
        self._run, self._console = run, console
        self._plain = palette.no_color()

    def __call__(self, event: Event) -> None:
        """Write the tokens of a round when it has ended."""
        record = self._run.rounds.last
        if not isinstance(event, events.RoundEnd) or record is None or record.commit is None:
            return
        commit = record.commit
        texts = commit.texts[:-1] if commit.finish == "eos" else commit.texts
        for kind, text in zip(commit.kinds, texts, strict=False):
            mark: Mark = "accepted" if kind in ("accepted", "branch") else record.closing_mark or "plain"
            self._console.print(Text(terminal_text(text), style=self.style(mark)), end="", soft_wrap=True)
        self._console.file.flush()

    def style(self, mark: Mark) -> str:
        """Of letters that are to be read: no reversed ground."""
        return palette.rich_style(mark, no_color=self._plain).replace("reverse", "").strip()


@dataclass(slots=True)
class TerminalTalk:
    """What was said, and with what the next answer is decoded. `given`: the options, changed by what is typed."""

    given: dict[str, Any]
    pair: "Pair | None" = None
    said: list[Said] = field(default_factory=list)
    cache: "KVCache | None" = None
    last: Result | None = None
    console: Console = field(default_factory=lambda: Console(highlight=False, markup=False, emoji=False))

    def load(self) -> None:
        """Load the models that the method needs; those that are loaded stay."""
        request = self._request("?")
        if self.pair is not None and (self.pair.draft is not None or not request.needs_draft):
            return
        narrate("loading the models …")
        with lean_start(request.device):
            from specviz.engine.model.pair import load_pair
            from specviz.engine.run.prepare import wants_chat

            self.pair = load_pair(*request.models)
        if not wants_chat(self.pair.target, self.given["chat"]):
            raise SpecvizError(
                f"no prompt, and {self.pair.target.info.name} has no chat template to hold a conversation by: "
                "give --prompt TEXT"
            )

    def _request(self, prompt: str) -> RunRequest:
        """The options as they are now, with a message. Without a length an answer has room to end by itself."""
        length = self.given.get("max_new_tokens") or str(LENGTH["max_new_tokens"])
        level = self.given["level"] or "summary"
        return RunRequest.of({**self.given, "prompt": prompt, "level": level, "max_new_tokens": length})

    def greet(self) -> None:
        """What the colours mean."""
        style = AnswerPrinter(Run(), self.console).style
        told: tuple[tuple[Mark, str], ...] = (
            ("accepted", "drafted and kept · "),
            ("recovered", "put right · "),
            ("bonus", "a bonus · "),
            ("plain", "the target's own\n"),
        )
        for mark, words in told:
            self.console.print(Text(words, style=style(mark)), end="")
        self.console.print("/help says what else can be typed; Ctrl-D ends", style="dim")

    def answer(self, message: str) -> None:
        """Decode the answer to a message and keep both. Ctrl-C ends it; what was said by then stays said."""
        from specviz.cli.run.run import interruptible
        from specviz.engine.run.local import LocalRun

        request = self._request(message)
        self.load()
        gc.collect()  # looks are seldom, and the run before left some hundred objects behind that hold each other
        assert self.pair is not None
        result = Result()
        result.run = Run()  # whole, so that any round can be asked about
        start = request.start
        start.history, start.chat = list(self.said), True
        run = LocalRun(self.pair, start, fan_out(result, AnswerPrinter(result.run, self.console)), cache=self.cache)
        try:
            with interruptible(run):
                for _ in run.rounds():
                    pass
        except Terminated:
            raise
        except KeyboardInterrupt:
            self.console.print(" (stopped)", style="dim", end="")
        self.console.print()
        self.cache, self.last = run.session.cache, result
        self.said += [Said(role="user", text=message), Said(role="assistant", text=run.answer)]
        self.console.print(f"{request.start.method}: {'; '.join(result.summary()[:2])}", style="dim", soft_wrap=True)

    def obey(self, line: str) -> bool:
        """Carry out a word with a stroke; False: the conversation is over. Raises SpecvizError."""
        word, _, rest = line.strip().partition(" ")
        name = word.replace("-", "_")
        known: dict[str, Callable[[str], None]] = {
            "method": self._method,
            "why": self._why,
            "new": self._new,
            "help": self._help,
        }
        if name in ("quit", "exit", "q"):
            return False
        if name in known:
            known[name](rest.strip())
        else:
            self._knob(name, rest.strip(), known)
        return True

    def _method(self, name: str) -> None:
        """Another method; its verifier is its own, and knobs it lacks are dropped."""
        from specviz.methods.common.missing import missing

        method = get_method(name)
        lacks = missing(method, self.pair) if method.part is not None and self.pair is not None else None
        if lacks is not None:
            raise SpecvizError(f"{name} cannot run here: {lacks.text}")
        own = {spec.name for spec in method.table.specs}
        dropped = [knob for knob in knob_specs() if self.given.get(knob) not in (None, ()) and knob not in own]
        before = dict(self.given)
        self.given |= {"method": name, "verifier": None, **dict.fromkeys(dropped)}
        try:
            self._request("?")
            self.load()
        except SpecvizError:
            self.given = before
            raise
        self.console.print(f"{name}: {method.help}", style="dim", soft_wrap=True)
        if dropped:
            self.console.print(f"without {', '.join(dropped)}, which it lacks", style="dim")

    def _knob(self, name: str, value: str, words: Mapping[str, Any]) -> None:
        specs = {spec.name: spec for spec in get_method(self.given["method"]).table.specs}
        if name not in specs:
            raise SpecvizError(f"no word or knob /{name}{suggestion(name, [*words, 'quit', *specs])}")
        if not value:
            raise SpecvizError(f"/{name} needs a value [{specs[name].range}]")
        before = self.given.get(name)
        self.given[name] = (value,) if specs[name].kind == "texts" else value
        try:
            self._request("?")
        except SpecvizError:
            self.given[name] = before
            raise
        self.console.print(f"{name} {value} from the next answer on", style="dim")

    def _why(self, number: str) -> None:
        """The sentences of one round of the last answer."""
        if self.last is None or not self.last.run.rounds:
            raise SpecvizError("nothing was answered yet: type a message first")
        rounds = self.last.run.rounds
        if number and not (number.isdecimal() and 1 <= int(number) <= len(rounds)):
            raise SpecvizError(f"no round '{number[:20]}': the last answer has rounds 1 to {len(rounds)}")
        drafted = [k for k, record in enumerate(rounds) if record.verdicts]
        most = max(drafted, key=lambda k: len(rounds[k].verdicts), default=len(rounds) - 1)
        lines = RoundLines(self.last.run, sys.stdout, verbose=True)
        lines.tell(rounds[int(number) - 1 if number else most])

    def _new(self, _rest: str) -> None:
        self.said, self.cache = [], None
        self.console.print("a new conversation", style="dim")

    def _help(self, _rest: str) -> None:
        for words, meaning in HELP:
            self.console.print(f"{words:<14}{meaning}", soft_wrap=True)
        header = self.last.run.header if self.last is not None else None
        if header is not None:
            self.console.print(setting(header), style="dim", soft_wrap=True)
