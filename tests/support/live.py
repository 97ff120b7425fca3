"""What tests of the terminal front-end share: recorded runs, a core that follows a script, and eyes for the screen."""

from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from specviz import events as ev
from specviz.methods import all_methods
from specviz.view.frame.frame import Frame
from specviz_tui.app import SpecvizApp
from specviz_tui.common.feed import RunFeed
from specviz_tui.screens.library import Library
from specviz_tui.screens.main import MainScreen
from support.script import Script
from support.traces import make_events, write_trace

WIDE, NARROW = (120, 36), (80, 24)


class Cores:
    """Begins scripted cores, and remembers for which words."""

    def __init__(self) -> None:
        self.words: list[tuple[str, ...]] = []
        self.scripts: list[Script] = []

    def begin(self, words: tuple[str, ...], _record: object, **_options: object) -> Script:
        self.words.append(words)
        self.scripts.append(Script())
        return self.scripts[-1]


def catalogue(talks: bool = False) -> ev.Catalogue:
    """What a real worker would say first. `talks`: its model holds conversations."""
    methods = [
        ev.MethodInfo(
            name=m.name,
            help=m.help,
            needs_draft=m.needs_draft,
            verifiers=list(m.verifiers),
            default_verifier=m.default_verifier,
            knobs=list(m.table.specs),
        )
        for m in all_methods().values()
    ]
    models = ev.Models(target=ev.ModelInfo(name="table"))
    return ev.Catalogue(methods=methods, verifiers=[], models=models, chat=talks, talks=talks)


def live_app(script: Script) -> SpecvizApp:
    """The application over a scripted core; nothing is animated."""
    return SpecvizApp(Library(animate=False, look=list), RunFeed(script, "live", animate=False))


def replay_app(path: Path, ascii: bool = False, at: str | None = None) -> SpecvizApp:
    """The application over a recorded run."""
    library = Library(animate=False, ascii=ascii, look=list)
    return SpecvizApp(library, library.trace(path), at)


def recorded(folder: Path, name: str, **recipe: object) -> Path:
    """A trace of the table model."""
    return write_trace(folder / name, make_events(**recipe))


def lines(app: SpecvizApp) -> list[str]:
    """The screen as text, one string a line."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def shown(app: SpecvizApp) -> str:
    """The whole screen as text."""
    return "\n".join(lines(app))


def main_of(app: SpecvizApp) -> MainScreen:
    """The screen of the run, whatever lies over it."""
    screen = app.screen_stack[0]
    assert isinstance(screen, MainScreen)
    return screen


def frame_of(app: SpecvizApp) -> Frame:
    """What that screen paints."""
    frame = main_of(app).frame
    assert frame is not None
    return frame


async def press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, and wait until what they do is painted."""
    await pilot.press(*keys)
    await pilot.pause()
