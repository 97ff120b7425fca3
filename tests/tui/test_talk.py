"""A conversation on the live screen: what is typed, what is shown of it, and that no message is lost."""

import msgspec
import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from specviz import events as ev
from specviz.commands import Said, Start, Stop
from specviz.sources.chat_examples import CHAT_EXAMPLES
from specviz.sources.model_names import ModelNames
from specviz_tui.actions.knobs import KnobActions
from specviz_tui.app import SpecvizApp
from specviz_tui.screens.page import PageScreen
from specviz_tui.screens.start import StartScreen
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.message_line import MessageLine
from specviz_tui.widgets.talk_view import TalkView
from specviz_tui.widgets.text_strip import TextStrip
from support.live import NARROW, WIDE, Script, catalogue, lines, live_app, main_of, shown
from support.traces import make_events

IDLE = ev.State(state="idle")
SIZES = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])


def plain_run() -> list[ev.Event]:
    """A run whose text can be read."""
    events = make_events(temperature=0.8, new_tokens=6)
    for event in events:
        if isinstance(event, ev.Commit):
            event.texts = [f"word{token} " for token in event.tokens]
    return events


RUN = plain_run()
ANSWER = "".join(text for event in RUN if isinstance(event, ev.Commit) for text in event.texts)


@pytest.fixture
def script() -> Script:
    return Script()


async def settle(pilot: Pilot[int], script: Script, *events: ev.Event) -> None:
    """One tick of the clock with these events."""
    script.play(events)
    main_of(pilot.app).tick()  # type: ignore[arg-type]
    await pilot.pause()


async def ready(pilot: Pilot[int], script: Script) -> MessageLine:
    """The models are there, and somebody has pressed the key that begins a message."""
    await settle(pilot, script, catalogue(talks=True), IDLE)
    await pilot.press("m")
    return pilot.app.screen.query_one(MessageLine)


def said(app: SpecvizApp) -> str:
    """The conversation as text, whatever of it is in sight."""
    parts = app.screen_stack[0].query("TalkView > Static").results(Static)
    return "\n".join(str(part.content) for part in parts if part.display)


def starts(script: Script) -> list[Start]:
    return [command for command in script.commands if isinstance(command, Start)]


@SIZES
async def test_keys_are_commands_until_a_message_is_begun(size: tuple[int, int], script: Script) -> None:
    """While models load, while an answer comes and behind its end; what is written is a message, and the footer says
    which of both it is."""
    app = live_app(script)
    async with app.run_test(size=size) as pilot:
        line, screen = app.screen.query_one(MessageLine), main_of(app)
        app.feed.names = ModelNames("smollm2", "")
        app.feed.say("hello", Start())
        for events in ([], [catalogue(talks=True), IDLE], RUN[:-1], [RUN[-1], IDLE]):
            await settle(pilot, script, *events)
            await pilot.press("K")
            assert isinstance(app.focused, KnobPanel)
            await pilot.press("escape", "question_mark")
            assert isinstance(app.screen, PageScreen)
            await pilot.press("escape")
            assert "q quit" in lines(app)[-1]
            assert line.value == ""
        await pilot.press("space")
        assert screen.feed.player.playing
        await pilot.press("m", "q", "space")
        await settle(pilot, script)
        assert line.value == "q "
        assert "enter says it" in lines(app)[-1]
        assert "q quit" not in lines(app)[-1].replace("ctrl+q quits", "")
        await pilot.press("ctrl+c")
        assert [note.message for note in app._notifications] == ["ctrl+q quits"]
        await pilot.press("escape", "q")
        assert app.return_code == 0


async def test_a_click_begins_a_message_and_enter_on_nothing_ends_it(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot, script, catalogue(talks=True), IDLE)
        await pilot.click(MessageLine)
        assert isinstance(app.focused, MessageLine)
        await pilot.press("enter")
        assert not isinstance(app.focused, MessageLine)
        assert not app._notifications


@SIZES
async def test_one_types_and_the_answer_streams(size: tuple[int, int], script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=size) as pilot:
        await ready(pilot, script)
        await pilot.press(*"hello", "enter")
        (start,) = starts(script)
        assert (start.prompt, start.chat, start.history) == ("hello", True, [])
        await settle(pilot, script, *RUN[:-1])
        assert "you hello" in said(app)
        assert "table word" in said(app)
        assert "word" in shown(app)
        assert not app.screen.query_one(TextStrip).display


async def test_one_asks_again_and_earlier_turns_stay(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        line = await ready(pilot, script)
        await pilot.press(*"hello", "enter")
        await settle(pilot, script, *RUN, IDLE)
        await pilot.press("m", *"more", "enter")
        assert line.value == ""
        assert starts(script)[-1].history == [Said(role="user", text="hello"), Said(role="assistant", text=ANSWER)]
        await settle(pilot, script)
        text = said(app)
        assert text.index("you hello") < text.index(ANSWER.split()[0]) < text.index("you more")


async def test_a_message_waits_and_a_second_one_stays_in_the_line(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        line = await ready(pilot, script)
        await pilot.press(*"one", "enter")
        await settle(pilot, script, *RUN[:-1])
        await pilot.press("m", *"two", "enter")
        await settle(pilot, script)
        assert "you two (waits)" in said(app)
        await pilot.press("m", *"three", "enter")
        await pilot.pause()
        assert line.value == "three"
        assert [note.message for note in app._notifications] == [
            "one message waits already: it is said when the answer is at its end"
        ]
        await settle(pilot, script, RUN[-1], IDLE)
        assert [start.prompt for start in starts(script)] == ["one", "two"]


async def test_ctrl_c_stops_the_answer_and_not_the_conversation(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        await pilot.press(*"hello", "enter")
        await settle(pilot, script, *RUN[:-1])
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert isinstance(script.commands[-1], Stop)
        await settle(pilot, script, ev.End(reason="stopped"), IDLE)
        assert "(stopped)" in said(app)
        await pilot.press("m", *"go on", "enter")
        assert len(starts(script)[-1].history) == 2
        await settle(pilot, script, *RUN[:-1])
        await pilot.press("escape", "ctrl+c")
        await pilot.pause()
        assert isinstance(script.commands[-1], Stop), "from anywhere on the screen"
        assert app.return_code is None


async def test_up_brings_back_what_was_said_and_examples_before_that(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        line = await ready(pilot, script)
        await pilot.press("up")
        assert line.value == next(iter(CHAT_EXAMPLES.values()))
        await pilot.press("down")
        assert line.value == ""
        await pilot.press(*"hello", "enter", "m", *"typ", "up")
        assert line.value == "hello"
        await pilot.press("down")
        assert line.value == "typ"


async def test_the_end_stays_in_sight_until_somebody_scrolls_up(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=NARROW) as pilot:
        await ready(pilot, script)
        view = app.screen.query_one(TalkView)
        await pilot.press(*"hello", "enter")
        for event in RUN[:-1]:  # every few rounds another line
            if isinstance(event, ev.Commit):
                event = msgspec.structs.replace(event, texts=[text + "\n" * 12 for text in event.texts])
            script.play([event])
            main_of(app).tick()
        await pilot.pause()
        await pilot.pause()
        assert view.max_scroll_y > 0
        assert view.scroll_y == view.max_scroll_y
        view.focus()
        view.scroll_home(animate=False)
        await settle(pilot, script, RUN[-1], IDLE)
        await pilot.press("m", *"more", "enter")
        await settle(pilot, script)
        await pilot.pause()
        assert view.scroll_y == view.max_scroll_y, "whoever asks wants to see the answer"


async def test_a_new_conversation_forgets(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        await pilot.press("escape", "N")
        await pilot.pause()
        assert [note.message for note in app._notifications] == ["nothing was said yet: m says something"]
        await pilot.press("m", *"hello", "enter")
        await settle(pilot, script, *RUN, IDLE)
        await pilot.press("escape", "N")
        await settle(pilot, script)
        assert "Type a message" in said(app)
        await pilot.press("m", *"again", "enter")
        assert starts(script)[-1].history == []


async def test_a_message_that_came_to_nothing_is_in_the_line_again(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        line = await ready(pilot, script)
        await pilot.press(*"long", "enter")
        await settle(pilot, script, ev.Refused(id=script.commands[0].id, message="longer than the context"))
        assert "longer than the context" in shown(app)
        await pilot.press("escape")
        await settle(pilot, script)
        assert line.value == "long"


async def test_a_model_that_goes_on_with_texts_has_no_line(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot, script, catalogue(), IDLE)
        assert isinstance(app.screen, StartScreen), "it is given a prompt"
        await pilot.press("escape", "m")
        await pilot.pause()
        assert not app.screen.query_one(MessageLine).display
        assert not app.screen.query_one(TalkView).display
        assert "goes on with texts" in app._notifications._notifications.popitem()[1].message


async def test_the_forms_of_the_text_come_behind_the_conversation(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        await pilot.press(*"hello", "enter", "escape")
        await settle(pilot, script, *RUN[:-1])
        seen = []
        for _ in range(4):
            await pilot.press("t")
            await pilot.pause()
            strip = app.screen.query_one(TextStrip)
            seen.append(strip.mode if strip.display else "conversation")
        assert seen == ["text", "tokens", "ids", "conversation"]


async def test_hostile_words_are_shown_and_do_nothing(script: Script) -> None:
    app = live_app(script)
    events = plain_run()
    for event in events:
        if isinstance(event, ev.Commit):
            event.texts = ["\x1b[31m[red]\u202e"] * len(event.texts)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        app.feed.say("\x1b[2J[bold]x", Start())
        await settle(pilot, script, *events, IDLE)
        app.feed.say("again", Start())
        await settle(pilot, script)
        screen = "".join(lines(app))
        assert "⟨1B⟩[2J[bold]x" in screen
        assert "⟨1B⟩[31m[red]" in screen
        assert "\x1b" not in screen


async def test_in_the_dialog_an_empty_message_takes_method_and_settings_over(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        await pilot.press(*"hello", "enter", "escape")
        await settle(pilot, script, *RUN, IDLE)
        await pilot.press("p")
        await pilot.pause()
        assert "Say something" in shown(app)
        await pilot.press(*["tab"] * 6, *"gamma=7", "ctrl+s")
        await pilot.pause()
        assert len(starts(script)) == 1, "nothing is decoded for it"
        await pilot.press("m", *"more", "enter")
        assert starts(script)[-1].knobs["gamma"] == 7
        assert len(starts(script)[-1].history) == 2


async def test_a_knob_moved_between_answers_is_for_the_next_message(script: Script) -> None:
    app = live_app(script)
    async with app.run_test(size=WIDE) as pilot:
        await ready(pilot, script)
        await pilot.press(*"hello", "enter")
        await settle(pilot, script, *RUN, IDLE)
        await pilot.press("K")
        main_of(app).controller.group(KnobActions).step("gamma", 1)
        await pilot.press("a")
        await settle(pilot, script)
        assert "the run has ended" not in shown(app)
        assert "next run: γ 4→5" in shown(app)
        assert [note.message for note in app._notifications] == ["kept for the next message: m writes it"]
        await pilot.press("m", *"more", "enter")
        await settle(pilot, script)
        assert starts(script)[-1].knobs["gamma"] == 5
        assert "next run" not in shown(app)
