"""Tokens drafted beside the target's pass: marks and words before, in and after the round that settles them."""

import pytest

from specviz import events as ev
from specviz.runlog.fold import fold
from specviz.view import Cursor, Feed, Options, Run
from specviz.view.frame.frame import Frame
from specviz.view.play.build import FrameBuilder
from support.branch_trace import worked
from support.traces import Recipe, make_header


@pytest.fixture
def run() -> Run:
    header = make_header(Recipe(temperature=0.0), method="specbranch", drafter="branch", verifier="walk")
    prefill = ev.Prefill(prompt=[1] * 11, text="p", n_prompt=11, seed=0, dur_ns=1)
    return fold([header, prefill, *[event for records in worked() for event in records]])


def frame(run: Run, index: int, node: int) -> Frame:
    return FrameBuilder(run).frame(Cursor(index), Options(selected=node, folding="none"), Feed())


def mark(run: Run, index: int, node: int) -> str:
    shown_node = frame(run, index, node).tree.node(node)
    assert shown_node is not None
    return shown_node.mark


def words(run: Run, index: int, node: int) -> str:
    why = frame(run, index, node).why
    assert why is not None
    assert why.node == node
    return why.words


def test_the_rest_of_the_hit_branch_waits_for_the_next_round(run: Run) -> None:
    assert [mark(run, 0, node) for node in (7, 11, 15)] == ["drafted"] * 3
    assert "the next round judges" in words(run, 0, 7)
    assert [mark(run, 1, node) for node in (7, 11, 15)] == ["accepted", "rejected", "untested"]


def test_the_other_branches_say_why_they_are_void(run: Run) -> None:
    assert mark(run, 0, 6) == "untested"
    assert "Another branch begins with the target's token" in words(run, 0, 6)
    assert "a token before was rejected" in words(run, 1, 19)
    assert "no branch begins with" in words(run, 2, 23)
