"""Medusa's heads: head j says `W2_j (f + SiLU(W1_j f + b_j))` of the target's last hidden state f.

f is taken after the target's final norm; its own logits gave the root token, so head 0 speaks of the token behind the
root. W1 begins at zero and W2 at the target's head: an untrained head says what the target said one token ago. Heads
do not see each other.

Medusa heads on disk.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.methods.common.tree_knobs import HEADS
from specviz.methods.trained import published
from specviz.methods.trained.part_kind import Tensors, read_tensors
from specviz.methods.trained.parts import OPTION, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.rank_shapes import NAME, read_table

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
        return len(self.inner)

    def begin(self, rows: Tensor) -> "MedusaHeads":
        """Let every head begin at the target's own, `[V_d, width]`, copied."""
        with torch.no_grad():
            self.outer.copy_(rows.to(self.outer).expand_as(self.outer))
        return self

    def one(self, head: int, states: Tensor) -> Tensor:
        """`[n_rows, V_d]` of one head, from states `[n_rows, width]`."""
        turned = states @ self.inner[head].T + self.bias[head]
        out: Tensor = (states + nn.functional.silu(turned)) @ self.outer[head].T
        return out

    def forward(self, states: Tensor) -> Tensor:
        """`[n_rows, heads, V_d]` of states `[n_rows, width]`."""
        turned = torch.einsum("hij,nj->nhi", self.inner, states) + self.bias
        return torch.einsum("hvi,nhi->nhv", self.outer, states[:, None] + nn.functional.silu(turned))


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    """`config.json`. `right[j][r]`: how often the target's token had rank r + 1 in head j on held-out text.

    The fixed tree follows from it; `counted` is false of a stand-in.
    """

    target: str
    target_name: str
    target_layers: int
    target_width: int
    vocab: int
    draft_vocab: int
    heads: int
    right: tuple[tuple[float, ...], ...] = ()
    counted: bool = True

    @property
    def tree(self) -> str:
        return (
            "tree from counted ranks"
            if self.counted
            else "stand-in tree, as no table of ranks comes with released heads"
        )

    @property
    def taps(self) -> tuple[int, ...]:
        """The target's last layer: its state is what heads read."""
        return (self.target_layers,)


Trained = AnyTrained[MedusaConfig, MedusaHeads]


def _published(folder: Path, given: dict[str, Any], adapter: ModelAdapter) -> tuple[MedusaConfig, Tensors]:
    """Released heads; which weights their target has is not known, and a table of ranks is ours or a stand-in."""
    tensors = published.medusa_tensors(folder, read_tensors(folder, OPTION, adapter.device))
    heads, vocab, width = tensors["outer"].shape
    counted = (folder / NAME).is_file()  # by specviz train static-tree
    config = MedusaConfig(
        target="",
        target_name=published.name_of(folder, given),
        target_layers=adapter.n_layers,
        target_width=width,
        vocab=min(vocab, adapter.vocab),
        draft_vocab=min(vocab, adapter.vocab),
        heads=heads,
        right=read_table(folder) if counted else published.usual_shares(heads),
        counted=counted,
    )
    tensors["outer"] = tensors["outer"][:, : adapter.vocab]  # padded rows stand for no token
    return config, tensors


KIND = drafter_kind(
    HEADS,
    "specviz-medusa",
    MedusaConfig,
    lambda config: MedusaHeads(config.heads, config.target_width, config.draft_vocab),
    _published,
)
