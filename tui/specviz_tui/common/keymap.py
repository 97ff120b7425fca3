"""What a key is, and the keys of tree and knobs; panels and groups of actions bring their own. Bindings, footer,
palette and help are made from them; ids stay the same for remapping."""

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Key:
    """A key. `caps`: as printed; `short`: the footer's word; `rank`: place in the footer, 0 stays out of it."""

    id: str
    keys: str
    action: str
    caps: str
    help: str
    group: str
    short: str = ""
    rank: int = 0
    narrow: bool = False  # in the footer of a narrow screen too

    @property
    def live(self) -> bool:
        """Whether it does nothing without a core."""
        return self.help.startswith("live: ")

    @property
    def binding(self) -> Binding:
        return Binding(self.keys, self.action, self.help, show=False, key_display=self.caps, id=self.id)


TREE_KEYS: tuple[Key, ...] = (
    Key("tree.left", "left,h", "move('left')", "← h", "to the parent", "Tree"),
    Key("tree.right", "right,l", "move('right')", "→ l", "to the first child", "Tree"),
    Key("tree.up", "up,k", "move('up')", "↑ k", "node above", "Tree"),
    Key("tree.down", "down,j", "move('down')", "↓ j", "node below", "Tree"),
    Key("tree.page_up", "pageup", "page_up", "PgUp", "scroll the tree up", "Tree"),
    Key("tree.page_down", "pagedown", "page_down", "PgDn", "scroll the tree down", "Tree"),
)

KNOB_KEYS: tuple[Key, ...] = (
    Key("knob.less", "left,h", "adjust(-1)", "← h", "less", "Knobs"),
    Key("knob.more", "right,l", "adjust(1)", "→ l", "more", "Knobs"),
    Key("knob.previous", "up,k,shift+tab", "move(-1)", "↑ k", "knob before", "Knobs"),
    Key("knob.next", "down,j,tab", "move(1)", "↓ j", "knob after", "Knobs"),
    Key("knob.type", "enter", "type", "enter", "type a value", "Knobs", "type a value"),
    Key("knob.apply", "a", "apply", "a", "apply at the next round", "Knobs"),
    Key("knob.undo", "z", "undo", "z", "undo the last change", "Knobs"),
    Key("knob.reset", "x", "reset", "x", "stage the default", "Knobs"),
    Key("knob.sets", "s", "sets", "s", "sets of values: defaults, as the run began, your own", "Knobs"),
    Key("knob.leave", "escape", "leave", "esc", "back to the tree", "Knobs"),
)

# In the footer the two directions of a step share one entry, as in `[ ] round`.
PAIRS: dict[str, str] = {
    "step.previous": "step.next",
    "round.previous": "round.next",
    "rejection.previous": "rejection.next",
}


def bindings(table: tuple[Key, ...]) -> list[BindingType]:
    return [key.binding for key in table]


def page_keys(prefix: str, group: str) -> tuple[Key, Key]:
    """The keys that scroll a panel by a part of the screen."""
    return (
        Key(f"{prefix}.page_up", "pageup", "scroll(-12)", "PgUp", "scroll up by a part", group),
        Key(f"{prefix}.page_down", "pagedown", "scroll(12)", "PgDn", "scroll down by a part", group),
    )
