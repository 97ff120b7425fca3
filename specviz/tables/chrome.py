"""A run as a Chrome trace, for chrome://tracing and Perfetto: lanes as threads, one process for each clock, rounds
beside them, flows from what was drafted to what checked it, rejections as instants.

Times are microseconds since the first one. A modelled clock begins at its own zero and never shares a process with a
measured one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from specviz.events import Span, prob
from specviz.runlog.fold import Run
from specviz.runlog.run import RoundRecord
from specviz.runlog.tree import RoundTree
from specviz.text import shown

_NS = 1e3  # in a microsecond
_CLOCKS = {"host": "measured on the host", "device": "measured on the device", "model": "modelled clock"}
_ROUNDS = 0  # thread of the rounds, in the process of the host's clock
_HOST = 1


def chrome_trace(run: Run, window: range | None = None) -> bytes:
    """The run as JSON, or the rounds of a window (indexes). Its lanes need level summary; rounds and counts are there
    at every level.
    """
    rounds = [run.rounds[index] for index in (range(len(run.rounds)) if window is None else window)]
    writer = _Writer(rounds)
    events = [event for record in rounds for event in writer.round(record)]
    return msgspec.json.encode({"traceEvents": [*writer.names(), *events], "displayTimeUnit": "ms"})


class _Writer:
    def __init__(self, rounds: Sequence[RoundRecord]) -> None:
        self._processes: dict[str, int] = {"host": _HOST}
        self._threads: dict[tuple[int, str], int] = {(_HOST, "rounds"): _ROUNDS}
        self._begins: dict[str, int] = {}  # of each clock, ns
        self._flows: set[tuple[str, int, int]] = set()  # those that have begun: clock, query, flow
        if rounds:
            self._begins["host"] = rounds[0].start.t

    def names(self) -> Iterator[dict[str, Any]]:
        """What processes and threads are called."""
        for clock, pid in self._processes.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": _CLOCKS.get(clock, clock)}}
        for (pid, lane), tid in self._threads.items():
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": lane}}

    def _at(self, clock: str, t: int) -> float:
        return (t - self._begins.setdefault(clock, t)) / _NS

    def round(self, record: RoundRecord) -> Iterator[dict[str, Any]]:
        """A round, its spans, its rejections, its counts."""
        end, place = record.end, {"query": record.q, "round": record.r}
        began = self._at("host", record.start.t)
        if end is not None:
            took = max(0.0, self._at("host", end.t) - began)
            counts = {"drafted": end.n_drafted, "tested": end.n_tested, "accepted": end.n_accepted}
            common = {"pid": _HOST, "tid": _ROUNDS, "ts": began}
            yield {"ph": "X", "name": f"q{record.q} r{record.r}", "dur": took, "args": {**place, **counts}, **common}
            yield {"ph": "C", "name": "tokens", "args": counts, **common}
        for span in record.spans:
            yield from self._span(record, span, place)
        tree = RoundTree(record)
        for verdict in tree.tests:
            node = record.node(verdict.node)
            if verdict.status == "rejected" and node is not None:
                numbers = {"q": prob(node.logq), "p": tree.p(verdict.node), "u": verdict.u, "threshold": verdict.thr}
                yield {
                    "ph": "i",
                    "s": "t",
                    "name": f"rejected {shown(node.text, node.bytes)}",
                    "pid": _HOST,
                    "tid": _ROUNDS,
                    "ts": self._at("host", verdict.t or record.start.t),
                    "args": {**place, "node": verdict.node, **numbers},
                }

    def _span(self, record: RoundRecord, span: Span, place: dict[str, int]) -> Iterator[dict[str, Any]]:
        clock = span.clock
        pid = self._processes.setdefault(clock, len(self._processes) + _HOST)
        tid = self._threads.setdefault((pid, span.lane), len(self._threads))
        ts, dur = self._at(clock, span.t0), span.dur_ns / _NS
        args = {**place, **({"rolled_back": True} if span.void else {})}
        common = {"pid": pid, "tid": tid, "cat": span.lane}
        yield {"ph": "X", "name": shown(span.name), "ts": ts, "dur": dur, "args": args, **common}
        if span.flow is not None:
            key = (clock, record.q, span.flow)
            known = key in self._flows
            self._flows.add(key)
            step = {"ph": "f", "bp": "e"} if known else {"ph": "s"}
            name = f"q{record.q}-{clock}-{span.flow}"
            yield {**step, "name": "draft", "id": name, "ts": ts if known else ts + dur, **common}
