"""Keys that reach the core: knobs, hold, another prompt, stop, recording."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from specviz.commands import Start
from specviz.errors import SpecvizError
from specviz.knobs import KnobSpec
from specviz.trace.private import IDS_ALONE
from specviz.view.frame.parts import KnobItem
from specviz.view.words.numbers import knob as shown_knob
from specviz_tui.common.feed import RunFeed
from specviz_tui.common.frame_widget import Ready
from specviz_tui.common.presets import Presets, keep_preset, kept_presets
from specviz_tui.screens.dialogs import AskScreen, ListChoice, PickScreen, Question
from specviz_tui.screens.library import Library
from specviz_tui.screens.run_screen import RunScreen
from specviz_tui.screens.start import Begin, Bench, StartScreen
from specviz_tui.widgets import knob_bar
from specviz_tui.widgets.knob_bar import KnobPanel

KEEP_SET = "\0keep"

Screen = TypeVar("Screen", bound="LiveActions")


def asks_core(do: Callable[[Screen], None]) -> Callable[[Screen], None]:
    """For an action that needs a core: where there is none, or it refuses, that is said."""

    @wraps(do)
    def action(screen: Screen) -> None:
        screen.ask_core(lambda: do(screen))

    return action


class LiveActions(RunScreen):
    """What is asked of the core."""

    greeted = False  # a first prompt was asked for

    def __init__(self, feed: RunFeed, library: Library) -> None:
        super().__init__(feed)
        self.library = library

    def live_tick(self) -> None:
        """When the core is ready and no prompt was given, ask for one, once."""
        if self.greeted or self.feed.catalogue is None:
            return
        self.greeted = True
        self.post_message(Ready())
        if self.feed.last_start is None and not self.feed.talk.waiting:
            self.ask_first()

    def ask_first(self) -> None:
        """Ask what to decode first."""
        self.action_start()

    # Runs ------------------------------------------------------------------------------------------------------------

    @asks_core
    def action_hold(self) -> None:
        """Hold the core, or let it go on."""
        if not self.feed.running:
            raise SpecvizError("nothing is running; p starts a prompt")
        held = self.feed.toggle_hold()
        self.notify("the core holds before its next round; ] runs one, H goes on" if held else "the core goes on")
        self.feed.to_live()

    @asks_core
    def action_pace(self) -> None:
        """A round at a time, each seen to its end, or full speed."""
        paced = self.feed.switch_pace()
        self.notify("the core waits until each round was seen" if paced else "full speed: rounds may be passed over")

    @asks_core
    def action_stop(self) -> None:
        """End the run; the models stay."""
        if not self.feed.running:
            raise SpecvizError("nothing is running")
        self.feed.stop()

    @asks_core
    def action_start(self) -> None:
        """Ask what to decode, with which models and which method."""
        if self.feed.catalogue is None:
            raise SpecvizError("the models are still loading")
        bench = Bench(self.feed.names, self.library.look, self.library.model)
        self.app.push_screen(StartScreen(self.feed.catalogue, self.wanted(), bench), self._start)

    def wanted(self) -> Start:
        """What ran last, with the knobs that were given, moved and chosen for the next run."""
        last = self.feed.last_start
        like = last or self.feed.template or Start()
        knobs = {**like.knobs, **self.feed.standing, **self.feed.edits.sent, **self.feed.edits.staged}
        return Start(
            prompt="" if self.feed.talks and self.feed.talk else like.prompt,
            method=like.method,
            verifier=like.verifier,
            knobs=knobs,
            chat=self.feed.asked_chat,
            lanes=like.lanes,
        )

    def _start(self, begin: Begin | None) -> None:
        if begin is not None:
            self.ask_core(lambda: self.begin(begin))

    def begin(self, begin: Begin) -> None:
        """Decode what was chosen in the dialog."""
        self.adopt(begin.core)
        self.feed.start(begin.start)

    def adopt(self, core: RunFeed | None) -> None:
        """Go on with a core that was loaded meanwhile; the one before leaves."""
        if core is not None:
            before, self.feed.names = self.feed.go_on_with(core), core.names
            self.run_worker(lambda: before.close(), thread=True)  # it needs its time

    # Knobs -----------------------------------------------------------------------------------------------------------

    def action_knobs(self) -> None:
        """To the knobs, to one that can be moved."""
        panel = self.query_one(KnobPanel)
        panel.to_enabled()
        panel.focus()

    def _knob(self, name: str) -> KnobItem | None:
        """A knob of the frame on screen, wherever the cursor has gone since it was asked for."""
        bar = self.query_one(KnobPanel).bar
        return next((item for item in bar.items if item.name == name), None) if bar is not None else None

    def step_knob(self, name: str, step: int) -> None:
        """One step up or down. Presses come quicker than frames, so each begins where the last one ended: at the
        desk, not at what is painted."""
        item = self._knob(name)
        if item is not None:
            self.stage(name, knob_bar.stepped(item, self.feed.edits.wanted(name, item.value), step))

    def stage(self, name: str, value: Any) -> None:
        """Choose a value, or say why not."""
        item = self._knob(name)
        if item is None:
            return
        if item.disabled:
            self.app.bell()  # the reason stands in the line below the knobs
            return
        try:
            self.feed.edits.stage(self._spec(name), value, self.feed.run.knobs.get(name, item.value))
        except SpecvizError as error:
            self.notify(str(error), severity="warning", markup=False)
        self.paint_soon()

    def _spec(self, name: str) -> KnobSpec:
        header = self.feed.player.run.header
        return next(spec for spec in (header.knob_specs if header else []) if spec.name == name)

    def type_knob(self, name: str) -> None:
        """Ask for a value."""
        item = self._knob(name)
        if item is None or item.disabled:
            self.stage(name, None)
            return
        spec = self._spec(name)
        question = Question(f"{name} = ", f"{spec.help} · {spec.range}", item.staged_text or item.text, spec.check)
        self.app.push_screen(AskScreen(question), lambda typed: self.stage(name, typed) if typed is not None else None)

    def knob_command(self, what: str, name: str | None) -> None:
        """Apply, undo, reset."""
        if what == "apply":
            self.apply_knobs()
        elif what == "undo":
            if not self.feed.edits.undo():
                self.notify("nothing to undo", markup=False)
        elif what == "sets":
            self.choose_set()
        elif name is not None:
            self.stage(name, self._spec(name).default)
        self.paint_soon()

    # Sets of values

    def choose_set(self) -> None:
        """Stage a whole set, or keep the values as they are under a name."""
        sets = {name: self._changes(values) for name, values in self._named_sets().items()}
        choices = [ListChoice(name, name, changed or "as it is now") for name, changed in sets.items()]
        choices.append(ListChoice(KEEP_SET, "keep these values …", "under a name, for this method"))
        self.app.push_screen(PickScreen("Sets of knob values", choices, "", "esc back", "stages it"), self._chose_set)

    def _named_sets(self) -> Presets:
        header = self.feed.player.run.header
        if header is None:
            return {}
        defaults = {spec.name: spec.default for spec in header.knob_specs}
        began = {name: value for name, value in header.knobs.items() if name in defaults}
        return {"defaults": defaults, "as the run began": began, **kept_presets(header.method)}

    def _changes(self, values: dict[str, Any]) -> str:
        bar = self.query_one(KnobPanel).bar
        items = [item for item in bar.items if item.disabled is None] if bar is not None else []
        told = [f"{i.label} {i.text}→{shown_knob(values[i.name])}" for i in items if i.name in values]
        same = [values[item.name] == item.value for item in items if item.name in values]
        return "  ".join(text for text, alike in zip(told, same, strict=True) if not alike)

    def _chose_set(self, name: str | None) -> None:
        if name == KEEP_SET:
            self.app.push_screen(AskScreen(Question("Keep these values as", "a name; enter keeps it")), self._keep_set)
            return
        bar = self.query_one(KnobPanel).bar
        values = self._named_sets().get(name or "", {})
        for item in bar.items if bar is not None else ():
            if item.disabled is None and item.name in values:
                self.stage(item.name, values[item.name])

    def _keep_set(self, name: str | None) -> None:
        header, bar = self.feed.player.run.header, self.query_one(KnobPanel).bar
        if not name or not name.strip() or header is None or bar is None:
            return
        values = {item.name: self.feed.edits.wanted(item.name, item.value) for item in bar.items}
        try:
            keep_preset(header.method, name.strip(), values)
        except SpecvizError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self.notify(f"kept for {header.method}: {name.strip()}; s brings it back", markup=False)

    @asks_core
    def apply_knobs(self) -> None:
        """Send what is staged; with no run going on it waits for the next one."""
        if not self.feed.edits.staged:
            raise SpecvizError("nothing is staged: arrows change a knob, a applies it")
        running = self.feed.running
        self.feed.set_knobs(self.feed.edits.take())
        if not running:
            begins = "m writes it" if self.feed.speaks else "p begins it"
            self.notify(f"kept for the next {'message' if self.feed.speaks else 'run'}: {begins}", markup=False)

    # Recording -------------------------------------------------------------------------------------------------------

    @asks_core
    def action_record(self) -> None:
        """On or off."""
        path = self.feed.record(Path.cwd())
        what = IDS_ALONE if self.feed.redact else "prompt, text and settings, for your eyes alone"
        said = f"recording from the first round on: {path} ({what})"
        self.notify(said if path else "recording ended", markup=False)
