"""A panel brought from here, with a record of its own kind: seen by the view and painted in the terminal, without a
change in the package. The kind, the panel and the pane below are all there is to write."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from rich.text import Text
from textual.app import ComposeResult

from specviz import events as ev
from specviz.events.base import Count, Event
from specviz.runlog.fold import Run, fold
from specviz.runlog.tree import RoundTree
from specviz.traits import MethodTraits
from specviz.view import Options, Player
from specviz.view.frame.frame import PanelOptions
from specviz.view.frame.parts import WhyRow
from specviz.view.panels import Panel, Remark, Scene, all_panels, register, unregister
from specviz_tui.app import SpecvizApp
from specviz_tui.common import pane
from specviz_tui.common.keymap import Key
from specviz_tui.common.paint import Painter
from specviz_tui.screens.page import guide_page, help_page, pages
from support.live import WIDE, Script, catalogue, live_app, shown
from support.traces import make_events


class Guess(Event, tag="guess"):
    """How many tokens the toy drafter thought would be kept."""

    inside_round = True

    n: Count


@dataclass(frozen=True, slots=True)
class GuessOptions(PanelOptions):
    """What was chosen in the panel."""

    loud: bool = False


@dataclass(frozen=True, slots=True)
class Guesses:
    """Guesses beside what came of them, of every round so far."""

    missing: str | None
    pairs: tuple[tuple[int, int], ...] = ()  # guessed, kept
    loud: bool = False


class GuessPanel(Panel[GuessOptions, Guesses]):
    """Of one run."""

    id, title, options = "guess", "Guess", GuessOptions

    @classmethod
    def needs(cls, traits: MethodTraits) -> bool:
        return not traits.plain

    def empty(self, reason: str) -> Guesses:
        return Guesses(reason)

    def build(self, scene: Scene, options: GuessOptions) -> Guesses:
        rounds = [self.run.rounds[k] for k in range(scene.record.index + 1)]
        pairs = [(g.n, record.end.n_accepted) for record in rounds if record.end for g in record.every(Guess)]
        return Guesses(None if pairs else "This method guesses nothing.", tuple(pairs), options.loud)

    @classmethod
    def explain(cls, run: Run, family: RoundTree, node: int) -> Remark | None:
        guessed = family.record.every(Guess)
        return Remark((WhyRow("guessed", str(guessed[0].n)),), "A guess was made.") if guessed else None


class GuessPane(pane.PanelPane[GuessOptions, Guesses]):
    """A line a round."""

    PANEL = GuessPanel
    OPEN = pane.opens("screen.guess", "6", GuessPanel, "Guess: what was thought beforehand")
    KEYS = (Key("guess.loud", "l", "loud", "l", "say it louder", "Guess", "loud"),)
    PAGES = {"guess": ("Guess", "A toy. It guesses how much of a draft will be kept.")}

    def parts(self) -> ComposeResult:
        yield self.box(lines, "Guessed and kept")

    def action_loud(self) -> None:
        self.choose(loud=True)


def lines(found: Guesses, painter: Painter, cells: int) -> Text:
    return Text("\n".join(f"guessed {n}, kept {kept}{'!' * found.loud}" for n, kept in found.pairs))


def text_of(app: SpecvizApp, word: str) -> list[str]:
    """The lines with this word, without borders."""
    return [line.strip("│ ") for line in shown(app).splitlines() if word in line]


def toy_events() -> list[Event]:
    """A run of a method that no one has heard of, with a guess in every round."""
    events: list[Event] = []
    for event in make_events(gamma=4, temperature=0.8, new_tokens=20):
        if isinstance(event, ev.Header):
            event.method = "oracle"
        if isinstance(event, ev.RoundEnd):
            events.append(Guess(r=event.r, q=event.q, n=event.r % 5))
        events.append(event)
    return events


@pytest.fixture
def brought() -> Iterator[None]:
    register(GuessPanel)
    pane.register(GuessPane)
    yield
    unregister("guess")
    pane.unregister("guess")


@pytest.mark.usefixtures("brought")
def test_the_view_shows_a_panel_it_has_never_heard_of() -> None:
    player = Player(fold(toy_events()), animate=False)
    assert GuessPanel in all_panels()
    player.seek_index(2)
    frame = player.frame(Options(shown=("guess",)))
    found = GuessPanel.of(frame)
    kept = [record.end.n_accepted for record in player.run.rounds if record.end]
    assert found is not None
    assert found.pairs == tuple(zip((1, 2, 3), kept, strict=False))
    assert set(frame.panels) == {"guess"}
    chosen = GuessPanel.choose(Options(), loud=True)
    assert GuessPanel.of(player.frame(chosen)) == replace(found, loud=True)


@pytest.mark.usefixtures("brought")
def test_it_adds_to_the_reasons_of_a_node() -> None:
    player = Player(fold(toy_events()), animate=False)
    player.seek_index(0)
    why = player.frame(Options(selected=0)).why
    assert why is not None
    assert why.words.endswith("A guess was made.")
    assert ("guessed", "1") in {(row.label, row.value) for row in why.rows}


@pytest.mark.usefixtures("brought")
async def test_the_terminal_paints_it_under_its_own_keys() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *toy_events()])
        await pilot.pause(0.3)
        await pilot.press("escape", "6")
        await pilot.pause()
        assert "[6 Guess]" in shown(app)
        assert "guessed 1, kept" in shown(app)
        assert "Guessed and kept" in shown(app)
        await pilot.press("l")
        await pilot.pause()
        said = text_of(app, "guessed")
        assert said
        assert all(line.endswith("!") for line in said)
        await pilot.press("f1")
        await pilot.pause()
        assert "It guesses how much of a draft will be kept." in shown(app)
        assert f"of {len(pages())}" in shown(app)


@pytest.mark.usefixtures("brought")
def test_help_and_guide_know_its_keys_and_pages() -> None:
    assert GuessPane.KEYS in pane.key_tables()
    assert ("6", "Guess", "guess") in pane.screens()
    assert guide_page("guess")[0] == "Guess"
    assert help_page(Painter(), 80) is not None


@pytest.mark.usefixtures("brought")
async def test_a_run_without_such_records_gets_the_panels_reason() -> None:
    script = Script()
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        script.play([catalogue(), *make_events(new_tokens=20)])
        await pilot.pause(0.3)
        await pilot.press("escape", "6")
        await pilot.pause()
        assert "This method guesses nothing." in shown(app)


def test_what_was_brought_is_gone_afterwards() -> None:
    assert GuessPanel not in all_panels()
    assert GuessPane not in pane.all_panes()
