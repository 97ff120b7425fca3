"""Files of JSON: MLX-LM's responses a line each, AIPerf's records, the report of vLLM's benchmark."""

from collections.abc import Mapping
from typing import Any

from specviz.engines.rounds import counts
from specviz.engines.rounds.importing import Imported
from specviz.errors import TraceError

_BENCH = "spec_decode_num_drafts"


def is_mlx(value: Any) -> bool:
    """One response of `stream_generate`."""
    return isinstance(value, Mapping) and isinstance(value.get("from_draft"), bool)


def is_counts(value: Any) -> bool:
    """A record of AIPerf, or an answer of vLLM with its counts."""
    return isinstance(value, Mapping) and counts.found_in(value) is not None


def is_bench(value: Any) -> bool:
    """What `vllm bench serve` saves."""
    return isinstance(value, Mapping) and isinstance(value.get(_BENCH), int)


class MlxRounds:
    """Every token that no draft brought closes a round. How many were drafted is not told: it is a setting there."""

    def __init__(self, out: Imported, n_drafted: int) -> None:
        self._out, self._n_drafted = out, n_drafted
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._begun = False

    def take(self, line: Mapping[str, Any]) -> None:
        """One response."""
        if not self._begun:
            self._out.trace.request(n_prompt=_count(line.get("prompt_tokens")) or 1)
            self._begun = True
        self._tokens.append(_count(line.get("token"), -1))
        self._texts.append(str(line.get("text", "")))
        finish = {"stop": "eos", "length": "length"}.get(str(line.get("finish_reason")))
        if not line["from_draft"] or finish is not None:
            self._write(bool(line["from_draft"]), finish)
        if finish is not None:
            self._begun = False

    def finish(self) -> None:
        """A stream that was cut leaves its last round open."""
        if self._tokens:
            self._out.trace.warn("cut_short", "the file ends inside a round, which is left out")

    def _write(self, drafted: bool, finish: str | None) -> None:
        kept = len(self._tokens) - (not drafted)
        if kept > self._n_drafted:
            raise TraceError(f"{kept} drafted tokens in one round, more than --drafted {self._n_drafted}")
        self._out.trace.round(n_drafted=self._n_drafted)
        self._out.trace.committed(self._tokens, self._texts, n_accepted=kept, finish=finish)  # type: ignore[arg-type]
        self._tokens, self._texts = [], []


def write_record(out: Imported, line: Mapping[str, Any]) -> None:
    """The counts of one request."""
    found = counts.found_in(line)
    assert found is not None
    engine = str(found.get("engine") or "vllm")
    out.trace.request()
    steps = counts.steps_of(found)
    if steps is not None:
        total = found.get("completion_tokens")
        n = total if isinstance(total, int) else sum(kept + 1 for kept, _ in steps)
        counts.write_steps(out.trace, steps, [-1] * n, [""] * n, None)
    counts.write_counts(out.trace, found, engine)


def write_bench(out: Imported, report: Mapping[str, Any]) -> None:
    """Totals over all requests of a benchmark."""
    rates = report.get("spec_decode_per_position_acceptance_rates")
    n = report[_BENCH]
    out.trace.reported(
        "vllm bench",
        whole=True,
        n_requests=_count(report.get("completed"), None),
        n_rounds=n,
        n_drafted=report.get("spec_decode_draft_tokens"),
        n_accepted=report.get("spec_decode_accepted_tokens"),
        n_emitted=report.get("total_output_tokens"),
        mean_acceptance_length=report.get("spec_decode_acceptance_length"),
        accepted_per_position=[round(rate * n) for rate in rates] if isinstance(rates, list) else None,
    )


def _count(value: Any, otherwise: Any = 0) -> Any:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
