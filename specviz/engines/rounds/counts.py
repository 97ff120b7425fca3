"""Counts of one request, as vLLM answers them: per step where the engine was asked for it, else totals and a histogram.

`per_step_accepted`, `per_step_drafted`: vLLM with `--per-request-spec-decode-metrics detailed`. The first token comes
from the prompt's pass and belongs to no step.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specviz.engines.asking import as_count
from specviz.errors import TraceError
from specviz.events.round import Finish
from specviz.trace import Writer
from specviz.trace.writer import LONGEST

_KEYS = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
MOST = 1 << 20  # steps of a request
_MOST_KEPT = 1 << 16  # tokens of a step


def found_in(value: Any, depth: int = 6) -> dict[str, Any] | None:
    """The first object in a JSON value that holds such counts."""
    if isinstance(value, Mapping):
        if all(isinstance(value.get(key), int) for key in _KEYS):
            return dict(value)
        below: Sequence[Any] = [*value.values()]
    else:
        below = value if isinstance(value, list) else []
    if depth:
        for child in below:
            if isinstance(child, Mapping | list) and (counts := found_in(child, depth - 1)) is not None:
                return counts
    return None


def steps_of(counts: Mapping[str, Any]) -> list[tuple[int, int]] | None:
    """Accepted and drafted of every step, in order; None where the engine gave totals alone. Raises TraceError."""
    accepted, drafted = counts.get("per_step_accepted"), counts.get("per_step_drafted")
    if not isinstance(accepted, list) or not isinstance(drafted, list):
        return None
    if len(accepted) != len(drafted) or len(accepted) > MOST:
        raise TraceError(f"per_step_accepted has {len(accepted)} steps, per_step_drafted {len(drafted)}")
    steps = list(zip(accepted, drafted, strict=True))
    for k, (kept, of) in enumerate(steps, 1):
        if not (isinstance(kept, int) and isinstance(of, int) and 0 <= kept <= of <= _MOST_KEPT):
            raise TraceError(f"step {k} says that {kept!r} of {of!r} drafted tokens were accepted")
    if sum(accepted) > LONGEST:
        raise TraceError(f"its steps accepted {sum(accepted):,} tokens: no text is that long")
    return steps


def write_steps(
    trace: Writer,
    steps: Sequence[tuple[int, int]],
    tokens: Sequence[int],
    texts: Sequence[str],
    finish: Finish | None,
) -> None:
    """Rounds of a request. `tokens`: its new ones, in order; those of the prompt's pass are what steps leave over."""
    left = len(tokens) - sum(kept + 1 for kept, _ in steps)
    if left > 1:
        trace.warn("rounds_merged", f"{left} tokens belong to no step that drafted: they are shown before the first")
    at = 0
    plain = [(0, 0)] * max(0, left)
    for k, (kept, drafted) in enumerate([*plain, *steps]):
        new = tokens[at : at + kept + 1]
        if not new:
            trace.warn("behind_stop", "the engine counts steps behind the end of the text")
            return
        last = at + kept + 1 >= len(tokens) or k + 1 == len(plain) + len(steps)
        trace.round(n_drafted=drafted)
        trace.committed(
            list(new),
            list(texts[at : at + kept + 1]),
            n_accepted=min(kept, len(new)),
            finish=finish if last else None,
            took_ns=0,
        )
        at += len(new)


def write_counts(trace: Writer, counts: Mapping[str, Any], of: str) -> None:
    """What the engine counted over a request, held against its rounds."""
    histogram = counts.get("acceptance_histogram")
    trace.reported(
        of,
        n_rounds=counts["num_spec_steps"],
        n_drafted=counts["num_draft_tokens"],
        n_accepted=counts["num_accepted_draft_tokens"],
        n_emitted=counts.get("completion_tokens"),
        histogram=None if histogram is None else list(dense(histogram)),
    )


def dense(histogram: Any) -> Iterator[int]:
    """A histogram as a list, whether it came as one or as a map from accepted tokens to rounds. Raises ValueError."""
    if isinstance(histogram, Mapping):
        sparse = {as_count(int(key), _MOST_KEPT): int(n) for key, n in histogram.items()}
        yield from (sparse.get(j, 0) for j in range(max(sparse, default=-1) + 1))
    elif isinstance(histogram, list):
        yield from map(int, histogram)
