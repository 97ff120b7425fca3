"""Every word on every screen can be read in every theme that is offered."""

from pathlib import Path

import pytest

from specviz.view.words.palette import LEAST, contrast
from specviz_tui.app import SpecvizApp
from specviz_tui.common.filters import is_text
from specviz_tui.common.paint import THEMES, painter_of
from support.live import WIDE, replay_app


def faint(app: SpecvizApp) -> tuple[int, list[tuple[str, float]]]:
    """How many pieces of text are painted, and those whose contrast is too small."""
    n, hard_to_read = 0, []
    ground = tuple(app.screen.background_colors[1].rich_color.triplet or ())
    for strip in app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if not is_text(text):
                continue
            assert style is not None
            assert style.color is not None, text
            assert style.color.triplet is not None, text
            assert not style.dim, f"{text}: dim is a blend that only the terminal knows"
            behind = tuple(style.bgcolor.triplet) if style.bgcolor and style.bgcolor.triplet else ground
            n += 1
            ratio = contrast(tuple(style.color.triplet), behind)  # type: ignore[arg-type]
            hard_to_read += [(text, ratio)] if ratio < LEAST else []
    return n, hard_to_read


@pytest.mark.parametrize("theme", THEMES)
async def test_every_word_can_be_read(theme: str, tree_trace: Path, exit_trace_file: Path) -> None:
    tours = (
        (tree_trace, ["v", "3", "5", "6", "question_mark", "escape", "o"]),
        (exit_trace_file, ["2", "K", "escape", "b"]),
    )
    for trace, keys in tours:
        app = replay_app(trace)
        async with app.run_test(size=WIDE) as pilot:
            app.theme = theme
            for key in ("right_curly_bracket", *keys):
                await pilot.press(key)
                await pilot.pause()
                n, hard_to_read = faint(app)
                assert n > 50
                assert hard_to_read == [], f"{theme}, after {key}"


async def test_a_terminal_with_sixteen_colours_gets_tones_of_its_own(
    chain_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert not painter_of(app).sixteen
        monkeypatch.setattr(type(app.console), "color_system", "standard")
        painter = painter_of(app)
        assert painter.sixteen
        assert painter.mark("rejected").color != painter.mark("drafted").color
        assert painter.mark("rejected").color.triplet == (0xFF, 0x55, 0x55)  # type: ignore[union-attr]
