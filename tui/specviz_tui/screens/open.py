"""The list one begins with: models on this machine, what can be fetched, recordings. And the screen that fetches."""

import asyncio
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static

from specviz.local_models.found import LocalModel
from specviz.local_models.store import partial, size_of
from specviz.text import running
from specviz_tui.screens.dialogs import PickScreen
from specviz_tui.screens.library import Library

LOOK_S = 0.5  # between two looks at what has arrived


class OpenScreen(PickScreen):
    """Answers a choice of the library. Models are looked for in a thread; recordings are there at once."""

    def __init__(self, library: Library) -> None:
        super().__init__("Open", library.choices(None), "")
        self._library = library

    def on_mount(self) -> None:
        self._look()

    @work(thread=True)
    def _look(self) -> None:
        found = self._library.look()
        self.app.call_from_thread(self.show_found, found)

    def show_found(self, found: Sequence[LocalModel]) -> None:
        """The list with the models in it; a cursor that was moved stays where it is."""
        if not self.is_mounted:
            return
        box = self.query_one(OptionList)
        at = box.highlighted_option.id if box.highlighted_option is not None and self._moved(box) else None
        self._choices = self._library.choices(found)
        box.set_options(self.options())
        ids = [choice.id for choice in self._choices]
        box.highlighted = ids.index(at) if at in ids else self._first

    def _moved(self, box: OptionList) -> bool:
        """Whether the cursor left the line where it began."""
        return box.highlighted != self._first

    @property
    def _first(self) -> int | None:
        """The first line that can be chosen."""
        return next((k for k, choice in enumerate(self._choices) if not choice.heading), None)


class FetchScreen(ModalScreen[str | None]):
    """Runs the command that fetches a model; answers its name when it is here, None after esc.

    What arrived is kept: the same command goes on from there.
    """

    BINDINGS = [Binding("escape,q,ctrl+c", "cancel", "back", show=False, priority=True)]

    def __init__(self, name: str, command: Sequence[str]) -> None:
        super().__init__()
        self._model, self._command = name, command
        self._process: Process | None = None
        self._said = "starting"

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(f"specviz models get {self._model}", markup=False, classes="dialog-title")
            yield Static(self._said, id="said", markup=False, classes="dialog-hint")
            yield Static("esc stops it; what arrived is kept", markup=False, id="hint", classes="dialog-hint")

    def on_mount(self) -> None:
        self._fetch()
        self.set_interval(LOOK_S, self._show)

    @work
    async def _fetch(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
            )
        except OSError as error:
            self._refuse(f"cannot run it: {error.strerror or error}")
            return
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            words = line.decode("utf-8", "replace").strip()
            self._said = words or self._said
            self._show()
        if await self._process.wait() == 0:
            self.dismiss(self._model)
        else:
            self._refuse(self._said.removeprefix("specviz: "))

    def _show(self) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        with suppress(OSError):
            arrived = size_of(partial(self._model))
            words = f"{self._said} · {arrived / 1e6:.0f} MB so far" if arrived else self._said
            self.query_one("#said", Static).update(running(words))

    def _refuse(self, why: str) -> None:
        said = self.query_one("#said", Static)
        said.update(running(why))
        said.add_class("-refused")
        self.query_one("#hint", Static).update("esc back to the list; enter there tries again")

    def action_cancel(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        self.dismiss(None)
