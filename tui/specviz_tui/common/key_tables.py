"""Every table of keys, made of what panels and groups of actions declare."""

from specviz_tui.common.actions import all_actions
from specviz_tui.common.keymap import KNOB_KEYS, TREE_KEYS, Key
from specviz_tui.common.pane import all_panes


def screens() -> list[tuple[str, str, str]]:
    """Key, name and id of every screen."""
    return [("1", "Tree", "tree"), *((pane.OPEN.keys, pane.PANEL.title, pane.PANEL.id) for pane in all_panes())]


def screen_keys() -> tuple[Key, ...]:
    """The keys that always hold, with those that open a panel behind the one that opens the tree."""
    keys = [key for group in all_actions() for key in group.KEYS]
    at = [key.id for key in keys].index("screen.tree") + 1
    return (*keys[:at], *(pane.OPEN for pane in all_panes()), *keys[at:])


def groups() -> tuple[str, ...]:
    """The headings of the help page: those of panels have their keys below one each."""
    return ("Time", "Tree", *(pane.KEYS[0].group for pane in all_panes()), "Knobs", "Run", "Screen")


def key_tables() -> tuple[tuple[Key, ...], ...]:
    """Every table of keys, by what has the focus."""
    return (screen_keys(), TREE_KEYS, *(pane.KEYS for pane in all_panes()), KNOB_KEYS)
