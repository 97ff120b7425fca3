"""The list one begins with: models on this machine, what can be fetched, recordings, lessons; a recording plays behind
it, the one under the cursor where it is small. And the screen that fetches."""

import asyncio
import itertools
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from specviz.local_models.found import LocalModel
from specviz.local_models.store import partial, size_of
from specviz.sources.lesson_progress import first_unlearnt
from specviz.sources.lessons import bundled_lessons
from specviz.sources.trace_summary import TraceSummary
from specviz.text import running
from specviz_tui.common.paint import CURSOR, FAINT, STRONG
from specviz_tui.screens.dialogs import ListChoice, PickScreen
from specviz_tui.screens.library import BETWEEN, DECODE, HAVE, LEARN, LESSON, MODEL, SAY, WATCH, Library

LOOK_S = 0.5  # between two looks at what has arrived
PREVIEW_S = 0.4  # a cursor that stays so long on a recording has it played
PREVIEW_BYTES = 1_500_000  # of a file; longer ones are opened when that is asked for
DOORS = ((DECODE, "d", "Decode"), (WATCH, "w", "Watch"), (HAVE, "b", "Bring"), (LEARN, "l", "Learn"))
SAY_HINT = "m: say something to {model}; enter decodes it"
NOBODY = "no model here can be talked to"


class OpenScreen(PickScreen):
    """Answers a choice of the library. Models are looked for in a thread; recordings are there at once."""

    @dataclass
    class Previewed(Message):
        """The cursor rests on this recording."""

        path: Path

    BINDINGS = [
        Binding("d", f"door('{DECODE}')", "models", show=False),
        Binding("w", f"door('{WATCH}')", "recordings", show=False),
        Binding("b", f"door('{HAVE}')", "a log or a server", show=False),
        Binding("l", f"door('{LEARN}')", "lessons", show=False),
        Binding("m,tab", "say", "say something", show=False),
    ]

    def __init__(self, library: Library, door: str = DECODE) -> None:
        super().__init__("specviz: see speculative decoding", library.choices(None), "")
        self._library, self._door = library, door
        self._summaries: dict[str, TraceSummary] = {}
        self._resting: Timer | None = None

    def compose(self) -> ComposeResult:
        """Four doors, the list behind them, a line that follows the cursor, one to say something."""
        with Vertical(classes="dialog -list -doors") as box:
            box.border_title = Text(self._title).markup
            box.border_subtitle = "enter opens · esc closes the list"
            yield Static("", id="doors")
            yield OptionList(*self.options(), markup=False)
            yield Static("", markup=False, id="hint", classes="dialog-hint")
            yield Input(id="say", compact=True, placeholder=NOBODY)

    def on_mount(self) -> None:
        self._look()
        self._to_door()

    @work(thread=True)
    def _look(self) -> None:
        """What recordings show first, which takes a moment; then the models."""
        summaries = self._library.summaries()
        self.app.call_from_thread(self._show_summaries, summaries)
        models = self._library.look()
        self.app.call_from_thread(self.show_found, models)

    def _show_summaries(self, summaries: dict[str, TraceSummary]) -> None:
        if self.is_mounted:
            self._summaries = summaries
            self._renew(self._library.choices(None, summaries))

    def show_found(self, models: Sequence[LocalModel]) -> None:
        """The list with the models in it; a cursor that was moved stays where it is."""
        if self.is_mounted:
            self._renew(self._library.choices(models, self._summaries))

    def _renew(self, choices: list[ListChoice]) -> None:
        box = self.query_one(OptionList)
        at = box.highlighted_option.id if box.highlighted_option is not None and self._moved(box) else None
        self._choices = choices
        box.set_options(self.options())
        ids = [choice.id for choice in self._choices]
        box.highlighted = ids.index(at) if at in ids else self._first
        self._follow()

    def _moved(self, box: OptionList) -> bool:
        """Whether the cursor left the line where it began."""
        return box.highlighted != self._first

    @property
    def _first(self) -> int | None:
        """The first line that can be chosen, behind the door one came for."""
        return self._behind(self._door) if self._door != DECODE else self._behind(None)

    def _behind(self, door: str | None) -> int | None:
        ids = [choice.id for choice in self._choices]
        if door == LEARN and (lesson := LESSON + first_unlearnt(bundled_lessons())) in ids:
            return ids.index(lesson)
        headings = [k for k, choice in enumerate(self._choices) if choice.heading and choice.id == door]
        start = headings[0] if headings else 0
        return next((k for k, choice in enumerate(self._choices) if k >= start and not choice.heading), None)

    # The line that follows the cursor -------------------------------------------------------------------------------

    @property
    def _under_cursor(self) -> ListChoice | None:
        at = self.query_one(OptionList).highlighted
        return self._choices[at] if at is not None and at < len(self._choices) else None

    def on_option_list_option_highlighted(self) -> None:
        """Say what it is; have a recording played when the cursor rests."""
        self._follow()
        if self._resting is not None:
            self._resting.stop()
        self._resting = self.set_timer(PREVIEW_S, self._rested)

    def _rested(self) -> None:
        choice = self._under_cursor
        if choice is None or choice.id not in self._summaries:
            return
        path = Path(choice.id)
        with suppress(OSError):
            if path.stat().st_size <= PREVIEW_BYTES:
                self.post_message(self.Previewed(path))

    def _follow(self) -> None:
        """Doors, hint and the line to type in, for what is under the cursor."""
        choice, hint = self._under_cursor, self.query_one("#hint", Static)
        hint.remove_class("-refused")
        hint.update(running(self._library.words(choice, self._summaries)) if choice is not None else "")
        self._paint_doors()
        model = self._listener
        placeholder = NOBODY if model is None else SAY_HINT.format(model=model.title)
        self.query_one("#say", Input).placeholder = placeholder

    def _paint_doors(self) -> None:
        line, here = Text(no_wrap=True), self._here
        for id, key, name in DOORS:
            n = self._n_behind(id)
            line.append(f" {key} ", style=STRONG)
            line.append(f" {name} {n} " if n else f" {name} ", style=STRONG + CURSOR if id == here else FAINT).append(
                "   "
            )
        self.query_one("#doors", Static).update(line)

    @property
    def _here(self) -> str:
        """The door behind which the cursor stands."""
        at = self.query_one(OptionList).highlighted
        before = [choice.id for choice in self._choices[: (at or 0) + 1] if choice.heading and choice.id]
        return before[-1] if before else DECODE

    def _n_behind(self, door: str) -> int:
        n, inside = 0, False
        for choice in self._choices:
            inside = choice.id == door if choice.heading and choice.id else inside
            n += inside and not choice.heading
        return n

    # What is pressed ------------------------------------------------------------------------------------------------

    def action_door(self, door: str) -> None:
        """To the first line behind a door."""
        self._door = door
        self._to_door()

    def _to_door(self) -> None:
        box = self.query_one(OptionList)
        box.focus()
        at = self._behind(self._door)
        if at is not None:
            box.highlighted = at
            self.call_after_refresh(self._show_heading)
        self._follow()

    def _show_heading(self) -> None:
        """The door's own line on top, as far as the list goes."""
        box = self.query_one(OptionList)
        box.scroll_to_highlight(top=True)
        box.scroll_relative(y=-1, animate=False)

    def options(self) -> list[Option]:
        """As in any list, the notes of each door in a column of their own."""
        widest, options, cells = 0, [], max(40, self.app.size.width - 8)
        for k, choice in enumerate(self._choices):
            if choice.heading:
                rest = itertools.takewhile(lambda other: not (other.heading and other.id), self._choices[k + 1 :])
                widest = max((len(other.title) for other in rest if not other.heading), default=0)
            options.append(choice.option(widest, "  ", cells=cells))
        return options

    def on_resize(self) -> None:
        """Lines are cut where the list ends."""
        if self._choices and self.query(OptionList):
            self._renew(self._choices)

    @property
    def _listener(self) -> ListChoice | None:
        """Who a message goes to: the model under the cursor, else the first that can be started."""
        models = [choice for choice in self._choices if choice.able and choice.id.startswith(MODEL)]
        choice = self._under_cursor
        return choice if choice is not None and choice in models else next(iter(models), None)

    def action_say(self) -> None:
        """To the line in which one says something, and back."""
        line = self.query_one("#say", Input)
        (self.query_one(OptionList) if line.has_focus else line).focus()

    @on(Input.Submitted, "#say")
    def _said(self, event: Input.Submitted) -> None:
        """Decode it."""
        model = self._listener
        if model is not None and event.value.strip():
            self.dismiss(SAY + model.id.removeprefix(MODEL) + BETWEEN + event.value)

    def action_cancel(self) -> None:
        if self.query_one("#say", Input).has_focus:
            self.query_one(OptionList).focus()
        else:
            super().action_cancel()


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
        line = self.query_one("#said", Static)
        line.update(running(why))
        line.add_class("-refused")
        self.query_one("#hint", Static).update("esc back to the list; enter there tries again")

    def action_cancel(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)
        self.dismiss(None)
