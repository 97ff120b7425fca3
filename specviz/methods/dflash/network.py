"""The network of `dflash`: layers over a block of the root and masked places, which read the target's states.

Context is not carried through the layers. The target's states of three layers become one row a pair, `norm(W [low; mid;
top])`, and every layer has its own keys and values of it: a row is paid for once, when its text is committed. The block
sees all context up to its root and all of itself, in both directions, so its places are always run together, however
many of them are drafted. What stands at a place speaks of the token there, by the target's own head.

The confidence head says how probable a place's best token is kept, given that all before were: it looks at the place's
state and at how peaked its law is, never at a drawn token, so drafts keep their law where tokens are drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from specviz.methods.dflash.spec import DFLASH
from specviz.methods.trained.calls import CallCache
from specviz.methods.trained.layers import Keys, Layer, LayerShape, RMSNorm, Rope, Tensor, fill_normal, linear
from specviz.methods.trained.parts import LayerConfig, drafter_kind
from specviz.methods.trained.parts import Trained as AnyTrained
from specviz.methods.trained.programs import BorrowsHead
from specviz.methods.trained.ranks import N_SUMMARY, summary

SURE_WIDTH = 64


@dataclass(frozen=True, slots=True)
class MaskedShape:
    """Everything that fixes the tensors. `places`: masked ones of a block; `layer.width` is the target's."""

    layer: LayerShape
    n_features: int
    places: int
    depth: int


class SureHead(nn.Module):
    """How sure a place is: its state and the summary of its logits -> SiLU -> one logit, no biases."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = linear(width + N_SUMMARY, SURE_WIDTH), linear(SURE_WIDTH, 1)

    def forward(self, states: Tensor, logits: Tensor) -> Tensor:
        """The logit `[..]` of the chance to be kept, from normed states `[.., width]` and logits `[.., V_d]`."""
        summarised = summary(logits).to(states.dtype)
        out: Tensor = self.up(nn.functional.silu(self.down(torch.cat([states, summarised], -1))))
        return out[..., 0]


class MaskedBlockNetwork(BorrowsHead):
    """Context comes as pairs `[B, n, 1, width]`, one row each; a block as rows `[B, m, width]`."""

    slots = 1  # rows a pair

    def __init__(self, shape: MaskedShape, rng: torch.Generator | None = None) -> None:
        super().__init__()
        self.shape, width = shape, shape.layer.width
        self.fuse = linear(shape.n_features, width)
        self.norm_context = RMSNorm(width, shape.layer.eps)
        self.masks = nn.Parameter(torch.empty(shape.places, width))
        self.layers = nn.ModuleList(Layer(shape.layer) for _ in range(shape.depth))
        self.norm_out = RMSNorm(width, shape.layer.eps)
        self.sure = SureHead(width)
        self.rope = Rope(shape.layer)
        self._headless()
        if rng is not None:
            fill_normal(self, rng)

    @property
    def depth(self) -> int:
        """Layers that keep keys and values."""
        return len(self.layers)

    @property
    def dtype(self) -> torch.dtype:
        return self.fuse.weight.dtype

    def conditions(self, features: Tensor) -> Tensor:
        """Context `[.., width]` of features `[.., n_features]`."""
        out: Tensor = self.norm_context(self.fuse(features))
        return out

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """Context rows `[B, n, 1, width]`: the token that followed is told by the next row, or is the block's root."""
        return condition[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """File keys and values of context rows `[B, n, 1, width]` in every layer; the rows themselves stay."""
        read, rope = rows[..., 0, :], self.rope.at(positions, rows)
        for index, layer in enumerate(self.layers):
            layer.filed(read, rope, index, keys)  # type: ignore[operator]
        return rows

    def masked(self, roots: Tensor) -> Tensor:
        """Blocks `[.., 1 + places, width]` of embedded roots `[.., width]`."""
        masks = self.masks.to(roots.dtype).expand(*roots.shape[:-1], -1, -1)
        return torch.cat([roots[..., None, :], masks], -2)

    def fill(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor) -> Tensor:
        """States `[B, m, width]` of blocks' rows, which see what `mask` `[B or 1, 1, m, kv]` lets them."""
        rope = self.rope.at(positions, rows)
        for index, layer in enumerate(self.layers):
            rows = layer(rows, rope, index, keys, mask)
        return rows

    def sureness(self, states: Tensor, logits: Tensor) -> Tensor:
        """The logit `[..]` of the chance that a place's best token is kept where all before were."""
        out: Tensor = self.sure(self.norm_out(states), logits)
        return out


@dataclass(frozen=True, slots=True)
class MaskedConfig(LayerConfig):
    """`config.json`. `slots`: masked places of a block; `n_layers`: of the block's network."""

    slots: int = field(kw_only=True)
    n_layers: int = field(kw_only=True)

    @property
    def shape(self) -> MaskedShape:
        return MaskedShape(self.layer, len(self.taps) * self.target_width, self.slots, self.n_layers)


Trained = AnyTrained[MaskedConfig, MaskedBlockNetwork]
KIND = replace(
    drafter_kind(DFLASH, "specviz-dflash", MaskedConfig, lambda config: MaskedBlockNetwork(config.shape)),
    join=MaskedBlockNetwork.join,
)


def block_behind(network: MaskedBlockNetwork, calls: CallCache, token: int) -> Tensor:
    """States `[places, width]` of a block behind the root `token`, whose pair is the cache's last.

    The block's rows stay in no cache: all that follows reads the target's states.
    """
    root = torch.tensor([token], device=network.masks.device)
    rows = network.masked(calls.embed(root))
    m = rows.shape[1]
    positions = calls.pairs + torch.arange(m, device=root.device)
    everything = torch.ones(1, 1, m, calls.pairs + m, dtype=torch.bool, device=root.device)
    states = network.fill(rows, positions[None], calls.cache.keys, everything)[0, 1:]
    calls.cache.drop()
    return states


def packed_blocks(
    network: MaskedBlockNetwork,
    embed: Callable[[Tensor], Tensor],
    features: Tensor,
    tokens: Tensor,
    anchors: Tensor,
) -> Tensor:
    """States `[W, A, places, width]` of a block behind each pair of `anchors` `[W, A]`, all in one forward.

    `features` `[W, P, n_features]` of pairs, `tokens` `[W, P + 1]`: what decoding gets block by block.
    """
    (n_windows, n_pairs), many = features.shape[:2], anchors.shape[1]
    m = 1 + network.shape.places
    filed: list[tuple[Tensor, Tensor]] = []

    def file(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        filed.append((key, value))
        return filed[-1]

    def both(layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = filed[layer]
        return torch.cat([keys, key], 2), torch.cat([values, value], 2)

    pairs, block = (torch.arange(n, device=anchors.device) for n in (n_pairs, many))
    context = network.conditions(features.to(network.dtype))
    network(network.begin(context, context), (pairs + 1)[None], file, None)
    roots = embed(tokens.gather(1, anchors + 1)).to(context.dtype)
    positions = anchors[..., None] + 1 + torch.arange(m, device=anchors.device)
    before = pairs <= anchors.repeat_interleave(m, 1)[..., None]
    number = block.repeat_interleave(m)
    own = (number[:, None] == number).expand(n_windows, -1, -1)
    mask = torch.cat([before, own], -1)[:, None]
    states = network.fill(network.masked(roots).flatten(1, 2), positions.flatten(1), both, mask)
    return states.view(n_windows, many, m, -1)[:, :, 1:]
