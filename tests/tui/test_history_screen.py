"""Screen 7: tables of the panel can be walked, sorted and followed into the tree."""

from pathlib import Path

import pytest

from specviz.view.panels.history.build import HistoryPanel
from support.live import NARROW, WIDE, main_of, replay_app, shown


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_a_line_leads_to_its_token(size: tuple[int, int], chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=size) as pilot:
        await pilot.press("7")
        await pilot.pause()
        model = HistoryPanel.of(main_of(app).frame)
        assert model is not None
        table = next(block for block in model.blocks if getattr(block, "key", "") == "history-tokens")
        await pilot.press("down", "enter")
        await pilot.pause()
        frame, place = main_of(app).frame, table.places[1]  # type: ignore[union-attr]
        assert frame is not None
        assert (frame.timeline.index, frame.selected) == (place.index, place.node)
        assert "Draft tree" in shown(app) or "Why" in shown(app)


async def test_a_table_is_sorted_by_its_columns(chain_trace: Path) -> None:
    app = replay_app(chain_trace)
    async with app.run_test(size=(140, 90)) as pilot:
        await pilot.press("7", "v")  # the second table: rounds
        await pilot.press(*["right"] * 4)
        await pilot.pause()
        screen = shown(app)
        assert "tokens ▾" in screen

        def column() -> list[int]:
            lines = shown(app).splitlines()
            head = next(k for k, line in enumerate(lines) if "tokens ▾" in line or "tokens ▴" in line)
            rows = (line.strip("│ ").split() for line in lines[head + 1 :])
            numbers = []
            for row in rows:
                if not row or not row[0].startswith("r"):
                    break
                numbers.append(int([cell for cell in row if cell.isdigit()][2]))
            return numbers

        assert len(column()) > 5
        assert column() == sorted(column(), reverse=True)
        await pilot.press("s")
        await pilot.pause()
        assert "tokens ▴" in shown(app)
        assert column() == sorted(column())
