"""Heads that say what a test wants, and sessions over them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from specviz.engine.decode.context import Context
from specviz.engine.decode.session import Session
from specviz.engine.model.adapter import ModelAdapter
from specviz.events import Event
from specviz.methods.common.top_k import RowConfidence
from specviz.methods.early_exit.drafter import EarlyExit
from specviz.methods.early_exit.recorder import ExitRecorder
from specviz.methods.early_exit.spec import Limits
from support.driver import session

SURE = 60.0


class Script:
    """Fires in walk r at layer `stops[r]` and nowhere else; a walk begins at the first tested layer."""

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "script"

    def __init__(self, vocab: int, stops: list[int], token: int = 7, first: int = 1) -> None:
        self.vocab, self.stops, self.token, self.first = vocab, stops, token, first
        self.walk = -1

    def named(self, layer: int) -> None: ...

    def logits(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        self.walk += layer == self.first
        out = torch.zeros(1, self.vocab)
        if self.walk < len(self.stops) and self.stops[self.walk] == layer:
            out[0, self.token] = SURE
        return out


class Hearsay:
    """Knows the text that will be written: right with chance `right`, anything at any confidence otherwise.

    What it says depends on position, layer and salt only, so that a round that is begun again sees the same.
    """

    layers: tuple[int, ...] = ()
    advised: tuple[int, ...] = ()
    kind = "hearsay"

    def __init__(
        self, vocab: int, truth: list[int], right: float = 0.7, salt: int = 0, stop: int | None = None
    ) -> None:
        self.vocab, self.truth, self.right, self.salt, self.stop = vocab, truth, right, salt, stop
        self.pos = 0

    def named(self, layer: int) -> None: ...

    def logits(self, layer: int, hidden: torch.Tensor) -> torch.Tensor:
        rng = np.random.default_rng((self.salt, self.pos, layer))
        out = torch.from_numpy(rng.normal(size=(1, self.vocab)))
        sure, luck, other = rng.uniform(0, 14), rng.random(), int(rng.integers(self.vocab))
        known = self.truth[self.pos + 1] if self.pos + 1 < len(self.truth) else other
        token = known if luck < self.right else self.stop if self.stop is not None and luck > 0.9 else other
        out[0, token] = sure
        return out


class Placed(EarlyExit):
    """Tells its heads where the row stands that they are asked about."""

    def _climb(self, ctx: Context, limits: Limits, trail: ExitRecorder, row: int) -> RowConfidence | None:
        self.heads.pos = ctx.rows.position(row)  # type: ignore[attr-defined]
        return super()._climb(ctx, limits, trail, row)


class Sink:
    """Keeps the facts of every round, as the probe would write them."""

    def __init__(self, level: Any = "full") -> None:
        self.level = level
        self.rounds: list[list[Event]] = []
        self.aborts = 0

    def prefilled(self, session: Session, dur_ns: int) -> None:
        pass

    def knob(self, event: Any) -> None:
        pass

    def round(self, done: Any) -> None:
        self.rounds.append(list(done.facts))

    def aborted(self, begun: Any, why: str) -> None:
        self.aborts += 1


def early(
    adapter: ModelAdapter,
    heads: Any,
    prompt: list[int],
    drafter: Callable[..., EarlyExit] = EarlyExit,
    mode: Any = "argmax",
    method: str = "specbound",
    **options: Any,
) -> Session:
    """A session of `specbound` with the given heads, on every layer unless told otherwise."""
    options.setdefault("exit_layers", [",".join(map(str, range(1, adapter.n_layers)))])
    climber = drafter(adapter, heads, mode, 0.5)
    return session(adapter, None, prompt, method=method, drafter=climber, **options)


def plain(adapter: ModelAdapter, prompt: list[int], **options: Any) -> list[int]:
    """The new tokens of plain decoding."""
    return session(adapter, None, prompt, method="ar", **options).generate()
