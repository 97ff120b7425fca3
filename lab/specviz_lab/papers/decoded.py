"""Prompts decoded under several settings, in counts: what a page of a paper keeps in `benchmarks/papers` (`kept`).

Greedy, so every setting writes the same text, and differences are paired by prompt. No clock is in it: the same counts
come out on a busy machine.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specviz.commands import Prompt, Start
from specviz.events import Adapt, Event

if TYPE_CHECKING:
    from specviz.engine.run.local import Pair

Counts = dict[str, int]  # rounds, tokens; calls and rows of the drafter, nodes sent; updates that were learnt


@dataclass(frozen=True, slots=True)
class Arm:
    """A method and its knobs."""

    name: str
    method: str
    knobs: Mapping[str, Any] = field(default_factory=dict)


def decode(
    pair: "Pair",
    arm: Arm,
    prompts: Sequence[Prompt],
    n_new: int,
    learnt: Callable[[Adapt], None] = lambda event: None,
) -> Iterator[Counts]:
    """Of every prompt of a stream that one drafter serves; a prompt's own rows in the drafter are not counted."""
    from specviz.engine.run.local import LocalRun  # which import torch
    from specviz.methods.trained.pair_drafter import PairDrafter

    updates: list[str] = []

    def sink(event: Event) -> None:
        if isinstance(event, Adapt) and event.action != "skip":
            updates.append(event.action)
            learnt(event)

    knobs = {"temperature": 0.0, "max_new_tokens": n_new, **arm.knobs}
    run = LocalRun(pair, Start(stream=list(prompts), method=arm.method, knobs=knobs, level="summary"), sink)
    counts: Counts = dict.fromkeys(_COUNTED, 0)
    query = before = 0
    for done in run.rounds():
        if run.session.query != query:
            yield counts | {"updates": len(updates)}
            counts, query, before = dict.fromkeys(_COUNTED, 0), run.session.query, 0
            updates.clear()
        cache = run.session.drafter.text.calls.cache if isinstance(run.session.drafter, PairDrafter) else None
        if cache is not None:
            counts["rows"] += cache.filled - (before or cache.committed)
            before = cache.committed
        counts["rounds"] += 1
        counts["tokens"] += len(done.tokens)
        counts["calls"] += done.n_draft_calls
        counts["nodes"] += len(done.draft.tokens)
    yield counts | {"updates": len(updates)}


_COUNTED = ("rounds", "tokens", "calls", "rows", "nodes")
