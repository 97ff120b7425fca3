"""Files of JSON: answers of vLLM, a line each, and the report of its benchmark."""

from collections.abc import Mapping
from typing import Any

from specviz.engines.rounds import counts
from specviz.engines.rounds.importing import Imported

_BENCH = "spec_decode_num_drafts"


def is_counts(value: Any) -> bool:
    """An answer of vLLM with its counts."""
    return isinstance(value, Mapping) and counts.found_in(value) is not None


def is_bench(value: Any) -> bool:
    """What `vllm bench serve` saves."""
    return isinstance(value, Mapping) and isinstance(value.get(_BENCH), int)


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
