"""`keys.toml`: keys of one's own are bound, printed in footer and help; what cannot be meant is one line."""

from pathlib import Path

import pytest

from specviz.errors import SpecvizError
from specviz_tui.actions.live import LiveActions
from specviz_tui.actions.talking import TalkActions
from specviz_tui.app import SpecvizApp
from specviz_tui.common.key_tables import key_tables, screen_keys
from specviz_tui.common.remapped import own_keys, remapped
from specviz_tui.screens.library import Library
from specviz_tui.screens.main import MainScreen
from support.live import WIDE, Script, lines, live_app, shown


def written(folder: Path, text: str) -> Path:
    path = folder / "keys.toml"
    path.write_text(text)
    return path


def test_without_a_file_nothing_changes(tmp_path: Path) -> None:
    assert own_keys(tmp_path / "keys.toml") == {}
    assert remapped(screen_keys(), {}) == screen_keys()


def test_ids_may_stand_with_quotes_and_without(tmp_path: Path) -> None:
    keys = own_keys(written(tmp_path, '"round.next" = "f"\nround.previous = "ctrl+n, f5"\nquit = ";"'))
    assert keys == {"round.next": "f", "round.previous": "ctrl+n,f5", "quit": ";"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"round.nxt" = "n"', "no action 'round.nxt'; did you mean 'round.next'"),
        ("quit = 3", "quit takes keys as a text"),
        ('quit = ""', "quit takes keys as a text"),
        ('quit = "pagdown"', "quit: no key 'pagdown'; did you mean 'pagedown'"),
        ('quit = "hyper+q"', "quit: no key 'hyper+q'"),
        ('quit = "v"', "'v' is both"),
        ("quit = ", "keys.toml: "),
    ],
)
def test_what_cannot_be_meant_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecvizError) as error:
        own_keys(written(tmp_path, text))
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)


def test_no_table_has_a_clash_of_its_own() -> None:
    for table in key_tables():
        keys = [name for key in table for name in key.keys.split(",")]
        assert len(keys) == len(set(keys))


async def test_footer_help_and_binding_follow(chain_trace: Path) -> None:
    own = {"round.next": "f,ctrl+n", "help": "f2"}  # f is free in a recording
    library = Library(animate=False, look=list, keys=own)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        main = app.screen
        assert isinstance(main, MainScreen)
        assert main.frame is not None
        assert main.frame.round == 1
        await pilot.press("f")
        await pilot.pause()
        assert main.frame.round == 2
        await pilot.press("]")
        await pilot.pause()
        assert main.frame.round == 2, "the key it had before does nothing any more"
        assert "f2 help" in lines(app)[-1]
        await pilot.press("f2")
        await pilot.pause()
        assert app.screen is not main
        assert "f ^n" in shown(app)


async def test_the_help_page_begins_with_the_screen_it_was_asked_on(chain_trace: Path) -> None:
    library = Library(animate=False, look=list)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("6", "question_mark")
        await pilot.pause()
        titles = [line.strip("│ ") for line in lines(app) if line.strip("│ ") in ("Time", "Tree", "Overview")]
        assert titles[0] == "Overview"


async def test_the_palette_has_every_key_and_runs_those_of_other_screens(chain_trace: Path) -> None:
    library = Library(animate=False, look=list)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        main = app.screen
        assert isinstance(main, MainScreen)
        commands = {command.title: command for command in app.get_system_commands(main)}
        missing = {key.id for table in key_tables() for key in table if key.help not in commands}
        assert missing == {
            "palette",
            "two",
            *(key.id for key in LiveActions.KEYS),
            *(key.id for key in TalkActions.KEYS),
        }
        commands["the measured or the modelled clock"].callback()
        await pilot.pause()
        assert main.shown == "lanes"


async def test_with_a_core_the_palette_has_every_key() -> None:
    app = live_app(Script())
    async with app.run_test(size=(220, 36)) as pilot:
        await pilot.pause()
        titles = {command.title for command in app.get_system_commands(app.screen_stack[0])}
        assert {key.id for table in key_tables() for key in table if key.help not in titles} == {"palette"}


async def test_a_wide_footer_names_lessons_compare_find_export_and_bookmarks(chain_trace: Path) -> None:
    library = Library(animate=False, look=list)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=(220, 36)) as pilot:
        await pilot.pause()
        footer = lines(app)[-1]
        for words in ("L learn", "C compare", "/ find", "e export", "b bookmark"):
            assert words in footer
        assert "A/B" not in footer, "a recording is decoded under one setting"


@pytest.mark.parametrize(
    "word", ["tok/round", "kept/drafted", "kept/tested", "tok/s", "±", "overhead", "measured", "▁"]
)
async def test_the_help_page_explains_what_stands_on_top(word: str, chain_trace: Path) -> None:
    library = Library(animate=False, look=list)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=(120, 160)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        page = [line for line in lines(app)[6:] if f" {word} " in line]  # behind it stands the header
        assert any(len(line.strip("│ ").split(word, 1)[-1].split()) > 2 for line in page)
