"""Knobs: staged one by one or as a set of values, sent together."""

from typing import Any

from specviz.errors import SpecvizError
from specviz.knobs import KnobSpec
from specviz.view.frame.parts import KnobItem
from specviz.view.words.numbers import knob as shown_knob
from specviz_tui.common.actions import Actions, asks_core
from specviz_tui.common.frame_widget import KnobCommand, KnobStepped, KnobTyping, ScreenMessage
from specviz_tui.common.keymap import Key
from specviz_tui.common.presets import Presets, keep_preset, kept_presets
from specviz_tui.screens.dialogs import AskScreen, ListChoice, PickScreen, Question
from specviz_tui.widgets import knob_bar
from specviz_tui.widgets.knob_bar import KnobPanel

KEEP_SET = "\0keep"


class KnobActions(Actions):
    """What the panel of knobs asks for."""

    order = 40
    KEYS = (Key("knobs", "K", "knobs", "K", "to the knobs", "Knobs", "knobs", 6, True),)

    def heard(self, message: ScreenMessage) -> None:
        """Keys and clicks in the panel."""
        match message:
            case KnobStepped(name, step):
                self.step(name, step)
            case KnobTyping(name):
                self._type(name)
            case KnobCommand(what, knob):
                self._command(what, knob)

    def action_knobs(self) -> None:
        """To the knobs, to one that can be moved."""
        panel = self.controller.widget(KnobPanel)
        panel.to_enabled()
        panel.focus()

    def _knob(self, name: str) -> KnobItem | None:
        """A knob of the frame on screen, wherever the cursor has gone since it was asked for."""
        bar = self.controller.widget(KnobPanel).bar
        return next((item for item in bar.items if item.name == name), None) if bar is not None else None

    def step(self, name: str, step: int) -> None:
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
            self.controller.screen.app.bell()  # the reason stands in the line below the knobs
            return
        now = self.feed.run.knobs.get(name, item.value)
        self.controller.attempt(lambda: self.feed.edits.stage(self._spec(name), value, now))
        self.controller.paint_soon()

    def _spec(self, name: str) -> KnobSpec:
        header = self.player.run.header
        return next(spec for spec in (header.knob_specs if header else []) if spec.name == name)

    def _type(self, name: str) -> None:
        """Ask for a value."""
        item = self._knob(name)
        if item is None or item.disabled:
            self.stage(name, None)
            return
        spec = self._spec(name)
        question = Question(f"{name} = ", f"{spec.help} · {spec.range}", item.staged_text or item.text, spec.check)
        self.controller.push(AskScreen(question), lambda typed: self.stage(name, typed))

    def _command(self, what: str, name: str | None) -> None:
        """Apply, undo, reset."""
        if what == "apply":
            self._apply()
        elif what == "undo":
            if not self.feed.edits.undo():
                self.controller.notify("nothing to undo")
        elif what == "sets":
            self._choose_set()
        elif name is not None:
            self.stage(name, self._spec(name).default)
        self.controller.paint_soon()

    # Sets of values

    def _choose_set(self) -> None:
        """Stage a whole set, or keep the values as they are under a name."""
        sets = {name: self._changes(values) for name, values in self._named_sets().items()}
        choices = [ListChoice(name, name, changed or "as it is now") for name, changed in sets.items()]
        choices.append(ListChoice(KEEP_SET, "keep these values …", "under a name, for this method"))
        self.controller.push(PickScreen("Sets of knob values", choices, "", "esc back", "stages it"), self._chose_set)

    def _named_sets(self) -> Presets:
        header = self.player.run.header
        if header is None:
            return {}
        defaults = {spec.name: spec.default for spec in header.knob_specs}
        began = {name: value for name, value in header.knobs.items() if name in defaults}
        return {"defaults": defaults, "as the run began": began, **kept_presets(header.method)}

    def _changes(self, values: dict[str, Any]) -> str:
        bar = self.controller.widget(KnobPanel).bar
        items = [item for item in bar.items if item.disabled is None] if bar is not None else []
        changes = [f"{i.label} {i.text}→{shown_knob(values[i.name])}" for i in items if i.name in values]
        same = [values[item.name] == item.value for item in items if item.name in values]
        return "  ".join(text for text, alike in zip(changes, same, strict=True) if not alike)

    def _chose_set(self, name: str) -> None:
        if name == KEEP_SET:
            self.controller.push(AskScreen(Question("Keep these values as", "a name; enter keeps it")), self._keep_set)
            return
        bar = self.controller.widget(KnobPanel).bar
        values = self._named_sets().get(name, {})
        for item in bar.items if bar is not None else ():
            if item.disabled is None and item.name in values:
                self.stage(item.name, values[item.name])

    def _keep_set(self, name: str) -> None:
        header, bar = self.player.run.header, self.controller.widget(KnobPanel).bar
        if not name.strip() or header is None or bar is None:
            return
        values = {item.name: self.feed.edits.wanted(item.name, item.value) for item in bar.items}
        try:
            keep_preset(header.method, name.strip(), values)
        except SpecvizError as error:
            self.controller.notify(str(error), severity="warning")
            return
        self.controller.notify(f"kept for {header.method}: {name.strip()}; s brings it back")

    @asks_core
    def _apply(self) -> None:
        """Send what is staged; with no run going on it waits for the next one."""
        if not self.feed.edits.staged:
            raise SpecvizError("nothing is staged: arrows change a knob, a applies it")
        running = self.feed.running
        self.feed.set_knobs(self.feed.edits.take())
        if not running:
            begins = "m writes it" if self.feed.speaks else "p begins it"
            self.controller.notify(f"kept for the next {'message' if self.feed.speaks else 'run'}: {begins}")
