"""Dialogs: one question on one line, a list to choose from, and what to decode next with settings as one types them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Select, Static, TextArea
from textual.widgets.option_list import Option

from specviz.commands import Start
from specviz.errors import SpecvizError, suggestion
from specviz.events import MethodInfo
from specviz.knobs import KnobSpec
from specviz.names import LANES
from specviz_tui.common.paint import FAINT


@dataclass(frozen=True, slots=True)
class Question:
    """`check` takes what was typed and raises SpecvizError with the reason it will not do."""

    title: str
    hint: str
    value: str = ""
    check: Callable[[str], object] | None = None


class AskScreen(ModalScreen[str | None]):
    """Answers the typed text, or None for esc."""

    BINDINGS = [Binding("escape", "cancel", "back", show=False)]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Title, input, hint; the hint's place also takes the reason of a refusal."""
        with Vertical(classes="dialog"):
            yield Label(self._question.title, markup=False, classes="dialog-title")
            yield Input(self._question.value, id="answer")
            yield Static(self._question.hint, markup=False, id="hint", classes="dialog-hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            if self._question.check is not None:
                self._question.check(event.value)
        except SpecvizError as error:
            hint = self.query_one("#hint", Static)
            hint.update(str(error))
            hint.add_class("-refused")
            return
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss(None)


@dataclass(frozen=True, slots=True)
class ListChoice:
    """A line of the list; `id` is the answer."""

    id: str
    title: str
    note: str = ""


class PickScreen(ModalScreen[str | None]):
    """Answers the id of the chosen line, or None."""

    BINDINGS = [
        Binding("escape,q", "cancel", "back", show=False),
        Binding("j", "move(1)", "down", show=False),
        Binding("k", "move(-1)", "up", show=False),
    ]

    def __init__(
        self, title: str, choices: list[ListChoice], hint: str, leave: str = "esc back", enters: str = "opens"
    ) -> None:
        super().__init__()
        self._title, self._choices, self._hint = title, choices, f"{hint}enter {enters} · {leave}"

    def compose(self) -> ComposeResult:
        widest = max((len(choice.title) for choice in self._choices), default=0)
        with Vertical(classes="dialog -list"):
            yield Label(self._title, markup=False, classes="dialog-title")
            options = [
                Option(Text(choice.title.ljust(widest + 2)).append(choice.note, style=FAINT), id=choice.id)
                for choice in self._choices
            ]
            yield OptionList(*options, markup=False)
            yield Static(self._hint, markup=False, classes="dialog-hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_move(self, step: int) -> None:
        box = self.query_one(OptionList)
        (box.action_cursor_down if step > 0 else box.action_cursor_up)()

    def action_cancel(self) -> None:
        self.dismiss(None)


DEFAULT = "default"
HINT = "ctrl+s starts · ctrl+t starts held, ] then runs a round at a time · tab next field · esc back"


class StartScreen(ModalScreen[Start | None]):
    """Proposes what is `wanted`; methods and verifiers come from the worker's catalogue."""

    BINDINGS = [
        Binding("ctrl+s,f5", "start(False)", "start", show=False, priority=True),
        Binding("ctrl+t,f6", "start(True)", "start, held", show=False, priority=True),
        Binding("escape", "cancel", "back", show=False, priority=True),
    ]

    def __init__(self, methods: list[MethodInfo], wanted: Start) -> None:
        super().__init__()
        self._methods = {method.name: method for method in sorted(methods, key=lambda m: m.missing is not None)}
        self._wanted = wanted

    def compose(self) -> ComposeResult:
        """The prompt, then the choices."""
        with Vertical(classes="dialog -wide"):
            yield Label("Decode a prompt", classes="dialog-title")
            yield TextArea(self._wanted.prompt, id="prompt", soft_wrap=True, tab_behavior="focus")
            with Horizontal(id="choices"):
                chosen = self._chosen()
                yield Select(
                    [
                        (Text(name) if method.missing is None else Text(f"{name} (not here)", style=FAINT), name)
                        for name, method in self._methods.items()
                    ],
                    value=chosen,
                    allow_blank=False,
                    id="method",
                )
                yield Select(self._verifiers(chosen), value=self._first(chosen), allow_blank=False, id="verifier")
                lanes = self._wanted.lanes if self._wanted.lanes in LANES else LANES[0]
                yield Select([(f"lanes {n}", n) for n in LANES], value=lanes, allow_blank=False, id="run-lanes")
            yield Input(
                settings(self._wanted.knobs, self._methods[chosen].knobs),
                placeholder="knobs, as in gamma=6 temperature=.8",
                id="knobs",
            )
            yield Static("", id="hint", markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        """The cursor behind the prompt."""
        self.query_one(TextArea).move_cursor(self.query_one(TextArea).document.end)
        self._say(self._help(str(self.query_one("#method", Select).value)))

    def _chosen(self) -> str:
        """The method that was wanted, where it can run; else the first that can."""
        wanted = self._methods.get(self._wanted.method)
        can = wanted is not None and wanted.lacks(self._wanted.knobs) is None
        return wanted.name if wanted is not None and can else next(iter(self._methods))

    def _help(self, method: str) -> str:
        info = self._methods[method]
        return f"{method}: {info.help}\n{HINT if info.missing is None else info.lacks({})}"

    def _say(self, text: str, refused: bool = False) -> None:
        hint = self.query_one("#hint", Static)
        hint.update(text)
        hint.set_class(refused, "-refused")

    def _verifiers(self, method: str) -> list[tuple[str, str]]:
        return [(f"{DEFAULT} verifier", DEFAULT), *((name, name) for name in self._methods[method].verifiers)]

    def _first(self, method: str) -> str:
        verifier = self._wanted.verifier
        return verifier if verifier in self._methods[method].verifiers else DEFAULT

    def on_select_changed(self, event: Select.Changed) -> None:
        """Another method brings its own verifiers."""
        if event.select.id == "method":
            method = str(event.value)
            box = self.query_one("#verifier", Select)
            box.set_options(self._verifiers(method))
            box.value = self._first(method)
            self._say(self._help(method))

    def on_input_submitted(self) -> None:
        """Enter in the last field starts."""
        self.action_start(False)

    def action_start(self, held: bool) -> None:
        """Answer, unless there is nothing to decode from or a knob will not do."""
        prompt = self.query_one(TextArea).text
        if not prompt:
            self._say("The prompt is empty; decoding needs at least one token to start from.", refused=True)
            return
        verifier = str(self.query_one("#verifier", Select).value)
        method = str(self.query_one("#method", Select).value)
        try:
            knobs = parse_settings(self.query_one("#knobs", Input).value, self._methods[method].knobs)
        except SpecvizError as error:
            self._say(str(error), refused=True)
            return
        if (why := self._methods[method].lacks(knobs)) is not None:  # nothing was sent: a run in hand goes on
            self._say(why, refused=True)
            return
        lanes = str(self.query_one("#run-lanes", Select).value)
        asked = None if verifier == DEFAULT else verifier
        start = msgspec.structs.replace(
            self._wanted, prompt=prompt, method=method, verifier=asked, knobs=knobs, paused=held, lanes=lanes
        )
        self.dismiss(start)

    def action_cancel(self) -> None:
        self.dismiss(None)


def parse_settings(text: str, specs: list[KnobSpec]) -> dict[str, Any]:
    """`gamma=6 temperature=.8` as checked values. Raises SpecvizError with the nearest name or the range."""
    by_name = {spec.name: spec for spec in specs}
    values: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not equals:
            raise SpecvizError(f"'{word}' is no setting; write name=value, as in gamma=6")
        if name not in by_name:
            raise SpecvizError(f"no knob '{name}'{suggestion(name, by_name)}")
        values[name] = by_name[name].check(value)
    return values


def settings(values: dict[str, Any], specs: list[KnobSpec]) -> str:
    """The values that differ from their defaults, as one types them."""
    plain = {spec.name: spec.default for spec in specs if spec.kind != "texts"}
    words = {True: "on", False: "off"}
    chosen = [(n, v) for n, v in values.items() if n in plain and v != plain[n]]
    return " ".join(f"{name}={words[v] if isinstance(v, bool) else v}" for name, v in chosen)
