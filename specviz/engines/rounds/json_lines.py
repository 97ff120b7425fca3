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
