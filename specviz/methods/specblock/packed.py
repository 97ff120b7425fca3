"""The packed forward that trains a block network: all pairs of a text at once, then later blocks at some anchors.

Block 1 of every pair is one causal pass over the rows in order. Block b > 1 of an anchor continues from the slot where
the block before was cut (specblock.md 7.3): its rows see block 1 of earlier pairs, what its own chain had up to the
cuts, and themselves. Blocks 2 and later of other anchors are not seen: those rows do not exist when decoding. So
anchors are independent and a subset may be drawn.
"""

from collections.abc import Callable, Sequence

import torch

from specviz.methods.trained.pairs import PairNetwork

Tensor = torch.Tensor


class _Kept:
    """Keys and values of all blocks so far, by layer, behind one another."""

    def __init__(self, n_layers: int) -> None:
        self.layers: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(n_layers)]

    def keys(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.layers[layer].append((key, value))
        keys, values = zip(*self.layers[layer], strict=True)
        return torch.cat(keys, 2), torch.cat(values, 2)


def packed(
    network: PairNetwork, embed: Callable[[Tensor], Tensor], features: Tensor, tokens: Tensor, anchors: Tensor,
    cuts: Sequence[int],
) -> list[Tensor]:  # fmt: skip
    """`h` of block 1 `[W, S, K, width]`, and `[W, A, K, width]` of one further block for every cut.

    `features` `[W, S, n_features]` of pairs 0.., `tokens` `[W, S + 1]`, `anchors` `[W, A]` pair numbers. Input tokens
    beyond the text are its last one; what such rows say has no label.
    """
    n_pairs = features.shape[1]
    kept = _Kept(network.depth)
    embedded, features = embed(tokens).to(network.dtype), features.to(network.dtype)
    inputs = torch.arange(1, n_pairs + 1, device=tokens.device)
    rows = network.begin(network.conditions(features), embedded[:, 1 : n_pairs + 1])
    made = [network(rows, network.places(inputs)[None], kept.keys, None)]
    window = torch.arange(len(tokens), device=tokens.device)[:, None]
    offset, condition = 0, made[0][window, anchors]
    for number, cut in enumerate(cuts):
        offset += cut
        place = (anchors + 1 + offset).clamp(max=tokens.shape[1] - 1)
        rows = network.begin(condition[:, :, cut - 1], embedded[window, place])
        mask = _mask(anchors, n_pairs, network.slots, cuts[: number + 1])
        depths = torch.full_like(anchors, offset)
        condition = network(rows, network.places(anchors + 1 + offset, depths), kept.keys, mask)
        made.append(condition)
    return made


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
