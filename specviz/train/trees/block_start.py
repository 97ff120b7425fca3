"""The weights a block network begins with: every input reaches the stream whole, and slots pass straight through.

From N(0, .02) everywhere `fuse` must first learn to keep condition and token apart, and `shifts` not to scramble the
stream. On the embedded target's text the first slot then stayed at 30 % right for 1,400 steps; from here, at lower
rates and with block 1 learning alone, it was at 63 % after 770. Nothing is fixed by this: all of it trains.
"""

import torch
from torch import nn

from specviz.methods.specblock.network import BlockNetwork

LATE = 0.3  # the latest of the target's states is several times as long as the others


@torch.no_grad()
def settle(network: BlockNetwork, rng: torch.Generator) -> None:
    """Fill what stands before the layers and between them; the layers keep their seeded weights."""
    width, embed = network.shape.layer.width, network.shape.embed_width
    for place, part in enumerate(network.condition.weight.chunk(3, 1)):
        nn.init.orthogonal_(part, LATE if place == 2 else 1.0, generator=rng)
    nn.init.eye_(network.fuse.weight[:, :width])
    nn.init.orthogonal_(network.fuse.weight[:, width : width + embed], generator=rng)
    for shift in network.shifts:
        weight: torch.Tensor = shift.weight  # type: ignore[assignment]
        weight[:, :width] += torch.eye(width, device=weight.device)
