"""What a lesson may ask and show, by name; every answer comes from the recording."""

from collections.abc import Callable, Mapping

from specviz.view.lessons.asks._scene import AskScene, Opener, moment_at
from specviz.view.lessons.asks.drafters import evidence, who
from specviz.view.lessons.asks.lanes import lanes_board, slower_side, thrown_away, waits
from specviz.view.lessons.asks.laws import law, laws_board, loosen, lossy_rule
from specviz.view.lessons.asks.payoff import best_length, break_even, drag_length, even_cost, payoff_board
from specviz.view.lessons.asks.rounds import first_lost, keep_chance, kept, move_u, n_kept, n_written, replaced
from specviz.view.lessons.asks.scans import (
    chances_board,
    deciding,
    makes_up,
    move_scan_u,
    other_rule,
    scan_board,
    tests_board,
)
from specviz.view.lessons.asks.trees import best_shape, likeliest, waste
from specviz.view.lessons.parts import LessonBoard, LessonQuestion

__all__ = ["ASKS", "BOARDS", "AskScene", "Opener", "moment_at"]

ASKS: Mapping[str, Callable[[AskScene], LessonQuestion]] = {
    ask.__name__: ask
    for ask in (
        n_kept,
        n_written,
        first_lost,
        kept,
        keep_chance,
        replaced,
        move_u,
        law,
        lossy_rule,
        loosen,
        waste,
        likeliest,
        best_shape,
        drag_length,
        best_length,
        break_even,
        even_cost,
        other_rule,
        deciding,
        makes_up,
        move_scan_u,
        thrown_away,
        waits,
        slower_side,
        who,
    )
}
BOARDS: Mapping[str, Callable[[AskScene], LessonBoard]] = {
    "laws": laws_board,
    "payoff": payoff_board,
    "tests": tests_board,
    "scan": scan_board,
    "chances": chances_board,
    "lanes": lanes_board,
    "evidence": evidence,
}
