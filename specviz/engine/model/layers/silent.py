"""`Silent`: a stand-in module for a skipped attention or MLP sublayer; it returns zeros."""

from typing import Any

import torch
from torch import nn


class Silent(nn.Module):
    """Stands where a sublayer was: zeros of the shape of what came in. `pair`: attention gives weights besides."""

    def __init__(self, pair: bool) -> None:
        super().__init__()
        self.pair = pair

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Zeros `[1, n, width]`, and None for the weights."""
        hidden = args[0] if args else kwargs["hidden_states"]
        zeros = torch.zeros_like(hidden)
        return (zeros, None) if self.pair else zeros
