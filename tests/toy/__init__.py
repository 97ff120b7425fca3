"""A method of another package, as `specviz.methods` would load it: its knobs, drafter, record, metric and panel.

`bring` makes them known, `take_back` forgets them. Only `drafter` needs torch, and nothing imports it here.
"""

from specviz import events, methods, metrics
from specviz.view import panels
from toy.metric import declare
from toy.panel import GuessPanel
from toy.record import Guess
from toy.spec import ECHO


def bring() -> None:
    """From now on the toy is there like anything of the house."""
    events.register(Guess)
    methods.register(ECHO)
    declare()
    panels.register(GuessPanel)


def take_back() -> None:
    """As if it had never been there."""
    events.unregister(Guess)
    methods.unregister(ECHO.name)
    metrics.unregister("guessed_right")
    panels.unregister(GuessPanel.id)
