"""Looks of the tree with what stands beside it: dark, light, without colour, in ASCII. Renewed as the others are."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.live import WIDE, replay_app

Compare = Callable[..., bool]
FULL = (200, 50)
ROUND = ["]", "]"]


@pytest.mark.parametrize("look", ["dark", "light", "no-color", "ascii"])
def test_the_whole_width(look: str, snap_compare: Compare, tree_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if look == "no-color":
        monkeypatch.setenv("NO_COLOR", "1")
    app = replay_app(tree_trace, ascii=look == "ascii")
    assert snap_compare(app, terminal_size=FULL, press=[*ROUND, *(["T"] if look == "light" else [])])


def test_the_tree_alone(snap_compare: Compare, tree_trace: Path) -> None:
    assert snap_compare(replay_app(tree_trace), terminal_size=WIDE, press=[*ROUND, "O"])
