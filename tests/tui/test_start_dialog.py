"""The models of the start dialog: another pair is another core, and nothing is lost on the way to it."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Select, Static, TextArea

from specviz import events as ev
from specviz.commands import Start
from specviz.local_models import store
from specviz.local_models.choices import NO_DRAFT
from specviz.local_models.found import LocalModel
from specviz.sources.model_names import ModelNames
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.dialogs import AskScreen
from specviz_tui.screens.library import Library, WorkerStart
from specviz_tui.screens.start import OTHER, StartScreen
from support.live import NARROW, WIDE, Cores, catalogue, main_of, shown
from support.traces import make_events

FOUND = [
    LocalModel("large", "store", Path("nowhere"), "llama", 900_000_000, 100, "v", chat=True),
    LocalModel("small", "hub cache", Path("nowhere"), "llama", 90_000_000, 100, "v"),
    LocalModel("foreign", "hub cache", Path("nowhere"), "llama", 90_000_000, 100, "w"),
    LocalModel("half", "hub cache", Path("nowhere"), problem="no config.json"),
]
RUN = make_events(temperature=0.8, new_tokens=12)


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))


def app_with(cores: Cores) -> SpecvizApp:
    """A core of the embedded pair; four models on the machine."""
    library = Library(animate=False, core=WorkerStart(begin=cores.begin), look=lambda: list(FOUND))
    return SpecvizApp(library, library.model(ModelNames()))


async def opened(pilot: Pilot[int], cores: Cores) -> StartScreen:
    """The dialog, the models found."""
    cores.scripts[0].play([catalogue(), ev.State(state="idle")])
    main_of(pilot.app).tick()  # type: ignore[arg-type]
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, StartScreen)
    return screen


async def choose(pilot: Pilot[int], id: str, value: str) -> None:
    pilot.app.screen.query_one(f"#{id}", Select).value = value
    await pilot.pause()


async def look(pilot: Pilot[int], screen: StartScreen) -> None:
    """One look at the core that loads, without waiting for the clock."""
    screen._look_at_core()
    await pilot.pause()


def hint(screen: StartScreen) -> str:
    return str(screen.query_one("#hint", Static).content)


def offered(screen: StartScreen, id: str) -> list[str]:
    return [str(value) for _, value in screen.query_one(f"#{id}", Select)._options]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_models_that_were_found_are_offered_with_their_drafts(size: tuple[int, int], cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot, cores)
        assert offered(screen, "target") == ["large", "", "small", "foreign", "half", OTHER]
        assert "target: embedded pair" in shown(app)
        assert "esc back" in shown(app), "all of it fits"
        await choose(pilot, "target", "large")
        drafts = offered(screen, "draft")
        assert drafts[0] == "small", "the one that numbers the same tokens"
        assert "foreign" not in drafts
        assert drafts[-2:] == [NO_DRAFT, OTHER]
        assert cores.words[1:] == [("--target", "large", "--draft", "small")]


async def test_another_pair_is_another_core_and_what_was_typed_stays(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await pilot.press(*"hello")
        screen.query_one("#knobs", Input).value = "gamma=3"
        await choose(pilot, "target", "large")
        await look(pilot, screen)
        assert "loading large with small" in hint(screen)
        cores.scripts[1].play([catalogue(talks=True), ev.State(state="idle")])
        await look(pilot, screen)
        assert "Say something" in shown(app)
        await pilot.press("ctrl+s")
        await pilot.pause()
        await app.workers.wait_for_complete()
        assert cores.scripts[0].closed
        (start,) = cores.scripts[1].commands
        assert isinstance(start, Start)
        assert (start.prompt, start.knobs["gamma"], start.chat) == ("hello", 3, True)
        assert app.feed.names == ModelNames("large", "small")


async def test_a_start_that_comes_while_the_models_load_is_carried_out_when_they_are_there(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await pilot.press(*"hello")
        await choose(pilot, "target", "large")
        await pilot.press("ctrl+s")
        await look(pilot, screen)
        assert "it starts as soon as they are there" in hint(screen)
        cores.scripts[1].play([catalogue(), ev.State(state="idle")])
        await look(pilot, screen)
        assert not isinstance(app.screen, StartScreen)
        assert [type(command) for command in cores.scripts[1].commands] == [Start]


async def test_what_was_decoded_stays_until_the_other_core_decodes(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, cores)
        await pilot.press(*"x", "ctrl+s")
        cores.scripts[0].play(RUN[:-1])
        main_of(app).tick()
        await pilot.press("p")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, StartScreen)
        await app.workers.wait_for_complete()
        await choose(pilot, "target", "large")
        cores.scripts[1].play([catalogue(talks=True), ev.State(state="idle")])
        await look(pilot, screen)
        assert app.feed.running, "the run in hand goes on while one chooses"
        await pilot.press("ctrl+s")
        await pilot.pause()
        main_of(app).tick()
        await pilot.pause()
        assert app.feed.run.end is not None
        assert main_of(app).frame.n_rounds > 0
        assert len(cores.scripts[1].commands) == 1


async def test_a_model_that_cannot_be_loaded_leaves_the_core_in_hand(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await pilot.press(*"hello")
        await choose(pilot, "target", "foreign")
        cores.scripts[1].play([ev.End(reason="core_lost", message="no space for its weights")])
        cores.scripts[1].die()
        await look(pilot, screen)
        assert "foreign cannot be loaded: no space for its weights; the models before are still loaded" in hint(screen)
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, StartScreen)
        await choose(pilot, "target", "")
        assert screen.query_one(TextArea).text == "hello"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert len(cores.words) == 2, "the core in hand serves"
        assert [type(command) for command in cores.scripts[0].commands] == [Start]


async def test_a_model_that_cannot_be_used_says_why_and_loads_nothing(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await choose(pilot, "target", "half")
        assert "no config.json" in hint(screen)
        assert len(cores.words) == 1


async def test_esc_lets_go_of_the_core_that_was_loaded(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        await opened(pilot, cores)
        await choose(pilot, "target", "large")
        await pilot.press("escape")
        await pilot.pause()
        await app.workers.wait_for_complete()
        assert [script.closed for script in cores.scripts] == [False, True]
        assert app.feed.names == ModelNames()


async def test_a_folder_or_hub_id_may_be_typed(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await choose(pilot, "target", OTHER)
        assert isinstance(app.screen, AskScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert screen.query_one("#target", Select).value == ""
        await choose(pilot, "target", OTHER)
        await pilot.press(*"owner/name", "enter")
        await pilot.pause()
        assert cores.words[1:] == [("--target", "owner/name", "--no-draft")]
        assert "owner/name" in offered(screen, "target")


async def test_another_method_takes_the_knobs_it_has_and_says_which_it_has_not(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        screen.query_one(Input).value = "gamma=6 temperature=0.5 gama=3"
        await choose(pilot, "method", "specbound")
        assert "left out, as specbound does not take it: gamma=6" in hint(screen)
        assert screen.query_one(Input).value == "temperature=0.5 gama=3", "what is wrong is told when it is to start"
        screen.query_one(Input).value = "temperature=0.5"
        screen.query_one(TextArea).text = "a"
        await pilot.press("ctrl+s")
        await pilot.pause()
        (start,) = [c for c in cores.scripts[0].commands if isinstance(c, Start)]
        assert (start.method, start.knobs) == ("specbound", {"temperature": 0.5})


async def test_the_list_of_methods_says_what_each_does(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        screen.query_one("#method", Select).focus()
        await pilot.press("enter")
        await pilot.pause()
        assert "layerskip: the target's first layers always draft" in shown(app)


async def test_a_method_that_lacks_a_part_says_what_makes_it(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        screen = await opened(pilot, cores)
        await choose(pilot, "target", "large")
        offer = catalogue(talks=True)
        heads = next(method for method in offer.methods if method.name == "medusa")
        heads.missing = ev.Missing(why="no heads for large", command="specviz train medusa --target large")
        cores.scripts[1].play([offer, ev.State(state="idle")])
        await look(pilot, screen)
        assert [str(label) for label, _ in screen.query_one("#method", Select)._options][-1].startswith(
            "medusa (not here)"
        )
        await choose(pilot, "method", "medusa")
        assert "no heads for large: specviz train medusa --target large" in hint(screen)
