"""`run --rounds` and `stats` on trees grown by calls: what a line says of a round, and the tables of a run."""

import io
from pathlib import Path

import pytest

from specviz import events as ev
from specviz.cli import main
from specviz.cli.printing import fan_out
from specviz.cli.run.lines import RoundLines
from specviz.metrics import measure
from specviz.runlog.fold import Run
from support.rank_trace import rank_events
from support.traces import write_trace


def lines(events: list[ev.Event], verbose: bool = False) -> list[str]:
    out = io.StringIO()
    run = Run(whole=False)
    written = fan_out(run.apply, RoundLines(run, out, verbose))
    for event in events:
        written(event)
    return out.getvalue().splitlines()


def test_a_line_says_how_the_tree_came_about() -> None:
    events = rank_events(temperature=0.8, new_tokens=30)
    trees = {event.r: event for event in events if isinstance(event, ev.TreeMade)}
    blocks = [event for event in events if isinstance(event, ev.Block)]
    checked = 0
    for line in lines(events):
        r = int(line[1:].split()[0])
        tree = trees.get(r)
        if tree is None:
            assert "offered" not in line
            continue
        starts = [sum(b.r == r and b.block == level for b in blocks) for level in (1, 2)]
        assert f"{tree.n_raw} offered" in line
        assert (f"{tree.n_merged} merged" in line) == (tree.n_merged > 0)
        assert line.endswith(f"{tree.n_kept} sent")
        assert (f"2 calls at {starts[0]}+{starts[1]} nodes" in line) == (starts[1] > 0)
        checked += 1
    assert checked > 5


def test_long_rows_of_rejected_siblings_are_counted() -> None:
    events = rank_events(temperature=0.9, beam=9, budget=30, new_tokens=40)
    rejected: dict[int, int] = {}
    for event in events:
        if isinstance(event, ev.Verify) and event.status == "rejected":
            rejected[event.r] = rejected.get(event.r, 0) + 1
    counted = 0
    for line in lines(events):
        spelled = line.split("→")[0].count("✗")
        r = int(line[1:].split()[0])
        rest = sum(int(word[2:]) - 1 for word in line.split() if word.startswith("✗+") and word[2:].isdigit())
        assert spelled + rest == rejected.get(r, 0)
        counted += rest > 0
    assert counted


def test_verbose_lines_say_why_the_round_ended() -> None:
    text = "\n".join(lines(rank_events(temperature=0.8, new_tokens=30), verbose=True))
    assert "would have had it" in text
    assert "but pruned" in text


def test_stats_show_buckets_widths_slots_blocks_and_learning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = rank_events(temperature=0.8, queries=3, learns=True)
    assert main(["stats", str(write_trace(tmp_path / "run", events))]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for name in ("bucket_confusion", "coverage", "slot_accuracy", "block_counts", "depth_counts", "adapted"):
        assert name in out
    metrics = measure(events)
    assert metrics.bucket_confusion is not None
    row = next(line for line in out.splitlines() if line.startswith("predicted 2–4"))
    counts = [metrics.bucket_confusion["all_kept"][true][1] for true in range(4)]
    assert [int(word) for word in row.split()[2:6]] == counts
    assert main(["stats", str(write_trace(tmp_path / "again", events)), "--json"]) == 0
    assert '"bucket_confusion"' in capsys.readouterr().out
