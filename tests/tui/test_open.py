"""What one begins with: models, how to get one, recordings; and that a model that cannot be used loses nothing."""

import sys
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from specviz import events as ev
from specviz.commands import Start
from specviz.local_models import store
from specviz.local_models.found import LocalModel
from specviz.sources.conversation import ChatMessage
from specviz.sources.trace_summary import trace_summary
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.library import Library, WorkerStart
from specviz_tui.screens.main import MainScreen
from specviz_tui.screens.open import FetchScreen, OpenScreen
from specviz_tui.widgets.message_line import MessageLine
from support.live import NARROW, WIDE, Cores, catalogue, lines, shown


@pytest.fixture(autouse=True)
def empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain_trace: Path) -> None:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specviz_tui.screens.library.bundled_traces", lambda: {"chain": chain_trace})


def model(name: str, problem: str | None = None) -> LocalModel:
    return LocalModel(name, "store", Path("nowhere"), "llama", 270_000_000, chat=True, problem=problem)


def app_with(cores: Cores, *local: LocalModel) -> SpecvizApp:
    core = WorkerStart(begin=cores.begin)
    return SpecvizApp(Library(animate=False, core=core, look=lambda: list(local)))


async def listed(pilot: Pilot[int]) -> OptionList:
    """The list, once the models were looked for."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return pilot.app.screen.query_one(OptionList)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_our_model_is_first_and_a_key_away(size: tuple[int, int], cores: Cores) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=size) as pilot:
        box = await listed(pilot)
        names = [str(option.prompt).split("  ")[1] for option in box.options if option.id]
        assert names[:2] == ["smollm2", "embedded pair"]
        assert names.index("embedded pair") < names.index("chain")
        assert shown(app).index("smollm2") < shown(app).index("embedded pair")
        await pilot.press("enter")
        await pilot.pause()
        assert cores.words == [("--target", "smollm2", "--draft", "self:int4")]
        await pilot.press("m")
        assert isinstance(app.focused, MessageLine), "one may write while the models load"
        assert "LOADING" in shown(app)


async def test_a_model_that_is_not_here_says_how_it_is_had(cores: Cores) -> None:
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        assert "enter fetches it: specviz models get smollm2" in shown(app)


async def test_a_model_that_cannot_be_used_says_why_and_the_list_stays(cores: Cores) -> None:
    app = app_with(cores, model("half", problem="no config.json"))
    async with app.run_test(size=WIDE) as pilot:
        box = await listed(pilot)
        box.highlighted = [option.id for option in box.options].index("model:half")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, OpenScreen)
        assert "half cannot be used: no config.json" in shown(app)
        assert cores.words == []


async def test_a_cursor_that_was_moved_stays_when_the_models_come(cores: Cores) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=WIDE) as pilot:
        box = await listed(pilot)
        await pilot.press("j", "j")
        before = box.highlighted_option
        assert isinstance(app.screen, OpenScreen)
        app.screen.show_found([model("another"), model("smollm2")])
        await pilot.pause()
        assert before is not None
        assert box.highlighted_option is not None
        assert box.highlighted_option.id == before.id


async def test_a_model_that_cannot_be_loaded_leads_back_to_the_list(cores: Cores) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("m", *"hello", "enter")
        cores.scripts[0].play([ev.End(reason="core_lost", message="not enough memory for 30 layers")])
        cores.scripts[0].die()
        main = app.screen_stack[0]
        assert isinstance(main, MainScreen)
        main.tick()
        await pilot.pause()
        assert [n.message for n in app._notifications][-1:] == [
            "smollm2 with self:int4 cannot be loaded: not enough memory for 30 layers"
        ]
        assert isinstance(app.screen, OpenScreen)
        assert app.return_code is None
        await listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert main.query_one(MessageLine).value == "hello", "what was typed is not lost"


async def test_the_recording_on_screen_is_left_only_when_the_model_is_there(cores: Cores, chain_trace: Path) -> None:
    library = Library(animate=False, core=WorkerStart(begin=cores.begin), look=lambda: [model("smollm2")])
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("o")
        await listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        cores.scripts[0].die()
        main = app.screen_stack[0]
        assert isinstance(main, MainScreen)
        main.tick()
        await pilot.pause()
        assert app.feed.name == "chain", "back where one came from"
        await pilot.press("escape")
        await pilot.pause()
        assert "REPLAY" in lines(app)[0] or "PAUSED" in lines(app)[0]


async def test_another_core_takes_the_conversation_along(cores: Cores) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        cores.scripts[0].play([catalogue(talks=True), ev.State(state="idle")])
        main = app.screen_stack[0]
        assert isinstance(main, MainScreen)
        main.tick()
        await pilot.pause()
        app.feed.talk.spoken = [ChatMessage("user", "hello"), ChatMessage("assistant", "good day", "smollm2")]
        app.ask_what_to_open()
        await listed(pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert len(cores.scripts) == 2
        assert "smollm2 good day" in shown(app)
        assert not cores.scripts[0].closed, "until the other one is there"
        cores.scripts[1].play([catalogue(talks=True), ev.State(state="idle")])
        main.tick()
        await pilot.pause()
        await app.workers.wait_for_complete()
        assert cores.scripts[0].closed


FETCH = """
import sys
print("specviz: fetching from the index", file=sys.stderr, flush=True)
sys.exit({code})
"""


@pytest.mark.parametrize("code", [0, 2])
async def test_fetching_starts_the_model_or_says_what_went_wrong(
    code: int, cores: Cores, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", FETCH.format(code=code))
    monkeypatch.setattr("specviz_tui.app.fetching", lambda name: command)
    app = app_with(cores)
    async with app.run_test(size=WIDE) as pilot:
        box = await listed(pilot)
        box.highlighted = [option.id for option in box.options].index("fetch:smollm2")
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        if code == 0:
            assert cores.words == [("--target", "smollm2", "--draft", "self:int4")]
            return
        assert isinstance(app.screen, FetchScreen)
        assert "fetching from the index" in shown(app)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, OpenScreen)


async def test_the_list_says_what_a_recording_shows(cores: Cores, chain_trace: Path) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=(160, 48)) as pilot:
        box = await listed(pilot)
        line = next(str(option.prompt) for option in box.options if option.id == str(chain_trace))
        summary = trace_summary(chain_trace)
        assert summary is not None
        for words in (summary.pace, "draft, tokenwise", f"“{summary.question}”"):
            assert words in line


async def test_four_doors_lead_to_their_lines(cores: Cores, chain_trace: Path) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=WIDE) as pilot:
        box = await listed(pilot)
        for key, begins in (("w", str(chain_trace)), ("b", "bring:"), ("l", "lesson:"), ("d", "model:")):
            await pilot.press(key)
            await pilot.pause()
            assert box.highlighted_option is not None
            assert str(box.highlighted_option.id).startswith(begins)


async def test_a_recording_plays_behind_the_list_again_and_again(cores: Cores, chain_trace: Path) -> None:
    app = app_with(cores, model("smollm2"))
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        assert app.feed.name == "chain"
        assert "REPLAY" in lines(app)[0]
        rounds = [app.feed.player.cursor.index]
        for k in range(60):
            app.feed.tick(1e6 + 2.0 * k)
            rounds.append(app.feed.player.cursor.index)
        assert max(rounds) == len(app.feed.run.rounds) - 1
        assert rounds[-1] < max(rounds) or rounds.count(0) > 1, "it began again"


@pytest.mark.parametrize("talks", [True, False])
async def test_a_message_typed_in_the_list_is_decoded(talks: bool, cores: Cores) -> None:
    """By a model that was never on screen: as a message where it talks, as a text for the embedded pair."""
    app = app_with(cores, *([model("smollm2")] if talks else []))
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        await pilot.press("m", *"why is it", "enter")
        await pilot.pause()
        await pilot.pause()
        assert len(cores.scripts) == 1
        assert cores.words[0][:2] == (("--target", "smollm2") if talks else ())
        if talks:
            assert app.feed.talk.waiting is not None
            assert app.feed.talk.waiting.prompt == "why is it"
        else:
            assert [c.prompt for c in cores.scripts[0].commands if isinstance(c, Start)] == ["why is it"]


async def test_the_line_below_the_list_says_which_methods_work(cores: Cores) -> None:
    library = Library(
        animate=False,
        core=WorkerStart(begin=cores.begin),
        look=lambda: [model("smollm2")],
        methods=lambda target: f"all of them for {target}",
    )
    app = SpecvizApp(library)
    async with app.run_test(size=WIDE) as pilot:
        await listed(pilot)
        assert "all of them for smollm2" in shown(app)
