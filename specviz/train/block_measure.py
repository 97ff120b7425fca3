"""What a block drafter is worth, on text the target writes after held-out beginnings.

Slot by slot from one packed pass over windows (accuracy behind a right prefix, rank buckets), and as decoding feels it:
tokens a round of the very method.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specviz.drafters.blocks.files import Trained
from specviz.drafters.blocks.losses import How, Tally
from specviz.drafters.blocks.rank import N_BUCKETS
from specviz.engine.context import Drafter, Models
from specviz.engine.model import ModelAdapter
from specviz.engine.parts import Parts
from specviz.engine.session import Session
from specviz.methods import Method
from specviz.train.block_loop import losses_of
from specviz.train.drafter_loop import look
from specviz.verifiers import get_verifier

_ROWS = 4


@dataclass(frozen=True, slots=True)
class Slots:
    """By block: how often each slot was right behind a right prefix; and buckets `[true][predicted]` of all."""

    accuracy: list[list[float]]
    confusion: list[list[int]]

    @property
    def recall(self) -> list[float | None]:
        """Share of each true bucket that was predicted."""
        rows = [(row[b], sum(row)) for b, row in enumerate(self.confusion)]
        return [hit / n if n else None for hit, n in rows]

    @property
    def precision(self) -> list[float | None]:
        """Share of each predicted bucket that was true."""
        sums = [sum(row[b] for row in self.confusion) for b in range(N_BUCKETS)]
        return [self.confusion[b][b] / n if n else None for b, n in enumerate(sums)]


@torch.no_grad()
def slots(adapter: ModelAdapter, trained: Trained, windows: Tensor, answer_from: int) -> Slots:
    """Over `windows` `[n, T]`: block 1 at every pair, later blocks behind cuts in the middle of the one before."""
    n_slots = trained.network.shape.slots
    cuts = (max(1, n_slots // 2),) * (trained.config.trained_blocks - 1)
    tallies = [Tally.empty(n_slots) for _ in range(len(cuts) + 1)]
    for part in torch.split(windows, _ROWS):
        seen = look(adapter.model, trained, trained.config.taps, part, answer_from)
        last = seen.features.shape[1] - 1 - sum(cuts)
        anchors = torch.arange(max(0, answer_from - 2), last, 4, device=seen.tokens.device).expand(len(part), -1)
        told = losses_of(trained, adapter.embedding, seen, anchors, cuts, How())
        for tally, each in zip(tallies, told, strict=True):
            tally.add(each.tally)
    accuracy = [(tally.right / tally.total.clamp(min=1)).tolist() for tally in tallies]
    whole = torch.stack([tally.confusion for tally in tallies]).sum(0)
    return Slots(accuracy, whole.long().tolist())


@dataclass(frozen=True, slots=True)
class Decoded:
    """Sums over some prompts. `drafting` and `whole` in seconds."""

    rounds: int
    tokens: int
    drafted: int
    calls: int
    drafting: float
    whole: float

    @property
    def length(self) -> float:
        """Mean acceptance length, the closing token included."""
        return self.tokens / max(1, self.rounds)


def decoded(
    adapter: ModelAdapter, method: Method, make: Callable[[], Drafter], prompts: Iterable[list[int]], n_new: int,
    **knobs: Any,
) -> Decoded:  # fmt: skip
    """Decode after every prompt with a drafter of `method`; `knobs` on top of its defaults."""
    specs = method.table
    snapshot = specs.knobs({"max_new_tokens": n_new, **knobs})
    found = np.zeros(6)
    for number, prompt in enumerate(prompts):
        models = Models(adapter, None, len(prompt) + n_new + 600)
        run = Session(Parts(models, make(), get_verifier("walk")), prompt, specs, snapshot, query=number)
        for done in run.rounds():
            took = done.ended_ns - done.started_ns
            counts = (1, len(done.tokens), len(done.draft), done.n_draft_calls)
            found += (*counts, done.clock.ns.get("draft", 0) / 1e9, took / 1e9)
    rounds, tokens, drafted, calls = (int(x) for x in found[:4])
    return Decoded(rounds, tokens, drafted, calls, float(found[4]), float(found[5]))


def compared(
    adapter: ModelAdapter, method: Method, make: Callable[[], Drafter], prompts: Mapping[str, list[list[int]]],
    n_new: int, arms: Iterable[dict[str, Any]],
) -> list[dict[str, Any]]:  # fmt: skip
    """One row a text and arm: the arm's knobs, then what decoding found."""
    rows = []
    for domain, own in prompts.items():
        for arm in arms:
            done = decoded(adapter, method, make, own, n_new, **arm)
            rows.append({
                "text": domain, "knobs": arm, "mean_acceptance_length": round(done.length, 3), "rounds": done.rounds,
                "drafter_calls_per_round": round(done.calls / max(1, done.rounds), 2),
                "drafting_share": round(done.drafting / done.whole, 3),
            })  # fmt: skip
    return rows


def table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """What `compared` found, as lines of a page."""
    lines = [
        "| text | knobs | mean acceptance length | drafter calls a round | drafting's share of the time |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        knobs = ", ".join(f"{name} {_value(value)}" for name, value in row["knobs"].items()) or "defaults"
        lines.append(
            f"| {row['text']} | {knobs} | {row['mean_acceptance_length']:.2f} | {row['drafter_calls_per_round']:.2f} | "
            f"{share(row['drafting_share'])} |"
        )
    return lines


def share(value: float | None) -> str:
    """A percentage; a dash for one that is not there."""
    return "-" if value is None else f"{value:.0%}"


def _value(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else f"{value}"
