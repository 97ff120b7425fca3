"""The knobs, made from the specs of the running method: a grid of sliders and a line that says what is pending.

Nothing takes effect here: a change is staged, `a` sends it, the core says in which round it was applied.
"""

from typing import Any

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.reactive import reactive

from specviz.text import clip
from specviz.view.frame.frame import Frame
from specviz.view.frame.parts import KnobBar, KnobItem
from specviz.view.words.numbers import knob as shown
from specviz_tui.common.frame_widget import FrameWidget, KnobCommand, KnobStepped, KnobTyping, Left
from specviz_tui.common.keymap import KNOB_KEYS, bindings
from specviz_tui.common.paint import CURSOR, FAINT, STRONG, joined, spread, track

CELL, SLIDER = 25, 8


class KnobPanel(FrameWidget, can_focus=True):
    """Left and right change the focused knob, up and down (or tab) go to another one."""

    BINDINGS = bindings(KNOB_KEYS)
    EXPLAIN = "knobs"
    at: reactive[int] = reactive(0)

    def part(self, frame: Frame) -> object:
        return frame.knobs

    @property
    def bar(self) -> KnobBar | None:
        return self.frame.knobs if self.frame else None

    @property
    def item(self) -> KnobItem | None:
        items = self.bar.items if self.bar else ()
        return items[min(self.at, len(items) - 1)] if items else None

    def render(self) -> Text:
        """A grid and the pending line; one line when there is no room for more."""
        bar, width, lines = self.bar, self.content_size.width, self.content_size.height
        if bar is None or not bar.items:
            begun = self.frame is not None and self.frame.n_rounds > 0
            why = "what made this run told none" if begun else "nothing has started"
            return Text(f" No knobs: {why}.", style=FAINT)
        if lines < 2:
            return self._one_line(bar, width)
        per_row = max(width // CELL, 1)
        page = per_row * (lines - 1)
        first = self.at // page * page
        rows = []
        for start in range(first, first + page, per_row):
            row = Text()
            for index, item in enumerate(bar.items[start : start + per_row], start):
                row.append_text(self._cell(item, width // per_row, self.has_focus and index == self.at))
            rows.append(row)
        return Text("\n", no_wrap=True, overflow="crop").join([*rows, self._status(bar, width, first, page)])

    def _one_line(self, bar: KnobBar, width: int) -> Text:
        if self.has_focus and self.item is not None:
            line = (
                Text(" K ", style=STRONG)
                .append_text(self._cell(self.item, CELL, True))
                .append_text(self._hint(self.item))
            )
            return spread(line, Text(""), width)
        parts = [Text(" K", style=STRONG)]
        parts += [Text(text, style=STRONG) for text in (bar.pending,) if text]
        if all(item.disabled for item in bar.items):
            return spread(joined([*parts, *_moved_first(bar)], width, "  "), Text(bar.last, style=FAINT), width)
        parts += [Text(f"{item.label} {item.text}") for item in bar.items if item.disabled is None or not bar.pending]
        return joined(parts, width, "  ")

    def _cell(self, item: KnobItem, cells: int, lit: bool) -> Text:
        """`γ 4→5 ▕████────▏`, padded; a disabled knob is faint."""
        value = item.text
        value += f"⇒{item.sent_text}" if item.sent_text is not None else ""
        value += f"→{item.staged_text}" if item.staged_text is not None else ""
        words = clip(f"{item.label} {value}", cells - 2)
        room = min(cells - cell_len(words) - 5, SLIDER) if has_slider(item) else 0
        style = FAINT if item.disabled else STRONG if item.staged_text or item.sent_text else None
        text = Text(" ")
        text.append(words + (f" {track(item.fill, room)}" if room > 2 else ""), style=CURSOR if lit else style)
        text.append(" " * max(cells - text.cell_len, 0))
        return text

    def _status(self, bar: KnobBar, width: int, first: int, page: int) -> Text:
        n, item = len(bar.items), self.item
        pages = Text(f"{first + 1}–{min(first + page, n)} of {n}" if n > page else "", style=FAINT)
        if bar.absent and not self.has_focus:
            pages = Text(f"not in this method: {' '.join(symbol for symbol, _ in bar.absent)}   ", style=FAINT) + pages
        if self.has_focus and item is not None:
            status = bar.pending or bar.last
            parts = [Text(" " + status, style=STRONG if bar.pending else FAINT)] if status else []
            parts.append(self._hint(item))
        else:
            reason = (
                next((i.disabled for i in bar.items if i.disabled), None) if not bar.pending and not bar.last else None
            )
            parts = [
                Text(" " + bar.pending, style=STRONG) if bar.pending else Text(""),
                Text(" " + bar.last, style=FAINT),
            ]
            parts += [Text(f" {reason}", style=FAINT)] if reason and all(i.disabled for i in bar.items) else []
        line = Text("   ").join(p for p in parts if p.plain.strip())
        return spread(line, pages, width)

    def _hint(self, item: KnobItem) -> Text:
        hint = Text(f" {item.name}", style=STRONG)
        if item.disabled:  # before the help, which may be longer than the line
            return hint.append(f"  {item.disabled}", style=STRONG).append(f" · {item.help}", style=FAINT)
        hint.append(f"  {item.help}", style=FAINT)
        since = f" · in force from {item.since}" if item.since else ""
        hint.append(f" · {span(item)} · {item.applies_text}{since}", style=FAINT)
        return hint.append(" · changes the text" if item.changes_text else "", style=FAINT)

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        self.border_subtitle = "a apply · z undo · x default · s sets · enter type · esc back" if focused else ""
        self.refresh()

    def to_enabled(self) -> None:
        """Stay where it is if that knob can be moved, else go to the first that can."""
        items = self.bar.items if self.bar else ()
        if items and items[min(self.at, len(items) - 1)].disabled:
            self.at = next((k for k, item in enumerate(items) if item.disabled is None), self.at)

    def action_move(self, step: int) -> None:
        n = len(self.bar.items) if self.bar else 0
        if n:
            self.at = (self.at + step) % n

    def action_adjust(self, step: int) -> None:
        """Ask for the next value. From which one is for the screen to say: the frame here may be older than the
        last press."""
        if self.item is not None:
            self.post_message(KnobStepped(self.item.name, step))

    def action_type(self) -> None:
        if self.item is not None:
            self.post_message(KnobTyping(self.item.name))

    def action_apply(self) -> None:
        self.post_message(KnobCommand("apply"))

    def action_undo(self) -> None:
        self.post_message(KnobCommand("undo"))

    def action_reset(self) -> None:
        if self.item is not None:
            self.post_message(KnobCommand("reset", self.item.name))

    def action_sets(self) -> None:
        self.post_message(KnobCommand("sets"))

    def action_leave(self) -> None:
        self.post_message(Left())

    def on_click(self, event: events.Click) -> None:
        width, lines = self.content_size.width, self.content_size.height
        offset = event.get_content_offset(self)
        if self.bar is None or offset is None or lines < 2 or offset.y >= lines - 1:
            return
        per_row = max(width // CELL, 1)
        page = per_row * (lines - 1)
        index = self.at // page * page + offset.y * per_row + min(offset.x // (width // per_row), per_row - 1)
        if index < len(self.bar.items):
            self.at = index


def _moved_first(bar: KnobBar) -> list[Text]:
    """Name and value of each knob, faint; those that are not at their defaults stand first."""
    ranked = sorted(bar.items, key=lambda item: item.value == item.default)
    return [Text(f"{item.label} {item.text}", style=FAINT) for item in ranked if not item.idle]


STEPS = 20  # for the keys; a slider under a hand has more


def has_slider(item: KnobItem) -> bool:
    """Whether the value stands in a range that a slider can show."""
    return item.fill is not None and item.moves == "slide"


def span(item: KnobItem) -> str:
    """`0..64`, `0..`, `chain, tree`."""
    if item.choices:
        return ", ".join(item.choices)
    if item.kind == "bool":
        return "on, off"
    if item.kind == "texts":
        return "texts"
    lo, hi = (shown(end) if end is not None else "" for end in (item.lo, item.hi))
    return f"{lo}..{hi}"


def stepped(item: KnobItem, value: Any, step: int) -> Any:
    """The value one step up or down from `value`, kept inside the range."""
    if item.kind == "bool":
        return not value
    if item.choices:
        at = item.choices.index(value) if value in item.choices else 0
        return item.choices[(at + step) % len(item.choices)]
    if item.kind == "int":
        return int(_inside(item, int(value) + step))
    if item.kind == "float":
        by = item.step if item.lo is None or item.hi is None else (item.hi - item.lo) / STEPS
        return _inside(item, round(float(value) + step * by, 6))
    return value


def _inside(item: KnobItem, value: float) -> float:
    if item.hi is not None and value > item.hi:
        return item.hi
    if item.lo is not None and value < item.lo:
        return item.lo
    return value


def parsed(item: KnobItem, text: str) -> Any:
    """What was typed, as the kind of the knob; the core checks it again. Raises ValueError."""
    text = text.strip()
    if item.kind == "int":
        return int(text)
    if item.kind == "float":
        return float(text)
    if item.kind == "bool":
        return {"on": True, "off": False, "true": True, "false": False}[text.lower()]
    return [text] if item.kind == "texts" else text
