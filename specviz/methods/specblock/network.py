"""The block network: one call makes K left-to-right dependent positions.

A block reads a condition (target features of a pair, or the cached state of the place it starts at), the embedding of
its input token, and one learned query per slot. Between layers slot k also receives what slot k - 1 had: the layer-wise
shift. No drafted token is read inside a block. Letters in formulas: Q `queries`, W_c `condition`, W_f `fuse`, S_l
`shifts`, W_o `head`, h what `forward` returns, g `norm_out(h)`. Switches that only ablations turn:
`shift`, `broadcast` (condition and token reach slot 0 alone).

`packed` is the forward that trains it: block 1 of every pair is one causal pass over the rows in order. Block b > 1 of
an anchor continues from the slot where the block before was cut: its rows see block 1 of earlier
pairs, what its own chain had up to the cuts, and themselves. Blocks 2 and later of other anchors are not seen: those
rows do not exist when decoding. So anchors are independent and a subset may be drawn.

In a folder, `rope_mode` is fixed by training, so it is read from there and nowhere else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.program import RowChoice
from specviz.methods.common.knobs import BLOCKS
from specviz.methods.trained.calls import PairNetwork
from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, RopeMode, fill_normal, linear
from specviz.methods.trained.parts import TapConfig, drafter_kind, unfit
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.programs import CallTables, ModuleSketch, NetworkPrograms, SketchedReader
from specviz.methods.trained.ranks import N_SUMMARY, RankHead, summary

Tensor = torch.Tensor


class _Kept:
    """Keys and values `[B, heads, rows, head_dim]` of all blocks so far, by layer, joined along the rows."""

    def __init__(self, n_layers: int) -> None:
        self.layers: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(n_layers)]

    def keys(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.layers[layer].append((key, value))
        keys, values = zip(*self.layers[layer], strict=True)
        return torch.cat(keys, 2), torch.cat(values, 2)


def packed(
    network: PairNetwork,
    embed: Callable[[Tensor], Tensor],
    features: Tensor,
    tokens: Tensor,
    anchors: Tensor,
    cuts: Sequence[int],
) -> list[Tensor]:
    """`h` of block 1 `[W, S, K, width]`, and `[W, A, K, width]` of one further block for every cut.

    `features` `[W, S, n_features]` of pairs 0.., `tokens` `[W, S + 1]`, `anchors` `[W, A]` pair numbers. Input tokens
    beyond the text are its last one; what such rows say has no label.
    """
    n_pairs = features.shape[1]
    kept = _Kept(network.depth)
    embedded, features = embed(tokens).to(network.dtype), features.to(network.dtype)
    inputs = torch.arange(1, n_pairs + 1, device=tokens.device)
    rows = network.begin(network.conditions(features), embedded[:, 1 : n_pairs + 1])
    blocks = [network(rows, network.places(inputs)[None], kept.keys, None)]
    window = torch.arange(len(tokens), device=tokens.device)[:, None]
    offset, condition = 0, blocks[0][window, anchors]
    for number, cut in enumerate(cuts):
        offset += cut
        place = (anchors + 1 + offset).clamp(max=tokens.shape[1] - 1)
        rows = network.begin(condition[:, :, cut - 1], embedded[window, place])
        mask = _mask(anchors, n_pairs, network.slots, cuts[: number + 1])
        depths = torch.full_like(anchors, offset)
        condition = network(rows, network.places(anchors + 1 + offset, depths), kept.keys, mask)
        blocks.append(condition)
    return blocks


def _mask(anchors: Tensor, n_pairs: int, slots: int, cuts: Sequence[int]) -> Tensor:
    """`[W, 1, A * K, (S + blocks * A) * K]` of the block behind `cuts`, True = visible."""
    n = anchors.shape[1]
    pair = torch.arange(n_pairs, device=anchors.device).repeat_interleave(slots)
    slot = torch.arange(slots, device=anchors.device).repeat(n_pairs)
    first = (pair < anchors[..., None]) | ((pair == anchors[..., None]) & (slot < cuts[0]))  # [W, A, S * K]
    parts = [first[:, :, None].expand(-1, -1, slots, -1).flatten(1, 2)]
    same = torch.eye(n, dtype=torch.bool, device=anchors.device)
    own = torch.ones(slots, slots, dtype=torch.bool, device=anchors.device)
    for part in (*((own & (slot[:slots] < cut)) for cut in cuts[1:]), own.tril()):
        block = (same[:, None, :, None] & part[None, :, None, :]).flatten(2, 3).flatten(0, 1)
        parts.append(block.expand(len(anchors), -1, -1))
    return torch.cat(parts, -1)[:, None]


@dataclass(frozen=True, slots=True)
class BlockShape:
    """Everything that fixes the tensors of a network, and the two switches of its forward."""

    layer: LayerShape
    n_features: int  # 3 x the target's width
    embed_width: int  # of the target's embedding
    vocab: int  # draft vocabulary
    slots: int = 4
    n_layers: int = 2
    rank_width: int = 256
    rope_mode: RopeMode = "offset"
    shift: bool = True
    broadcast: bool = True

    def __post_init__(self) -> None:
        """One layer would leave the shift no place."""
        assert self.n_layers >= 2, f"a block network needs two layers, not {self.n_layers}"
        assert self.slots >= 1, f"a block has slots, not {self.slots}"


class BlockNetwork(SketchedReader):
    """Rows come and go as `[B, n, K, width]`: n blocks of K slots."""

    head: nn.Linear

    def __init__(self, shape: BlockShape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, self.slots = shape, shape.slots
        width, layer = shape.layer.width, shape.layer
        self.condition = linear(shape.n_features, width)
        self.norm_condition = RMSNorm(width, layer.eps)
        self.norm_token = RMSNorm(shape.embed_width, layer.eps)
        self.norm_query = RMSNorm(width, layer.eps)
        self.queries = nn.Parameter(torch.empty(shape.slots, width))
        self.fuse = linear(2 * width + shape.embed_width, width)
        self.layers = nn.ModuleList(Layer(layer) for _ in range(shape.n_layers))
        self.shifts = nn.ModuleList(linear(2 * width, width) for _ in range(shape.n_layers - 1) if shape.shift)
        self.norm_out = RMSNorm(width, layer.eps)
        self.head = linear(width, shape.vocab)
        self.rank = RankHead(width + N_SUMMARY, shape.rank_width)
        self.rope = Rope(layer)
        if rng is not None:
            fill_normal(self, rng)

    @property
    def depth(self) -> int:
        return self.shape.n_layers

    def conditions(self, features: Tensor) -> Tensor:
        """`W_c F` `[.., width]` of features F `[.., n_features]`."""
        out: Tensor = self.condition(features)
        return out

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """`X^(0)` `[B, n, K, width]` of conditions `[B, n, width]` and input embeddings `[B, n, embed_width]`."""
        prefix = torch.cat([self.norm_condition(condition), self.norm_token(embedded)], -1)
        spread = prefix[..., None, :].expand(*prefix.shape[:-1], self.shape.slots, -1)
        if not self.shape.broadcast:
            spread = torch.cat([spread[..., :1, :], torch.zeros_like(spread[..., 1:, :])], -2)
        queries = self.norm_query(self.queries).expand(*prefix.shape[:-1], -1, -1)
        fused: Tensor = self.fuse(torch.cat([spread, queries], -1))
        return fused

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """`h` `[B, n, K, width]`. `positions` `[B or 1, n * K]`; `mask` over the flattened rows, None: causal."""
        rope = self.rope.at(positions, rows)
        for index, layer in enumerate(self.layers):
            if index and self.shape.shift:
                before = torch.cat([rows[..., :1, :], rows[..., :-1, :]], -2)  # slot 0 is paired with itself
                rows = self.shifts[index - 1](torch.cat([rows, before], -1))
            rows = layer(rows.flatten(1, 2), rope, index, keys, mask).unflatten(1, rows.shape[1:3])
        return rows

    def programs(self) -> NetworkPrograms:
        """The same by the kernel. Raises ValueError for an ablation, and for sizes that it does not know."""
        if not (self.shape.shift and self.shape.broadcast):
            raise ValueError("an ablation")
        return super().programs()

    def _sketched(self, call: ModuleSketch, later: bool) -> CallTables:
        """`conditions`, `begin` and `forward`. What `fuse` reads of condition and token is one row a block, what it
        reads of the queries is always the same: neither is worked out again for every slot."""
        shape, k = self.shape, self.slots
        width, split = shape.layer.width, shape.layer.width + shape.embed_width
        inputs = call.table(width if later else shape.n_features)
        embedded, prefix, fused = call.table(shape.embed_width), call.table(split), call.table(width)
        rows, out = call.table(width, k), call.table(width, *((k, 0) if later else (0, k)))
        condition = inputs
        if not later:
            condition = call.table(width)
            call.through(inputs, condition, self.condition)
        call.normed(condition, prefix, self.norm_condition)
        call.normed(embedded, prefix, self.norm_token, width)
        call.through(prefix, fused, self.fuse.weight[:, :split])
        queries = nn.functional.linear(self.norm_query(self.queries).float(), self.fuse.weight[:, split:].float())
        call.copy(fused, rows, RowChoice.REPEAT, k)
        call.add(call.always(queries), rows, RowChoice.CYCLE)
        for index, layer in enumerate(self.layers):
            if index:
                both = call.table(2 * width, k)
                call.copy(rows, both)
                call.copy(rows, both, RowChoice.PREVIOUS, k, width)
                call.through(both, rows, self.shifts[index - 1])  # type: ignore[arg-type]
            last = out if index == len(self.layers) - 1 else rows
            call.decoded(rows, layer, index, last)  # type: ignore[arg-type]
        call.copy(rows, out, RowChoice.LAST)
        return CallTables(inputs, embedded, out)

    def places(self, inputs: Tensor, depths: Tensor | int = 0) -> Tensor:
        """Rotary positions `[.., n * K]` of blocks whose input tokens stand at `inputs` `[.., n]`.

        `depths`: how deep in the tree they start; `rope_mode` repeat puts every block where the root's own is.
        """
        first = inputs - depths if self.shape.rope_mode == "repeat" else inputs
        slots = torch.arange(self.shape.slots, device=first.device)
        return (first[..., None] + slots).flatten(-2)

    def head_logits(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        """Draft logits `[.., V_d]`, rank logits `[.., 4]` and the summary `[.., 15]` behind them, of `h` `[.., width]`.

        The rank head sees both its inputs detached: its loss moves nothing but itself.
        """
        normed, logits = self.norm_and_head(states)
        summarised = summary(logits.detach())
        return logits, self.judged(normed, summarised), summarised

    def judged(self, normed: Tensor, summarised: Tensor) -> Tensor:
        """Rank logits `[.., 4]` of normed states and summaries `[.., 15]`."""
        return self.rank.judged(normed, summarised)


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


def _unfit(config: BlockConfig, adapter: ModelAdapter) -> str | None:
    """Why a drafter cannot be of this target."""
    wide = int(adapter.embedding.weight.shape[1])
    if (why := unfit(config, adapter)) is not None or config.embed_width == wide:
        return why
    return f"config.json reads tokens as {config.embed_width} numbers, the target {adapter.name} has {wide} for each"


KIND = replace(
    drafter_kind(BLOCKS, "specviz-block-drafter", BlockConfig, lambda config: BlockNetwork(config.shape)), fits=_unfit
)
