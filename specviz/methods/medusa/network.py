"""Medusa's heads: head j says `W2_j (f + SiLU(W1_j f + b_j))` of the target's last hidden state f.

f is taken after the target's final norm; its own logits gave the root token, so head 0 speaks of the token behind the
root. W1 begins at zero and W2 at the target's head: an untrained head says what the target said one token ago. Heads
do not see each other.
"""

import torch
from torch import nn

Tensor = torch.Tensor


class MedusaHeads(nn.Module):
    """`n` heads in stacked tensors, one residual block each (the released code's further blocks share one weight)."""

    def __init__(self, n: int, width: int, vocab: int) -> None:
        super().__init__()
        self.inner = nn.Parameter(torch.zeros(n, width, width))
        self.bias = nn.Parameter(torch.zeros(n, width))
        self.outer = nn.Parameter(torch.empty(n, vocab, width))

    @property
    def n(self) -> int:
        """How many heads."""
        return len(self.inner)

    def begin(self, rows: Tensor) -> "MedusaHeads":
        """Let every head begin at the target's own, `[V_d, width]`, copied."""
        with torch.no_grad():
            self.outer.copy_(rows.to(self.outer).expand_as(self.outer))
        return self

    def one(self, head: int, states: Tensor) -> Tensor:
        """`[n_rows, V_d]` of one head."""
        turned = states @ self.inner[head].T + self.bias[head]
        out: Tensor = (states + nn.functional.silu(turned)) @ self.outer[head].T
        return out

    def forward(self, states: Tensor) -> Tensor:
        """`[n_rows, heads, V_d]` of states `[n_rows, width]`."""
        turned = torch.einsum("hij,nj->nhi", self.inner, states) + self.bias
        return torch.einsum("hvi,nhi->nhv", self.outer, states[:, None] + nn.functional.silu(turned))
