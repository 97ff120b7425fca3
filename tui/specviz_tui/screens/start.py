"""What to decode next, with which models, which method and which settings: one dialog.

Another model is loaded into a core of its own while the dialog is open: only that core knows which methods work with
it. The core in hand stays until something is started on the new one, so that a model that cannot be loaded, or a
person who thinks better of it, loses nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Select, Static, TextArea

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.events import Catalogue
from specviz.knobs import KnobSpec
from specviz.local_models.choices import ModelChoice, choice_of, draft_choices, target_choices
from specviz.local_models.found import LocalModel
from specviz.names import LANES
from specviz.sources.model_names import ModelNames
from specviz.sources.talking_run import proposed
from specviz.text import running
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.paint import FAINT
from specviz_tui.screens.dialogs import AskScreen, Question
from specviz_tui.screens.settings import carried, parse_settings, settings

DEFAULT = "default"
OTHER = "\0other"  # stands for a model that is typed: no folder has such a name
HINT = "ctrl+s starts · ctrl+t starts held, ] then runs a round at a time · tab next field · esc back"
TYPED = "a folder that save_pretrained wrote, a .gguf file, or a hub id"
LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Bench:
    """What the dialog may start from: the models in hand, how others are looked for, and how a core of them begins."""

    names: ModelNames
    look: Callable[[], list[LocalModel]]
    begin: Callable[[ModelNames], RunFeed]


@dataclass(frozen=True, slots=True)
class Begin:
    """What was chosen. `core`: of other models, loaded; None: the core in hand."""

    start: Start
    core: RunFeed | None = None


class StartScreen(ModalScreen[Begin | None]):
    """Proposes what is `wanted`; methods and verifiers come from the catalogue of the models that are chosen."""

    BINDINGS = [
        Binding("ctrl+s,f5", "start(False)", "start", show=False, priority=True),
        Binding("ctrl+t,f6", "start(True)", "start, held", show=False, priority=True),
        Binding("escape", "cancel", "back", show=False, priority=True),
    ]

    def __init__(self, catalogue: Catalogue, wanted: Start, bench: Bench) -> None:
        super().__init__()
        self._wanted, self._bench = wanted, bench
        self._in_hand = self._names = bench.names.said_plainly
        self._found: list[LocalModel] = []
        self._typed: list[str] = []  # models that are in no list
        self._core: RunFeed | None = None  # of other models than those in hand
        self._due: bool | None = None  # to be started, held or not, when the models are there
        self._problem = ""  # why the models that are chosen cannot be used
        self._own = catalogue  # of the models in hand
        self._specs: list[KnobSpec] = []  # of the method that the line of knobs was written for
        self._take(catalogue)

    def _take(self, catalogue: Catalogue) -> None:
        """The methods of a core, those that cannot run last."""
        self._catalogue = catalogue
        self._methods = {m.name: m for m in sorted(catalogue.methods, key=lambda m: m.missing is not None)}

    def compose(self) -> ComposeResult:
        """The prompt, the models, how they decode."""
        with Vertical(classes="dialog -wide"):
            yield Label(self._heading, classes="dialog-title", id="title")
            yield TextArea(
                self._wanted.prompt, id="prompt", soft_wrap=True, tab_behavior="focus", placeholder=self._room
            )
            with Horizontal(classes="choices"):
                yield Select(self._targets(), value=self._names.target, allow_blank=False, id="target")
                yield Select(self._drafts(), value=self._names.draft, allow_blank=False, id="draft")
            with Horizontal(classes="choices"):
                chosen = self._chosen()
                yield Select(self._method_options(), value=chosen, allow_blank=False, id="method")
                yield Select(self._verifiers(chosen), value=self._first(chosen), allow_blank=False, id="verifier")
                lanes = self._wanted.lanes if self._wanted.lanes in LANES else LANES[0]
                yield Select([(f"lanes {n}", n) for n in LANES], value=lanes, allow_blank=False, id="run-lanes")
            method = self._methods.get(self._wanted.method, self._methods[chosen])
            self._specs = method.knobs
            yield Input(
                settings(self._wanted.knobs, method.knobs),
                placeholder="knobs, as in temperature=.8 max_new_tokens=64",
                id="knobs",
            )
            yield Static("", id="hint", markup=False, classes="dialog-hint")

    def on_mount(self) -> None:
        """The cursor behind the prompt; models are looked for meanwhile."""
        self.query_one(TextArea).move_cursor(self.query_one(TextArea).document.end)
        self._say(self._help(self._value("method"), self._fit_knobs(self._value("method"))))
        self._look()
        self.set_interval(LOOK_S, self._look_at_core)

    @property
    def _heading(self) -> str:
        return "Say something" if self._speaks else "Decode a prompt"

    @property
    def _room(self) -> str:
        """What an empty prompt means."""
        return "A message; left empty, only model, method and settings are taken over." if self._speaks else ""

    @property
    def _speaks(self) -> bool:
        """Whether the prompt is a message of a conversation: then it may be said below the screen as well."""
        return self._catalogue.talks and self._wanted.chat is not False

    def _value(self, id: str) -> str:
        return str(self.query_one(f"#{id}", Select).value)

    def _say(self, text: str, refused: bool = False) -> None:
        hint = self.query_one("#hint", Static)
        hint.update(text)
        hint.set_class(refused, "-refused")

    # Models ----------------------------------------------------------------------------------------------------------

    @work(thread=True)
    def _look(self) -> None:
        models = self._bench.look()
        self.app.call_from_thread(self._show_found, models)

    def _show_found(self, models: list[LocalModel]) -> None:
        if self.is_mounted:
            self._found = models
            self._put("target", self._targets(), self._names.target)
            self._put("draft", self._drafts(), self._names.draft)

    def _put(self, id: str, options: list[tuple[Text, str]], value: str) -> None:
        """Other options, which nobody chose: no event comes of it."""
        box = self.query_one(f"#{id}", Select)
        with self.prevent(Select.Changed):
            box.set_options(options)
            box.value = value

    def _targets(self) -> list[tuple[Text, str]]:
        known = [choice for choice in target_choices(self._found) if choice.able or not choice.command]
        return self._listed("target", known, self._names.target)

    def _drafts(self) -> list[tuple[Text, str]]:
        return self._listed("draft model", draft_choices(self._names.target, self._found), self._names.draft)

    def _listed(self, word: str, known: Sequence[ModelChoice], now: str) -> list[tuple[Text, str]]:
        """Known models, then typed ones, then the line that asks for another; the one in hand is always among them."""
        named = {choice.name for choice in known}
        more = dict.fromkeys(name for name in (now, *self._typed) if name not in named)
        choices = [*known, *(choice_of(name, known) for name in more)]
        lines = [
            (Text(running(f"{word}: {choice.label}"), style="" if choice.able else FAINT), choice.name)
            for choice in choices
        ]
        return [*lines, (Text(f"{word}: another …"), OTHER)]

    @on(Select.Changed, "#target")
    def _target_chosen(self, event: Select.Changed) -> None:
        name = str(event.value)
        if name == OTHER:
            self._ask("target", self._names.target)
        elif name != self._names.target:
            self._choose(ModelNames.proposed(name, self._found))

    @on(Select.Changed, "#draft")
    def _draft_chosen(self, event: Select.Changed) -> None:
        name = str(event.value)
        if name == OTHER:
            self._ask("draft", self._names.draft)
        elif name != self._names.draft:
            self._choose(ModelNames(self._names.target, name))

    def _ask(self, id: str, before: str) -> None:
        """A model that is in no list; without an answer the one before stays."""
        word = {"target": "Another target", "draft": "Another draft model"}[id]

        def answered(typed: str | None) -> None:
            name = (typed or "").strip()
            if not name:
                self._put(id, self._targets() if id == "target" else self._drafts(), before)
                return
            self._typed.append(name)
            target = ModelNames.proposed(name, self._found)
            self._choose(target if id == "target" else ModelNames(self._names.target, name))

        self.app.push_screen(AskScreen(Question(word, TYPED)), answered)

    def _choose(self, names: ModelNames) -> None:
        """Load other models, unless they are those in hand; the methods follow when they are there."""
        self._drop_core()
        self._names, self._due = names, None
        self._put("target", self._targets(), names.target)
        self._put("draft", self._drafts(), names.draft)
        broken = next((c for c in target_choices(self._found) if c.name == names.target and not c.able), None)
        self._problem = f"{broken.label} {broken.problem}" if broken is not None else ""
        if names == self._in_hand:
            self._problem = ""
            self._take(self._own)
            self._renew()
        elif not self._problem:
            try:
                self._core = self._bench.begin(names)
            except SpecvizError as error:
                self._problem = str(error)
        if self._problem:
            self._say(running(self._problem), refused=True)

    def _look_at_core(self) -> None:
        """What has become of the core that was begun."""
        core = self._core
        if core is None or self._problem or core.catalogue is self._catalogue:
            return
        core.tick(time.monotonic())
        if core.failed is not None:
            why = " ".join(core.failed.split())
            self._problem = f"{self._names.text} cannot be loaded: {why}; the models before are still loaded"
            self._say(running(self._problem), refused=True)
        elif core.catalogue is not None:
            self._arrived(core.catalogue)
        else:
            seconds = core.now - (core.opened_at or 0)
            then = HINT if self._due is None else "it starts as soon as they are there · esc back"
            self._say(f"loading {running(self._names.text)}, {seconds:.0f} s …\n{then}")

    def _arrived(self, catalogue: Catalogue) -> None:
        """The models are there: begin where that was asked for, with the method that was asked for."""
        method, due, self._due = self._value("method"), self._due, None
        self._take(catalogue)
        self._renew()
        if due is not None and self._value("method") == method:
            self.action_start(due)

    def _renew(self) -> None:
        """The methods of other models: the one on screen stays where it can run."""
        self._wanted.method = self._value("method")
        chosen = self._chosen()
        self._put("method", self._method_options(), chosen)
        self._put("verifier", self._verifiers(chosen), self._first(chosen))
        self.query_one("#title", Label).update(self._heading)
        self.query_one(TextArea).placeholder = self._room
        self._say(self._help(chosen, self._fit_knobs(chosen)))

    def _drop_core(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            self.app.run_worker(lambda: core.close(), thread=True)  # a core needs its time to leave

    # Methods ---------------------------------------------------------------------------------------------------------

    def _method_options(self) -> list[tuple[Text, str]]:
        """Each with what it does, in a list wider than its box."""
        absent = {name: "" if method.missing is None else " (not here)" for name, method in self._methods.items()}
        names = {name: Text(f"{name}{why}", style=FAINT if why else "") for name, why in absent.items()}
        return [(text.append(running(f": {self._methods[name].help}"), FAINT), name) for name, text in names.items()]

    def _chosen(self) -> str:
        """The method that was wanted, where it can run; else one that can."""
        wanted = self._methods.get(self._wanted.method)
        if wanted is not None and wanted.lacks(self._wanted.knobs) is None:
            return wanted.name
        return proposed(self._catalogue, self._wanted.method)

    def _help(self, method: str, left_out: str = "") -> str:
        info = self._methods[method]
        return f"{method}: {info.help}\n{left_out}{HINT if info.missing is None else info.lacks({})}"

    def _fit_knobs(self, method: str) -> str:
        """Take out of the line of knobs what this method does not take. Returns what is said of it."""
        line, specs = self.query_one("#knobs", Input), self._methods[method].knobs
        line.value, gone = carried(line.value, self._specs, specs)
        self._specs = specs
        return f"left out, as {method} does not take it: {' '.join(gone)}\n" if gone else ""

    def _verifiers(self, method: str) -> list[tuple[Text, str]]:
        own = [(Text(name), name) for name in self._methods[method].verifiers]
        return [(Text(f"{DEFAULT} verifier"), DEFAULT), *own]

    def _first(self, method: str) -> str:
        verifier = self._wanted.verifier
        return verifier if verifier in self._methods[method].verifiers else DEFAULT

    @on(Select.Changed, "#method")
    def _method_chosen(self, event: Select.Changed) -> None:
        """Another method brings its own verifiers."""
        method = str(event.value)
        self._put("verifier", self._verifiers(method), self._first(method))
        self._say(self._help(method, self._fit_knobs(method)))

    # Leaving ---------------------------------------------------------------------------------------------------------

    def on_input_submitted(self) -> None:
        """Enter in the last field starts."""
        self.action_start(False)

    def action_start(self, held: bool) -> None:
        """Answer, unless there is nothing to decode from, or a knob will not do; when the models are there."""
        if self._core is not None and self._core.catalogue is None and not self._problem:
            self._due = held
            return
        try:
            self.dismiss(self._begin(held))
        except SpecvizError as error:  # nothing was sent: a run in hand goes on
            self._say(str(error), refused=True)

    def _begin(self, held: bool) -> Begin:
        prompt, method = self.query_one(TextArea).text, self._value("method")
        if not prompt and not self._speaks:
            raise SpecvizError("The prompt is empty; decoding needs at least one token to start from.")
        if self._problem:
            raise SpecvizError(f"{running(self._problem)}; choose another one")
        knobs = parse_settings(self.query_one("#knobs", Input).value, self._methods[method].knobs)
        if (why := self._methods[method].lacks(knobs)) is not None:
            raise SpecvizError(why)
        verifier = self._value("verifier")
        start = msgspec.structs.replace(
            self._wanted,
            prompt=prompt,
            method=method,
            verifier=None if verifier == DEFAULT else verifier,
            knobs=knobs,
            paused=held,
            lanes=self._value("run-lanes"),
        )
        return Begin(start, self._core)

    def action_cancel(self) -> None:
        self._drop_core()
        self.dismiss(None)
