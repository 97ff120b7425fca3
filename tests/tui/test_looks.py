"""Dialogs and panels in four looks: colour, 16 colours, no colour, ASCII. A screen as text, with a letter for the style
of every cell; renewed by pytest with `--snapshot-update`."""

import string
from pathlib import Path

import pytest
from rich.style import Style
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.sources import offers
from specviz_tui.app import SpecvizApp
from specviz_tui.compare.screen import CompareScreen
from support.live import lines, replay_app
from support.traces import make_events, write_trace

SIZE = (100, 30)
LETTERS = string.ascii_letters + string.digits + string.punctuation
TOUR = {  # what is pressed, words that are there then, and what is pressed to leave it
    "what if": (["right_curly_bracket", "enter", "u"], "with u =", ["escape", "escape"]),
    "find": (["slash", *"rejected", "enter"], "n next", ["escape"]),
    "warnings": (["w"], "2 times", ["escape"]),
    "findings": (["i"], "What stands out", ["escape"]),
    "nothing to show": (["4"], "predicts no ranks", ["1"]),
}
RUN = {"shape": "tree", "temperature": 0.8, "new_tokens": 16}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with warnings and a finding."""
    events: list[ev.Event] = []
    for event in make_events(**RUN):
        if isinstance(event, ev.End):
            events.append(ev.FindingRecord(r=event.r, detector="rule", message="two rounds stand out", evidence=[2, 3]))
        events.append(event)
        if isinstance(event, ev.RoundEnd) and event.r in (2, 3):
            events.append(ev.Warn(r=event.r, code="clamped_knob", message="gamma 99 is above 64"))
    for i, event in enumerate(events):
        event.i = i
    return write_trace(tmp_path_factory.mktemp("looks") / "spoken", events)


def painted(app: SpecvizApp) -> str:
    """The screen, below each line a letter for the style of each cell, and what the letters stand for."""
    letters: dict[str, str] = {}
    rows = []
    for strip in app.screen._compositor.render_strips():
        marks = ""
        for text, style, _ in strip:
            marks += letters.setdefault(told(style), LETTERS[len(letters)]) * len(text)
        rows += ["".join(segment.text for segment in strip).rstrip(), marks]
    return "\n".join([*rows, *(f"{letter}: {name}" for name, letter in letters.items())])


def told(style: Style | None) -> str:
    """What a terminal is told of a style, without the actions of a click."""
    return str(style.clear_meta_and_links()) if style is not None else "none"


@pytest.mark.parametrize("look", ["colour", "sixteen", "no-color", "ascii"])
async def test_dialogs_and_panels(
    look: str, spoken: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offers, "bundled_traces", dict)  # those that come along change
    if look == "no-color":
        monkeypatch.setenv("NO_COLOR", "1")
    app = replay_app(spoken, ascii=look == "ascii")
    if look == "sixteen":
        monkeypatch.setattr(type(app.console), "color_system", "standard")
    seen = {}
    async with app.run_test(size=SIZE) as pilot:
        for name, (keys, words, leaves) in TOUR.items():
            await pilot.press(*keys)
            await pilot.pause()
            for _ in range(100):
                if words in "\n".join(lines(app)):
                    break
                await pilot.pause(0.05)
            for field in app.screen.query(Input):
                field.cursor_blink = False
            await pilot.pause()
            seen[name] = painted(app)
            await pilot.press(*leaves)
        app.push_screen(CompareScreen([("one", fold(make_events(**RUN))), ("two", fold(make_events(seed=3, **RUN)))]))
        await pilot.pause()
        seen["compare"] = painted(app)
    for text in seen.values():
        assert look != "ascii" or text.isascii()
        assert look != "no-color" or "#" not in text.rpartition("\na: ")[2]
    assert seen == snapshot
