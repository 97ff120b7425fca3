"""Groups of actions by themselves: without an application, handed a controller that only remembers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.view import Options, Player
from specviz_tui.actions.finding import FindActions
from specviz_tui.actions.looking import LookActions
from specviz_tui.actions.moving import MovingActions
from specviz_tui.actions.seeking import SeekActions
from specviz_tui.common.actions import PREFIX, Actions, all_actions
from specviz_tui.common.frame_widget import SeekAsked


class Controller:
    """Goes nowhere; remembers what it was asked."""

    def __init__(self, trace: Path) -> None:
        self.feed = SimpleNamespace(
            player=Player(fold(read_events(str(trace)))), options=Options(), running=False, held=False
        )
        self.moved: list[bool] = []
        self.selected: int | None = None
        self.line = ""
        self.lets = True
        self.screen = SimpleNamespace(app=SimpleNamespace(clear_notifications=lambda: None))

    def go(self, moved: bool = True) -> None:
        self.moved.append(moved)

    def select(self, node: int | None) -> None:
        self.selected = node

    def change(self, **options: Any) -> None:
        for name, value in options.items():
            setattr(self.feed, name, value)

    def allows(self, action: str) -> bool:
        return self.lets

    def widget(self, kind: object) -> Any:
        return SimpleNamespace(say=self._say)

    def _say(self, wanted: str, line: str) -> None:
        self.line = line


@pytest.fixture
def controller(tree_trace: Path) -> Controller:
    return Controller(tree_trace)


@pytest.mark.parametrize("group", all_actions(), ids=lambda group: group.__name__)
def test_the_keys_of_a_group_do_actions_of_its_own(group: type[Actions]) -> None:
    named = {PREFIX + key.action.partition("(")[0] for key in group.KEYS}
    assert {name for name in named if not hasattr(group, name)} == set()


def test_no_two_groups_have_an_action_of_one_name() -> None:
    names = [name for group in all_actions() for name in dir(group) if name.startswith(PREFIX)]
    assert len(names) == len(set(names))


def test_moving_goes_to_the_next_round_and_stops_at_the_first(controller: Controller) -> None:
    moving = MovingActions(controller)  # type: ignore[arg-type]
    moving.action_first()
    moving.action_round(1)
    assert controller.feed.player.cursor.index == 1
    for _ in range(3):
        moving.action_round(-1)
    assert (controller.feed.player.cursor.index, controller.moved[-1]) == (0, False)


def test_a_click_on_the_time_line_moves_only_where_moving_is_allowed(controller: Controller) -> None:
    moving = MovingActions(controller)  # type: ignore[arg-type]
    moving.action_first()
    controller.lets = False
    moving.heard(SeekAsked(2))
    assert controller.feed.player.cursor.index == 0
    controller.lets = True
    moving.heard(SeekAsked(2))
    assert controller.feed.player.cursor.index == 2


def test_a_place_with_a_node_selects_it(controller: Controller) -> None:
    SeekActions(controller).seek("r2/n0")  # type: ignore[arg-type]
    assert (controller.feed.player.cursor.index, controller.selected) == (1, 0)


def test_finding_goes_on_from_match_to_match_until_it_is_left(controller: Controller) -> None:
    finding, places = FindActions(controller), []  # type: ignore[arg-type]
    controller.feed.player.first()
    finding.find("rejected")
    for _ in range(3):
        places.append((controller.feed.player.cursor.index, controller.selected))
        controller.feed.options = Options(selected=controller.selected)
        finding.action_match(1)
    assert places == sorted(set(places))
    assert controller.line
    assert finding.leave()
    assert (finding.looks, finding.leave(), controller.line) == (False, False, "")


def test_folding_is_turned_on_and_off(controller: Controller) -> None:
    looking = LookActions(controller)  # type: ignore[arg-type]
    looking.action_fold()
    assert controller.feed.folding == "losers"
    controller.feed.options = Options(folding="losers")
    looking.action_fold()
    assert controller.feed.folding == "pruned"
