"""Files of JSON: answers of vLLM, a line each."""

from collections.abc import Mapping
from typing import Any

from specviz.engines.rounds import counts
from specviz.engines.rounds.importing import Imported


def is_counts(value: Any) -> bool:
    """An answer of vLLM with its counts."""
    return isinstance(value, Mapping) and counts.found_in(value) is not None


def write_record(out: Imported, line: Mapping[str, Any]) -> None:
    """The counts of one request."""
    counted = counts.found_in(line)
    assert counted is not None
    engine = str(counted.get("engine") or "vllm")
    out.trace.request()
    steps = counts.steps_of(counted)
    if steps is not None:
        total = counted.get("completion_tokens")
        n = total if isinstance(total, int) else sum(kept + 1 for kept, _ in steps)
        counts.write_steps(out.trace, steps, [-1] * n, [""] * n, None)
    counts.write_counts(out.trace, counted, engine)
