"""Text the target writes itself, for the draft model to learn to follow.

A draft model is judged on what the target says, not on what people wrote: on its own greedy text the target repeats
itself, and a draft model that has only read people follows it badly (DistillSpec, Zhou et al. 2023, makes the same
point and the same remedy). Half of the windows are greedy, half are sampled, so that both temperatures gain.

Text that a target writes for its own parts, batch by batch until the time for it is spent; kept in one file.

A batch is drawn by its number alone, so a writing that was interrupted goes on with the very same text.

What decoding with a part costs and gains, found by decoding with it: production sessions over some prompts, greedy.

Counts depend on weights and prompts alone. `predicted_ns` prices the same rounds by this machine's measured clock, so
that two settings can be compared while the machine is busy; `seconds` are what the wall said.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from specviz.cost.ledger import Clock
from specviz.engine.decode.drafter import Drafter
from specviz.engine.decode.round import Round
from specviz.engine.decode.session import Parts, Session
from specviz.engine.model.adapter import Model, Models
from specviz.errors import SpecvizError
from specviz.methods import get_method
from specviz.train.common.job import Console
from specviz.train.common.optim import Budget
from specviz.train.common.tokens import Feed, Tokens
from specviz.verifiers import get_verifier

ROWS, PROMPT, LENGTH = 96, 48, 257


@dataclass(frozen=True, slots=True)
class Written:
    """Windows in one stream, and where each begins."""

    stream: Tokens
    starts: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write it under another name first: a file that is there is whole."""
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, stream=self.stream, starts=self.starts)
        os.replace(partial, path)

    @classmethod
    def load(cls, path: Path) -> "Written":
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            return cls(arrays["stream"], arrays["starts"])


def write(target: LlamaForCausalLM, feed: Feed, n_batches: int, seed: int) -> Written:
    """`n_batches` batches of windows [LENGTH]: a beginning from `feed`, continued by the target."""
    batches = []
    for number in range(n_batches):
        prompts = feed.draw((ROWS, PROMPT - 1), (seed, number, 0))
        rng = torch.Generator().manual_seed(seed * 1_000_003 + number)
        batches.append(continued(target, prompts, rng))
    stream = torch.cat(batches).flatten().numpy().astype(np.uint16)
    return Written(stream, np.arange(0, len(stream), LENGTH))


@torch.no_grad()
def continued(target: LlamaForCausalLM, prompts: Tensor, rng: torch.Generator) -> Tensor:
    """`prompts` [rows, length] grown to LENGTH tokens: the even rows greedily, the odd ones by sampling."""
    cache, new, tokens = DynamicCache(), prompts, [prompts]
    for _ in range(LENGTH - prompts.shape[1]):
        logits = target(input_ids=new, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
        new = logits.argmax(-1, keepdim=True)
        new[1::2] = torch.multinomial(logits[1::2].softmax(-1), 1, generator=rng)
        tokens.append(new)
    return torch.cat(tokens, dim=1)


Ids = NDArray[np.int32]


def grown(path: Path, budget: Budget, console: Console, write: Callable[[int], Ids]) -> Ids:
    """All windows `[n, length]` of `path`, more of them written while there is time. `write` makes batch number n."""
    batches, seconds = read(path) if path.exists() else ([], 0.0)
    with console.bar("own text", budget) as report:
        while not batches or budget.progress(seconds, len(batches)) < 1.0:
            began = time.monotonic()
            batches.append(write(len(batches)))
            seconds += (took := time.monotonic() - began)
            _save(path, batches, seconds)
            report(budget.progress(seconds, len(batches)), 0.0, batches[-1].size / took)
    return np.concatenate(batches)


def read(path: Path) -> tuple[list[Ids], float]:
    """The batches in a file and the seconds they took. Raises SpecvizError in one line for what is no such file."""
    try:
        with np.load(path) as arrays:
            return list(arrays["batches"]), float(arrays["seconds"])
    except (OSError, ValueError, KeyError, EOFError) as error:
        why = " ".join(str(error).split())[:120]
        raise SpecvizError(f"cannot read {path}: {why}; remove it, or give another folder with --work") from error


def _save(path: Path, batches: list[Ids], seconds: float) -> None:
    """Under another name first: a file that is there is whole."""
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, batches=np.stack(batches), seconds=np.float64(seconds))
    os.replace(partial, path)


_SLACK = 600  # slots of a cache besides the text
TURNS = 3
Prompts = Sequence[Sequence[int]]


@dataclass(slots=True)
class Decoded:
    """Sums over rounds. `tested[k]`, `kept[k]`: rounds whose draft k+1 was reached, and kept."""

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    draft_calls: int = 0
    layer_calls: int = 0
    cells: int = 0
    predicted_ns: float = 0.0
    seconds: float = 0.0
    tested: list[int] = field(default_factory=lambda: [0] * 16)
    kept: list[int] = field(default_factory=lambda: [0] * 16)

    def __add__(self, other: "Decoded") -> "Decoded":
        out = Decoded()
        for each in fields(Decoded):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            both = [a + b for a, b in zip(mine, theirs, strict=True)] if isinstance(mine, list) else mine + theirs
            setattr(out, each.name, both)
        return out

    def take(self, done: Round, clock: Clock | None) -> None:
        """Add a round."""
        n, kept = len(done.draft), done.n_accepted
        self.tokens += len(done.tokens)
        self.rounds += 1
        self.drafted += n
        self.accepted += kept
        self.draft_calls += done.n_draft_calls
        widths = [call.n_rows for call in done.ledger for _ in range(call.lo, call.hi + 1)]
        self.layer_calls += len(widths)
        self.cells += sum(widths)
        for k in range(min(n, kept + (not done.cut), 16)):
            self.tested[k] += 1
            self.kept[k] += k < kept
        if clock is not None:
            self.predicted_ns += clock.round_ns(widths, len(done.ledger), done.n_draft_calls, done.draft.n_fed + 1)

    @property
    def tokens_per_round(self) -> float:
        """Tokens committed a round, the target's own counted."""
        return self.tokens / max(1, self.rounds)

    def by_position(self) -> list[float]:
        """Share kept of the drafts at position 1, 2, .. that were reached; as far as there were any."""
        return [kept / tested for kept, tested in zip(self.kept, self.tested, strict=True) if tested]


def decode(
    target: Model,
    make: Callable[[Models], Drafter | None],
    method: str,
    prompts: Prompts,
    n_new: int,
    clock: Clock | None = None,
    **knobs: Any,
) -> Decoded:
    """Decode every prompt greedily with a drafter of its own; what it took."""
    table = get_method(method).table
    out = Decoded()
    for prompt in prompts:
        models = Models(target, None, len(prompt) + n_new + _SLACK)
        parts = Parts(models, make(models), get_verifier("walk"))
        session = Session(parts, prompt, table, table.knobs({"max_new_tokens": n_new, **knobs}))
        session.prefill()
        began = time.perf_counter()
        for done in session.rounds():
            out.take(done, clock)
        out.seconds += time.perf_counter() - began
    return out


def gain(plain: Callable[[Prompts], Decoded], other: Callable[[Prompts], Decoded], prompts: Prompts) -> float:
    """How many times faster `other` decodes a token by the wall: every prompt at its best of `TURNS`, in turn about."""
    seconds, tokens = [0.0, 0.0], [0, 0]
    for prompt in prompts:
        turns = [[decoder([prompt]) for decoder in (plain, other)] for _ in range(TURNS)]
        for k in range(2):
            best = min((turn[k] for turn in turns), key=lambda found: found.seconds)
            seconds[k] += best.seconds
            tokens[k] += best.tokens
    return seconds[0] / tokens[0] / (seconds[1] / tokens[1])
