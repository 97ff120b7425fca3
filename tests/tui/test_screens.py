"""Sizes, colour, ASCII, hostile text, and that the tables of keys tell the truth."""

from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from specviz.view.panels.built import block_panels
from specviz_tui.app import SpecvizApp
from specviz_tui.common import key_tables, keymap, pane
from specviz_tui.common.actions import all_actions
from specviz_tui.common.frame_widget import FrameWidget, PanelBox
from specviz_tui.common.paint import Painter
from specviz_tui.panels.exits import LayersPane
from specviz_tui.panels.lanes import LanesPane
from specviz_tui.panels.overview import OverviewPane
from specviz_tui.panels.ranks import RanksPane
from specviz_tui.panels.verification import ScanPane
from specviz_tui.screens.dialogs import PickScreen
from specviz_tui.screens.library import Library
from specviz_tui.screens.main import MainScreen
from specviz_tui.screens.page import guide_page, help_page, pages
from specviz_tui.widgets.knob_bar import KnobPanel
from specviz_tui.widgets.text_strip import _last, _lines
from specviz_tui.widgets.tree import TreeCanvas
from specviz_tui.widgets.tree_line import cut_to
from specviz_tui.widgets.why_panel import WhyPanel
from support.live import NARROW, WIDE, lines, recorded, replay_app, shown

SIZES = [(60, 18), (80, 24), (100, 30), (120, 24), (120, 36), (200, 50)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["chain_trace", "tree_trace"])
async def test_the_screen_is_filled_exactly(size: tuple[int, int], name: str, request: pytest.FixtureRequest) -> None:
    app = replay_app(request.getfixturevalue(name))
    async with app.run_test(size=size) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        rows = lines(app)
        assert len(rows) == size[1]
        assert {cell_len(row) for row in rows} == {size[0]}
        assert "r1/" in shown(app) or "r2/" in shown(app) or "r3/" in shown(app)


@pytest.mark.parametrize("size", [(59, 30), (100, 17)])
async def test_too_small_a_terminal_is_told_the_size_it_needs(size: tuple[int, int], chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "60×18" in shown(app)
        assert "Draft tree" not in shown(app)
        await pilot.resize_terminal(*NARROW)
        await pilot.pause()
        assert "60×18" not in shown(app)


async def test_narrow_screens_collapse_in_order(tree_trace: Path) -> None:
    app = replay_app(tree_trace)
    async with app.run_test(size=NARROW) as pilot:
        await pilot.pause()
        screen = app.screen
        assert screen.query_one(TreeCanvas).listed
        assert screen.query_one(KnobPanel).size.height == 1
        assert screen.query_one("#text").size.height == 1
        assert screen.query_one(WhyPanel).display, "there are lines for it"
        assert not screen.query_one("#sparkline").display
        await pilot.resize_terminal(80, 18)
        await pilot.pause()
        screen.paint()
        await pilot.pause()
        assert not screen.query_one(WhyPanel).display
        await pilot.resize_terminal(*WIDE)
        await pilot.pause()
        assert not screen.query_one(TreeCanvas).listed
        assert screen.query_one(WhyPanel).display
        assert screen.query_one("#sparkline").display


async def test_no_color_sends_no_colour(chain_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def coloured(app: SpecvizApp) -> set[str]:
        styles = [segment.style for strip in app.screen._compositor.render_strips() for segment in strip]
        return {str(c) for s in styles if s for c in (s.color, s.bgcolor) if c is not None and not c.is_default}

    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert coloured(app)
        text = shown(app)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = replay_app(chain_trace)
    async with plain.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert not coloured(plain)
        assert shown(plain) == text


@pytest.mark.parametrize("keys", [[], ["question_mark"], ["g"], ["f1"], ["enter"]])
async def test_ascii_mode_shows_nothing_else(chain_trace: Path, keys: list[str]) -> None:
    app = replay_app(chain_trace, ascii=True)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        assert [row for row in lines(app) if not row.isascii()] == []
        assert {len(row) for row in lines(app)} == {WIDE[0]}


async def test_token_text_cannot_act(tmp_path: Path) -> None:
    app = replay_app(recorded(tmp_path, "hostile", temperature=1.2, new_tokens=60, seed=3))
    async with app.run_test(size=(160, 48)) as pilot:
        text = ""
        for _ in range(8):
            await pilot.press("]")
            await pilot.pause()
            text += shown(app)
        assert "\x1b" not in text
        assert "[red]" in text
        assert "⟨1B⟩" in text


async def test_the_clock_paints_once_per_tick(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, MainScreen)
        painted: list[object] = []
        screen.watch(screen, "frame", lambda frame: painted.append(frame), init=False)
        for _ in range(5):
            screen.action_round(1)  # a burst within one turn of the loop
        await pilot.pause()
        assert len(painted) == 1
        assert screen.frame is not None
        assert screen.frame.round == 6


async def test_with_nothing_named_a_list_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain_trace: Path
) -> None:
    recorded(tmp_path, "mine", new_tokens=8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specviz_tui.screens.library.bundled_traces", lambda: {"chain": chain_trace})
    app = SpecvizApp(Library(animate=False, look=list))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, PickScreen)
        assert "chain" in shown(app)
        assert "mine" in shown(app)
        await app.workers.wait_for_complete()  # the models are looked for
        await pilot.press("j", "j", "enter")
        await pilot.pause()
        assert isinstance(app.screen, MainScreen)
        assert app.screen.frame is not None
        assert app.screen.frame.round == 1
        await pilot.press("o")
        await app.workers.wait_for_complete()
        await pilot.press(*"jjj", "enter")
        await pilot.pause()
        assert app.feed.name == "mine"
        await app.workers.wait_for_complete()


TABLES = [
    (key_tables.screen_keys(), MainScreen),
    (keymap.TREE_KEYS, TreeCanvas),
    (LayersPane.KEYS, LayersPane),
    (LanesPane.KEYS, LanesPane),
    (RanksPane.KEYS, RanksPane),
    (ScanPane.KEYS, ScanPane),
    (OverviewPane.KEYS, OverviewPane),
    *((pane_class.KEYS, pane_class) for pane_class in map(pane.block_pane, block_panels())),
    (keymap.KNOB_KEYS, KnobPanel),
]


def test_the_help_page_is_made_of_the_tables_that_are_bound() -> None:
    assert [table for table, _ in TABLES] == list(key_tables.key_tables())


@pytest.mark.parametrize(("table", "owner"), TABLES)
def test_every_key_has_an_action_and_its_own_place(table: tuple[keymap.Key, ...], owner: type[Widget]) -> None:
    owners = (owner, *all_actions()) if owner is MainScreen else (owner,)
    names = [(key.id, "action_" + key.action.partition("(")[0]) for key in table]
    assert {id: n for id, name in names if (n := sum(hasattr(owner, name) for owner in owners)) != 1} == {}
    keys = [name for key in table for name in key.keys.split(",")]
    assert len(keys) == len(set(keys))
    assert len({key.id for key in table}) == len(table)


def test_ids_are_unique_over_all_tables() -> None:
    ids = [key.id for table, _ in TABLES for key in table]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", [80, 120])
async def test_the_help_page_names_every_key(chain_trace: Path, width: int) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=(width, 190)) as pilot:
        app.push_screen(help_page(Painter(), width))
        await pilot.pause()
        page = " ".join(shown(app).split())
        missing = [key.id for table, _ in TABLES for key in table if key.caps not in page]
        assert missing == []


async def test_f1_explains_the_focused_panel(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        for panel, title in (("#tree", "Draft tree"), ("#knobs", "Knobs"), ("#why", "Why"), ("#text", "Text")):
            app.screen.query_one(panel).focus()
            await pilot.press("f1")
            await pilot.pause()
            assert guide_page(app.screen_stack[0].query_one(panel).EXPLAIN)[0] == title  # type: ignore[attr-defined]
            assert guide_page(app.screen_stack[0].query_one(panel).EXPLAIN)[1][:30] in shown(app)  # type: ignore[attr-defined]
            await pilot.press("escape")


def test_every_panel_has_its_page() -> None:
    boxes = [box for box in FrameWidget.__subclasses__() if box is not PanelBox]  # it has that of its pane
    panels = [TreeCanvas, WhyPanel, *pane.all_panes(), *boxes]
    assert [panel.__name__ for panel in panels if panel.EXPLAIN not in pages()] == []


def test_no_part_of_the_screen_hides_what_another_does_for_itself() -> None:
    """Keys are handled by mix-ins: a private name that stands in two of them silently replaces one by the other."""
    owners: dict[str, list[str]] = {}
    for part in MainScreen.__mro__:
        if part.__module__.startswith("specviz_tui."):
            for name, value in vars(part).items():
                if name.startswith("_") and not name.startswith("__") and callable(value):
                    owners.setdefault(name, []).append(part.__name__)
    assert {name: parts for name, parts in owners.items() if len(parts) > 1} == {}


async def test_the_theme_chosen_last_is_there_again_and_one_that_is_asked_for_is_not_kept(chain_trace: Path) -> None:
    library = Library(animate=False, look=list)
    app = SpecvizApp(library, library.trace(chain_trace))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("T")
        await pilot.pause()
        chosen = app.theme
    asked = Library(animate=False, look=list, theme="nord")
    for theme, wanted in ((library, chosen), (asked, "nord"), (library, chosen)):
        app = SpecvizApp(theme, theme.trace(chain_trace))
        async with app.run_test(size=WIDE) as pilot:
            await pilot.pause()
            assert app.theme == wanted


async def test_the_palette_offers_what_can_be_done_before_the_pages_of_the_guide(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE):
        titles = sorted(command.title for command in app.get_system_commands(app.screen))
        assert not any(title.lower().startswith("explain:") for title in titles[:15])


def test_text_breaks_between_words_and_marks_what_it_leaves_out() -> None:
    text = Text("The✓ sky✓ is✓ bluebluebluebluebluebluebluebluebluebluebluee✓ indeed✓")
    broken = _lines(text, 20)
    assert "".join(line.plain for line in broken).replace(" ", "") == text.plain.replace(" ", "")
    assert broken[0].plain == "The✓ sky✓ is✓"
    assert max(line.cell_len for line in broken) <= 20
    assert _last(broken, 2)[0].plain.startswith("…")


@pytest.mark.parametrize(
    ("words", "seen"), [("seven", "seven  "), ("7 cells", "7 cells"), ("a longer line", "a long…")]
)
def test_a_line_that_is_cut_says_so(words: str, seen: str) -> None:
    assert cut_to(Strip([Segment(words)]), 7, Style()).text == seen
