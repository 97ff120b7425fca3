"""Stand-ins for CUDA's graphs, which do work again on the memory that it read and wrote when it was recorded.

`FxCapture` traces tensor operations and does them again without their Python: what that decided stays decided, as in a
graph. It takes a second to record, so `RunAgain`, which runs the same Python once more, serves where sizes are many.
"""

from collections.abc import Callable

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from specviz.engine.model.graphs.capture import Replay

Tensor = torch.Tensor


class RunAgain:
    """`n_recorded`: how many recordings were made; `n_replayed`: how often they were used."""

    def __init__(self) -> None:
        self.n_recorded = self.n_replayed = 0

    def traced(self, work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        return work

    def record(self, work: Callable[[], Tensor]) -> Replay:
        self.n_recorded += 1
        graph = self.traced(work)
        held = torch.empty(0)

        def replay() -> Tensor:
            nonlocal held
            self.n_replayed += 1
            out: Tensor = graph()
            if held.shape != out.shape:
                held = torch.empty_like(out)
            return held.copy_(out)  # the memory of a graph: the next replay writes over it

        return replay


class FxCapture(RunAgain):
    """By a trace."""

    def traced(self, work: Callable[[], Tensor]) -> Callable[[], Tensor]:
        graph: Callable[[], Tensor] = make_fx(work)()
        return graph


class FailingCapture:
    """Cannot record."""

    def record(self, work: Callable[[], Tensor]) -> Replay:
        raise RuntimeError("operation not permitted when stream is capturing\nmore lines")
