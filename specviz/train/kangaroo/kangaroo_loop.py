"""Training adapters: as exit heads are trained, but on whole windows, since an adapter reads the states before a row.

Several layers learn from the same passes of the target, so that comparing layers costs little more than one of them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from specviz.methods.kangaroo.adapter import Adapter, Shape, rope_table
from specviz.train.exits.loop import HeadRun, Job, States, loss_of


class AdapterRun(HeadRun):
    """A training of adapters in progress; `job.heads` are adapters by layer."""

    def __init__(self, job: Job, shape: Shape) -> None:
        super().__init__(job)
        self._rope = rope_table(shape, job.model.device)

    def _losses(self, windows: Tensor, keep: Tensor) -> Iterator[Tensor]:
        job, (rows, length) = self.job, windows.shape
        states = States.of(job.model, windows, tuple(job.heads), job.final.vocab)
        wanted, keep = states.final[keep.to(states.final.device)], keep.to(states.final.device)
        places = list(range(length))
        for layer, adapter in job.heads.items():
            read = states.by_layer[layer].reshape(rows, length, -1).to(adapter.norm.weight.dtype)
            rope = self._rope.at(read, places, torch.arange(length, device=read.device)[None])
            yield loss_of(scores(adapter, read, rope, job, keep), wanted, job.labels, job.final.ids)


def scores(adapter: Adapter, read: Tensor, rope: tuple[Tensor, Tensor], job: Job, keep: Tensor) -> Tensor:
    """`[n, V]` at the positions `keep` of windows of states `[rows, length, d]`."""
    out = adapter(read, rope).flatten(0, 1)[keep]
    return job.final.scores(adapter.norm(out))
