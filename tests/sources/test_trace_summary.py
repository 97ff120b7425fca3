"""What a recording shows, from its ends alone: the same as the whole says, and nothing for what is no trace."""

from pathlib import Path

import pytest

from specviz.numerals import number
from specviz.sources.bundled import bundled_traces
from specviz.sources.trace_summary import trace_summary
from specviz.trace import Recorder, read_events
from support.traces import make_events, write_trace


@pytest.mark.parametrize("name", ["explain-draft", "sum-eagle3", "translate-ar"])
def test_it_says_what_the_whole_trace_says(name: str) -> None:
    path = bundled_traces()[name]
    summary, events = trace_summary(path), read_events(path)
    header, end = events[0], events[-1]
    assert summary is not None
    assert (summary.method, summary.verifier) == (header.method, header.verifier)  # type: ignore[attr-defined]
    assert (summary.n_rounds, summary.n_tokens) == (end.totals["n_rounds"], end.totals["n_new_tokens"])  # type: ignore[attr-defined]
    assert summary.question in " ".join(e.text for e in events if type(e).__name__ == "Prefill")  # type: ignore[attr-defined]
    assert summary.pace.startswith(number(summary.n_tokens / summary.n_rounds) + " token")


def test_a_growing_trace_has_no_totals_yet(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "growing")
    for event in make_events(temperature=0.8)[:40]:
        recorder.write(event)
    summary = trace_summary(recorder.path)
    recorder.close()
    assert summary is not None
    assert summary.how == "draft, tokenwise"
    assert (summary.n_rounds, summary.pace) == (None, "")


def test_a_plain_file_longer_than_what_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_trace(tmp_path / "run", make_events(temperature=0.8, new_tokens=200))
    whole = trace_summary(path)
    monkeypatch.setattr("specviz.sources.trace_summary._TAIL", 2_000)
    assert trace_summary(path) == whole
    assert whole is not None


@pytest.mark.parametrize("data", [b"", b"{}", b"\x1f\x8bnothing", b'{"ev": "node"}\n', b"\xff" * 100])
def test_what_is_no_trace_has_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "odd.sv.jsonl"
    path.write_bytes(data)
    assert trace_summary(path) is None
    assert trace_summary(tmp_path / "gone") is None
