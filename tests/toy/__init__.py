"""A method of another package, as `specviz.methods` would load it: its knobs, drafter and page.

`bring` makes them known, `take_back` forgets them. Only `drafter` needs torch, and nothing imports it here.
"""

from specviz import events, methods, metrics
from specviz.view import panels
from specviz_app.ui import pages
from specviz_tui.common import pane as panes
from toy.metric import declare
from toy.page import PANEL
from toy.pane import GuessPane
from toy.panel import GuessPanel
from toy.record import Guess
from toy.spec import ECHO


def bring() -> None:
    """From now on the toy is there like anything of the house."""
    events.register(Guess)
    methods.register(ECHO)
    declare()
    panels.register(GuessPanel)
    panes.register(GuessPane)
    pages.register_below(PANEL)


def take_back() -> None:
    """As if it had never been there."""
    events.unregister(Guess)
    methods.unregister(ECHO.name)
    metrics.unregister("guessed_right")
    panels.unregister(GuessPanel.id)
    panes.unregister(GuessPane.PANEL.id)
    pages.unregister_below(PANEL.id)
