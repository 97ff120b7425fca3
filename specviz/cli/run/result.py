"""What a finished `specviz run` says of itself: a few lines for people, one object for programs.

Numbers come from `specviz.metrics`, by the names defined there; nothing is worked out a second time here.
"""

from pathlib import Path
from typing import Any

import msgspec

from specviz import events
from specviz.errors import SpecvizError
from specviz.events import Event
from specviz.metrics import Estimate, Tally
from specviz.text import running
from specviz.view.words import numbers

STAGES = ("prefill", "draft", "target", "verdict", "commit", "adapt", "other")
_FINISHED = ("done", "stopped")
_REASONS = {
    "eos": "end of text", "stop": "stop text", "length": "--max-new-tokens reached", "context": "the context is full",
    "cancelled": "interrupted", "error": "an error", "stopped": "stopped",
}  # fmt: skip


class RunError(SpecvizError):
    """The model or the machine failed while decoding: nothing the command line could have known."""

    exit_code = 1


class Result:
    """A sink that folds a run into its metrics and remembers how it ended. `text`, `tokens`, `trace` are set on it."""

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[int] = []
        self.trace: Path | None = None
        self.tally = Tally()
        self._header: events.Header | None = None
        self._prefill: events.Prefill | None = None
        self._finish: str | None = None
        self._n_tokens = 0
        self._end: events.End | None = None
        self._stage_ns: dict[str, int] = dict.fromkeys(STAGES, 0)

    def __call__(self, event: Event) -> None:
        """Take one event."""
        self.tally.add(event)
        if isinstance(event, events.Header):
            self._header = event
        elif isinstance(event, events.Prefill):
            self._prefill = event
            self._stage_ns["prefill"] += event.dur_ns
        elif isinstance(event, events.Commit):
            self._finish = event.finish
            self._n_tokens += len(event.tokens)
        elif isinstance(event, events.RoundEnd):
            for stage, ns in event.stage_ns.items():
                self._stage_ns[stage] = self._stage_ns.get(stage, 0) + ns
        elif isinstance(event, events.Adapt):
            self._stage_ns["adapt"] += event.dur_ns
        elif isinstance(event, events.End):
            self._end = event

    @property
    def has_begun(self) -> bool:
        """Whether a run came about at all."""
        return self._header is not None

    @property
    def is_done(self) -> bool:
        """Whether it came to its own end."""
        return self._end is not None and self._end.reason in _FINISHED

    @property
    def finish(self) -> str:
        """Why the text ended, or why the run did when the text had not."""
        return self._finish or (self._end.reason if self._end else "unfinished")

    def as_json(self) -> dict[str, Any]:
        """The object of `--json`. Timings are milliseconds by stage, over the whole run."""
        assert self._header is not None
        return {
            "text": self.text,
            "tokens": self.tokens,
            "method": self._header.method,
            "verifier": self._header.verifier,
            "lossless": self._header.lossless,
            "rounds": self.tally.n_rounds,
            "finish": self.finish,
            "n_prompt": self._prefill.n_prompt if self._prefill else None,
            "metrics": msgspec.to_builtins(self.tally.summary(), str_keys=True),
            "timings": {stage: round(ns / 1e6, 3) for stage, ns in self._stage_ns.items()},
            "models": msgspec.to_builtins(self._header.models),
            "trace": str(self.trace) if self.trace else None,
        }

    def summary(self) -> list[str]:
        """Speed, acceptance, time and trace, a line each."""
        metrics = self.tally.summary()
        seconds = self.tally.totals["ns"]
        ended = _REASONS.get(self.finish, self.finish)
        lines = [
            f"{self._n_tokens} tokens in {metrics.n_rounds} rounds, {numbers.duration(seconds)}: "
            f"{shown_estimate(metrics.tokens_per_second)} tokens/s · ended: {ended}",
            f"acceptance  {_acceptance(metrics)}",
            f"time        {self._shares()}",
        ]
        return lines + ([f"trace       {running(str(self.trace))}"] if self.trace else [])

    def _shares(self) -> str:
        total = sum(self._stage_ns.values()) or 1
        spent = [(stage, ns) for stage, ns in self._stage_ns.items() if ns]
        return " · ".join(f"{stage} {numbers.percent(ns / total)}" for stage, ns in spent) or "none"


def _acceptance(metrics: Any) -> str:
    length = f"{shown_estimate(metrics.mean_acceptance_length)} tokens a round"
    if not metrics.n_drafted:
        return f"nothing drafted, {length}"
    kept = f"{metrics.n_accepted} of {metrics.n_drafted} drafted tokens kept"
    return f"{shown_estimate(metrics.draft_acceptance_rate)} ({kept}) · {length}"


def shown_estimate(estimate: Estimate | None) -> str:
    """Value and how far it can be trusted."""
    if estimate is None:
        return numbers.UNKNOWN
    return f"{numbers.number(estimate.value)} {numbers.uncertainty(estimate)}".strip()
