"""The network of `mtp`: a decoder layer over `M [norm(E[x]) ; norm(h)]`, the target's embedding and head around it.

h is the target's last state, behind its final norm, on committed text, and the layer's own output on drafted tokens. So
a row is a pair (the state whose logits gave a token, that token) as in EAGLE-3, whose cache and masks serve here too.
The models that bring such a layer may train one for every depth; engines run the first again and again, as is done
here, and the training unrolls what drafting will do.

The head is the target's: its rows of the draft vocabulary are no weights of the part and not in its file.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.program import RowChoice
from specviz.methods.mtp.spec import MTP
from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, Tensor, fill_normal, linear
from specviz.methods.trained.parts import LayerConfig, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.programs import BorrowsHead, CallTables, ModuleSketch, SketchedReader


class MtpNetwork(BorrowsHead, SketchedReader):
    """Rows come and go as `[B, n, 1, width]`."""

    slots, depth = 1, 1

    def __init__(self, shape: LayerShape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.norm_token = RMSNorm(shape.width, shape.eps)
        self.norm_condition = RMSNorm(shape.width, shape.eps)
        self.fuse = linear(2 * shape.width, shape.width)
        self.layer = Layer(shape)
        self.norm_out = RMSNorm(shape.width, shape.eps)
        self.rope = Rope(shape)
        self._headless()
        if rng is not None:
            fill_normal(self, rng)

    def conditions(self, features: Tensor) -> Tensor:
        """The target's states `[.., width]` as they are."""
        return features

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """Rows `[B, n, 1, width]` of h and embeddings, both `[B, n, width]`."""
        joined: Tensor = self.fuse(torch.cat([self.norm_token(embedded), self.norm_condition(condition)], -1))
        return joined[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The layer's output `[B, n, 1, width]`, which the next token's row takes for h."""
        out: Tensor = self.layer(rows[..., 0, :], self.rope.at(positions, rows), 0, keys, mask)
        return out[..., None, :]

    def _sketched(self, call: ModuleSketch, later: bool) -> CallTables:
        """`begin` and `forward`."""
        width = self.shape.width
        states, embedded, both, rows = call.table(width), call.table(width), call.table(2 * width), call.table(width)
        out = call.table(width, *((1, 0) if later else (0, 1)))
        call.normed(embedded, both, self.norm_token)
        call.normed(states, both, self.norm_condition, width)
        call.through(both, rows, self.fuse)
        call.decoded(rows, self.layer, 0, out)
        call.copy(rows, out, RowChoice.LAST)
        return CallTables(states, embedded, out)


@dataclass(frozen=True, slots=True)
class MtpConfig(LayerConfig):
    """`config.json`. `trained_steps`: how many tokens ahead the training went; `bits`: of a weight on disk, 16 or 8."""

    trained_steps: int = 3
    bits: int = 16

    @property
    def origin(self) -> str:
        """Where the layer comes from."""
        return f"trained for {self.trained_steps} tokens ahead"


Trained = AnyTrained[MtpConfig, MtpNetwork]


def _native(folder: Path, document: dict[str, Any], adapter: ModelAdapter) -> Trained:
    """Layers that a target brings itself."""
    from specviz.methods.mtp.native import read_native

    return read_native(folder, document, adapter)


KIND = replace(
    drafter_kind(MTP, "specviz-mtp", MtpConfig, lambda config: MtpNetwork(config.layer)),
    join=MtpNetwork.join,
    small=lambda config: config.bits == 8,
    native=_native,
)
