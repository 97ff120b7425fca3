"""The door for what somebody has of another engine: a text that is pasted, a file or an address that is named."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, Static, TextArea

from specviz.errors import SpecvizError
from specviz.sources.scratch import scratch
from specviz.text import byte_size, running
from specviz.trace.files import PLAIN
from specviz_tui.screens.dialogs import ListChoice

if TYPE_CHECKING:
    from specviz.engines.watch import ServerWatcher

BRING = "bring:"  # begins the ids of choices of this door: a file's path, or nothing for the dialog
_LOGS = ("*.log", "*.out", "*.txt", "*.json", "*.jsonl")
_MOST_FILES, _LARGE = 12, 1_000_000  # files; bytes of one from which on its size is told
HINT = "ctrl+s reads it · esc back"
_ROOM = (
    "Paste a log, a printed table, an answer as JSON or a whole issue's text; or name a file, or the address of a "
    "server to watch, as localhost:8000.\n\nINFO SpecDecoding metrics: Mean acceptance length: 2.31, .."
)

Brought: TypeAlias = "Path | ServerWatcher"  # a trace that was made, or a server that was looked at once


def choices() -> Iterator[ListChoice]:
    """The dialog, then what lies in the working folder and may be a log."""
    about = "a log, a printed table, an answer, an issue's text of vLLM, SGLang or llama.cpp; or a server's address"
    yield ListChoice(BRING, "paste or name it", about)
    files = [path for pattern in _LOGS for path in sorted(Path.cwd().glob(pattern)) if path.is_file()]
    for path in files[:_MOST_FILES]:
        size = path.stat().st_size
        words = f"{byte_size(size)}, " if size >= _LARGE else ""
        yield ListChoice(BRING + str(path), path.name, f"{words}in this folder")


def read(text: str) -> "Brought":
    """A file, an address, or the text itself. Raises SpecvizError with what would do."""
    from specviz.engines.texts.door import import_bytes, import_source, is_address, name_of
    from specviz.engines.watch import ServerWatcher

    line = text.strip()
    if "\n" not in line and (is_address(line) or _is_server(line)):
        watcher = ServerWatcher(line)
        watcher.look()
        return watcher
    folder = Path(tempfile.mkdtemp(dir=scratch()))
    if "\n" not in line and _is_file(line):
        return import_source(line, folder / (name_of(line) + PLAIN), None)[0].path
    return import_bytes("what was pasted", text.encode(), folder)[0].path


def _is_server(line: str) -> bool:
    """`host:port`, with or without a path behind it."""
    host, colon, rest = line.partition(":")
    return bool(host and colon) and " " not in line and rest.partition("/")[0].isdigit()


def _is_file(line: str) -> bool:
    try:
        return bool(line) and Path(line).expanduser().is_file()
    except (OSError, ValueError):  # a text that is too long for a name
        return False


class BringScreen(ModalScreen["Brought | None"]):
    """Answers what was read; a text of which nothing can be read stays, with the reason below it.

    `text`: what to read at once, a file's path.
    """

    BINDINGS = [
        Binding("ctrl+s,f5", "read", "read", show=False, priority=True),
        Binding("escape", "cancel", "back", show=False, priority=True),
    ]

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield Label("What you have", classes="dialog-title")
            yield TextArea(self._text, id="prompt", tab_behavior="focus", placeholder=_ROOM)
            yield Static(HINT, id="hint", markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        if self._text:
            self.action_read()

    def action_read(self) -> None:
        text = self.query_one(TextArea).text
        if text.strip():
            self._say("reading …")
            self._read(text)

    @work(thread=True, exclusive=True)
    def _read(self, text: str) -> None:
        try:
            brought = read(text)
        except SpecvizError as error:
            self.app.call_from_thread(self._say, f"{running(str(error))}\n{HINT}", True)
        else:
            self.app.call_from_thread(self._answer, brought)

    def _answer(self, brought: Brought) -> None:
        if self.is_current:  # else somebody has thought better of it
            self.dismiss(brought)

    def _say(self, words: str, refused: bool = False) -> None:
        if not self.is_mounted:
            return
        hint = self.query_one("#hint", Static)
        hint.update(words)
        hint.set_class(refused, "-refused")

    def action_cancel(self) -> None:
        self.dismiss(None)
