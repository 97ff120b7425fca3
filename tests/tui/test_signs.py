"""A space of a token is never mistaken for an underscore: in ASCII and where a terminal has 16 colours it has a sign of
its own, and the bars of a sparkline stay bars."""

from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color

from specviz.text import SPACE, SPACE_ASCII, SPACE_PLAIN
from specviz_tui.common.filters import AsciiOnly, Blanks
from specviz_tui.common.paint import BARRED, PLAIN
from support.live import WIDE, lines, replay_app

WORD, BARS = Segment("▁a_b", PLAIN), Segment("▁▂█", BARRED)
BOX = [Segment("▊", PLAIN), Segment("▁▁▁", PLAIN), Segment("▎", PLAIN)]  # the lower edge of a field


def painted(filter_: AsciiOnly | Blanks) -> list[str]:
    return [segment.text for segment in filter_.apply([WORD, BARS, *BOX], Color(0, 0, 0))]


def test_spaces_and_underscores_stay_apart() -> None:
    assert painted(AsciiOnly()) == [f"{SPACE_ASCII}a_b", "_.#", "#", "___", "-"]
    assert painted(Blanks()) == [f"{SPACE_PLAIN}a_b", BARS.text, "▊", "▁▁▁", "▎"]
    assert len({SPACE, SPACE_ASCII, SPACE_PLAIN, "_"}) == 4


@pytest.mark.parametrize(("look", "sign"), [("ascii", SPACE_ASCII), ("sixteen", SPACE_PLAIN), ("colour", SPACE)])
async def test_the_help_names_the_sign_that_is_on_screen(
    look: str, sign: str, tree_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = replay_app(tree_trace, ascii=look == "ascii")
    if look == "sixteen":
        monkeypatch.setattr(type(app.console), "color_system", "standard")
    async with app.run_test(size=(WIDE[0], 110)) as pilot:
        await pilot.press("right_curly_bracket")
        await pilot.pause()
        words = [line for line in lines(app) if "u" in line]
        assert any(f" {sign}" in line for line in words), "a token that begins with a space"
        if sign != SPACE:
            assert SPACE not in "".join(line for line in lines(app) if "tok/round" not in line)
        await pilot.press("question_mark")
        await pilot.pause()
        help_line = next((line for line in lines(app) if "a space; an" in line), "")
        assert f" {sign} " in help_line
