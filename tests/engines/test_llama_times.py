"""How long a round of llama.cpp took is told by the server's own clock, never by when its answer was read."""

from pathlib import Path

from specviz import events as ev
from specviz.engines.rounds.llama_stream import LlamaStream
from specviz.metrics import measure
from specviz.trace import Writer, read_events


def _chunk(predicted: int, ms: float, drafted: int, accepted: int, stop: bool = False) -> dict[str, object]:
    timings = {
        "prompt_n": 3,
        "predicted_n": predicted,
        "predicted_ms": ms,
        "draft_n": drafted,
        "draft_n_accepted": accepted,
    }
    return {"tokens": [predicted], "content": "a", "timings": timings, "stop": stop, "stop_type": "limit"}


def test_rounds_took_what_the_server_says(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.sv.jsonl", "draft", rule="exact match", known="counts", chains=True) as trace:
        stream = LlamaStream(trace)
        for chunk in (
            _chunk(1, 0.002, 0, 0),  # of the prompt's own pass: no round of decoding
            _chunk(2, 10.5, 4, 1),
            _chunk(3, 10.5, 4, 1),
            _chunk(4, 31, 8, 1, stop=True),
        ):
            stream.take(chunk)
    events = read_events(trace.path)
    ends = [event for event in events if isinstance(event, ev.RoundEnd)]
    starts = [event for event in events if isinstance(event, ev.RoundStart)]
    assert [end.n_emitted for end in ends] == [1, 2, 1]
    assert [round(sum(end.stage_ns.values()) / 1e6, 1) for end in ends] == [0, 10.5, 20.5]
    assert ends[0].t == starts[0].t, "nobody knows how long"
    by_position = measure(events).position_acceptance
    assert by_position is not None
    assert {t: (share.value, share.n) for t, share in by_position.items()} == {1: (0.5, 2), 2: (0, 1)}
    times = [event.t for event in events]
    assert times == sorted(times)


def test_counts_that_jump_back_are_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.sv.jsonl", "draft", rule="exact match", known="counts", chains=True) as trace:
        stream = LlamaStream(trace)
        for chunk in (_chunk(1, 0.1, 0, 0), _chunk(2, 9, 8, 0), _chunk(3, 20, 4, 0), _chunk(4, 30, 8, 0, stop=True)):
            stream.take(chunk)
    events = read_events(trace.path)
    assert [event.code for event in events if isinstance(event, ev.Warn)] == ["counters_fell"]
    assert [event.n_emitted for event in events if isinstance(event, ev.RoundEnd)] == [1, 1, 1, 1]
    assert "fell from 8 and 0 to 4 and 0" in trace.warned["counters_fell"]
