"""Looks, at fixed sizes: colour, NO_COLOR and ASCII. Renewed by pytest with `--snapshot-update`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.live import NARROW, WIDE, replay_app

Compare = Callable[..., bool]
REJECTION = ["right_curly_bracket"]


@pytest.mark.parametrize(
    ("name", "size"),
    [("chain_trace", WIDE), ("tree_trace", WIDE), ("tree_trace", NARROW)],
    ids=["chain-wide", "tree-wide", "tree-narrow"],
)
def test_replay(name: str, size: tuple[int, int], snap_compare: Compare, request: pytest.FixtureRequest) -> None:
    assert snap_compare(replay_app(request.getfixturevalue(name)), terminal_size=size, press=REJECTION)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_scan(size: tuple[int, int], snap_compare: Compare, case_d: Path) -> None:
    assert snap_compare(replay_app(case_d), terminal_size=size, press=["5"])


def test_scan_in_the_middle(snap_compare: Compare, case_d: Path) -> None:
    assert snap_compare(replay_app(case_d), terminal_size=WIDE, press=["5", *["comma"] * 3])


def test_no_color(snap_compare: Compare, chain_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(replay_app(chain_trace), terminal_size=WIDE, press=REJECTION)


def test_ascii_with_the_sheet_open(snap_compare: Compare, tree_trace: Path) -> None:
    assert snap_compare(replay_app(tree_trace, ascii=True), terminal_size=NARROW, press=[*REJECTION, "enter"])


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_layers(size: tuple[int, int], snap_compare: Compare, exit_trace_file: Path) -> None:
    assert snap_compare(replay_app(exit_trace_file), terminal_size=size, press=["2", *["]"] * 3, "left"])


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_lanes(size: tuple[int, int], snap_compare: Compare, branched: Path) -> None:
    assert snap_compare(replay_app(branched), terminal_size=size, press=["3", "c", "end"])


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_ranks(size: tuple[int, int], snap_compare: Compare, ranked: Path) -> None:
    assert snap_compare(replay_app(ranked), terminal_size=size, press=["4", "]", "]"])


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_overview(size: tuple[int, int], snap_compare: Compare, tree_trace: Path) -> None:
    assert snap_compare(replay_app(tree_trace), terminal_size=size, press=["6"])


def test_rank_buckets(snap_compare: Compare, ranked: Path) -> None:
    assert snap_compare(replay_app(ranked), terminal_size=WIDE, press=["4", "v", "down", "right", "enter"])


def test_rank_buckets_in_ascii(snap_compare: Compare, ranked: Path) -> None:
    assert snap_compare(replay_app(ranked, ascii=True), terminal_size=NARROW, press=["4", "v", "v", "f"])


def test_learning(snap_compare: Compare, learning: Path) -> None:
    assert snap_compare(replay_app(learning), terminal_size=WIDE, press=["8", "down", "down"])
