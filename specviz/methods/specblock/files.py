"""Block drafters on disk. `rope_mode` is fixed by training, so it is read from the folder and nowhere else."""

from dataclasses import dataclass

from specviz.methods.common.tree_knobs import BLOCKS
from specviz.methods.specblock.network import BlockNetwork, BlockShape
from specviz.methods.trained.layers import LayerShape, RopeMode
from specviz.methods.trained.parts import TapConfig, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained


@dataclass(frozen=True, slots=True)
class BlockConfig(TapConfig):
    """`config.json`. `trained_blocks`: how many blocks of a round the training unrolled."""

    embed_width: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    rope_theta: float
    rope_mode: RopeMode
    slots: int = 4
    n_layers: int = 2
    rank_width: int = 256
    eps: float = 1e-6
    shift: bool = True
    broadcast: bool = True
    trained_blocks: int = 3

    @property
    def shape(self) -> BlockShape:
        return BlockShape(
            LayerShape(self.width, self.heads, self.kv_heads, self.head_dim, self.ff, self.rope_theta, self.eps),
            len(self.taps) * self.target_width,
            self.embed_width,
            self.draft_vocab,
            self.slots,
            self.n_layers,
            self.rank_width,
            self.rope_mode,
            self.shift,
            self.broadcast,
        )


Trained = AnyTrained[BlockConfig, BlockNetwork]
KIND = drafter_kind(BLOCKS, "specviz-block-drafter", BlockConfig, lambda config: BlockNetwork(config.shape))
