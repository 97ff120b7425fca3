"""Counts that pages keep: what they hold of a run, and that they come back as they were written."""

from pathlib import Path

import pytest

from specviz.commands import Prompt
from specviz.engine.run.local import load_pair
from specviz.errors import SpecvizError
from specviz.events import Header
from specviz.runlog.fold import fold
from specviz.trace import read_events
from specviz.trace.bundled import bundled_traces
from specviz.traits import CAPPED, TOKENWISE
from specviz_lab.papers import kept
from specviz_lab.papers.chains import chains_of
from specviz_lab.papers.decoded import Arm, decode
from specviz_lab.papers.recomputed.hsd import kept_by_length


def test_every_prompt_of_a_stream_is_counted_by_itself() -> None:
    prompts = [Prompt(text="1 2 3 4 5"), Prompt(text="def f(x):\n    return")]
    pair = load_pair(None, needs_draft=False, threads=1)
    plain = list(decode(pair, Arm("plain", "ar"), prompts, 12))
    trees = list(decode(pair, Arm("tree", "specblock", {"node_budget": 8}), prompts, 12))
    assert [of["tokens"] for of in trees] == [of["tokens"] for of in plain] == [of["rounds"] for of in plain]
    for of in trees:
        assert of["rounds"] < of["tokens"]
        assert of["nodes"] <= 8 * of["rounds"]
        assert of["rounds"] < of["calls"] <= 2 * of["rounds"]
        assert of["rows"] > of["calls"]


def test_counts_come_back_as_they_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "papers")
    kept_counts = {"a line 1": {"x": {"tokens": 4, "rounds": 2}}, "a line 2": {"x": {"tokens": 9, "rounds": 4}}}
    kept.keep_counts("toy", "first", kept_counts, "some command")
    kept.keep_counts("toy", "second", {"b": {"x": {"tokens": 1}}}, "another")
    back, note = kept.counts("toy", "first")
    assert back == kept_counts
    assert note.endswith(": `some command`")
    assert kept.ratio((arms["x"] for arms in back.values()), "tokens", "rounds").value == 13 / 6
    with pytest.raises(SpecvizError, match=r"toy\.json of benchmarks/papers has no counts of third"):
        kept.counts("toy", "third")


def test_a_shorter_draft_is_the_first_tokens_of_a_longer_one() -> None:
    run = fold(read_events(bundled_traces()["explain-draft"]))
    assert isinstance(run.header, Header)
    chains = list(chains_of(run, ""))
    by_length = kept_by_length(run)
    assert chains
    longest = by_length["10"]
    assert longest["rounds"] == len(chains)
    assert longest[CAPPED] == pytest.approx(sum(chain.expected(CAPPED) for chain in chains), abs=1e-3)
    grown = [by_length[gamma][TOKENWISE] for gamma in by_length]
    assert grown == sorted(grown)
    assert grown[0] < grown[-1]
