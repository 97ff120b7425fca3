"""Capture work once and replay it in one call: the layer between `GraphBackend` and CUDA graphs.

A replay launches the same kernels on the same memory as the capture; branches that Python took then are fixed. So
whatever differs from pass to pass must be in tensors that were allocated before the capture.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from specviz.probability.host import READS

Tensor = torch.Tensor
Replay = Callable[[], Tensor]  # the work once more; its result, which the next replay of any recording may overwrite


class Capture(Protocol):
    """`record` does the work once and returns what does it again, on the memory that it read and wrote."""

    def record(self, work: Callable[[], Tensor]) -> Replay: ...


class CudaCapture:
    """Graphs of one device, which share their working memory: they are replayed one after another on one stream.

    Written, tested against a stand-in, and not run on a card yet, so it is off unless somebody asks for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: Any = None

    def record(self, work: Callable[[], Tensor]) -> Replay:
        """Warms up on a stream beside, where libraries choose kernels and take memory, then records there.

        Raises RuntimeError for work that waits for the device.
        """
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        with torch.cuda.device(self._device):
            here = torch.cuda.current_stream(self._device)
            beside: Any = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            beside.wait_stream(here)
            with torch.cuda.stream(beside):
                for _ in range(2):
                    work()
            here.wait_stream(beside)
            graph: Any = torch.cuda.CUDAGraph()
            # Of this thread alone: what a lane beside does meanwhile is none of the recording's business.
            with torch.cuda.graph(graph, pool=self._pool, stream=beside, capture_error_mode="thread_local"):
                out = work()
        READS.n_waits += 1  # it begins by waiting for all that was launched before

        def replay() -> Tensor:
            graph.replay()
            return out

        return replay
