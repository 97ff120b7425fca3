"""The decoder layer of drafters: pre-norm attention with rotary positions and grouped heads, then SwiGLU; no biases.

Rows know nothing of blocks here. Who sees whom is the mask's business, where keys and values are kept is `Keys`'s: a
cache when decoding, plain concatenation when training. So one layer serves packed, incremental and batched forwards.

Keys and values of a drafter's rows: committed ones in front, those of the round in hand behind them.

A memo: nothing here decides a token. Committed rows are only ever appended, rows of a round are
dropped by moving a length. Buffers grow by doubling, so a short text never pays for a long context.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from weakref import WeakKeyDictionary

import torch
from torch import nn

from specviz.engine.model.compiled.layer import LayerKernel, LayerWeights
from specviz.engine.model.compiled.products import KERNELS, KeptWeights, multiply_compiled, normed, pack_linear
from specviz.engine.model.compiled.program import KVSlots
from specviz.engine.model.layers.attention import packed_attention

RopeMode = Literal["offset", "repeat"]


Tensor = torch.Tensor

Keys = Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]
"""`(layer, key, value)` of new rows `[B, heads, n, head_dim]` -> all keys and values those rows may see."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    ff: int
    rope_theta: float = 10_000.0
    eps: float = 1e-6


def linear(n_in: int, n_out: int) -> nn.Linear:
    """A map without bias whose weights are left for the caller to fill: nothing is drawn from a global generator.

    On the default device, so that shapes alone can be built on `meta`.
    """
    device = torch.get_default_device()
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, n_in, n_out, bias=False, device=device)  # type: ignore[no-untyped-call]
    return layer


class RMSNorm(nn.RMSNorm):
    """The library's, its gain in the rows' dtype: under autocast rows are narrower than weights, which it warns of."""

    by_kernel = False  # where the network is compiled and gradients are off

    def forward(self, rows: Tensor) -> Tensor:
        """`rows` `[.., width]` at mean square one, times the gain."""
        if self.by_kernel and not torch.is_grad_enabled() and rows.dtype == self.weight.dtype:
            return normed(rows, self.weight, self.eps or 0.0)
        return nn.functional.rms_norm(rows, self.normalized_shape, self.weight.to(rows.dtype), self.eps)


def fill_normal(module: nn.Module, rng: torch.Generator, std: float = 0.02) -> None:
    """Matrices from N(0, std), gains at one."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(1.0) if parameter.dim() == 1 else parameter.normal_(0.0, std, generator=rng)


class Rope:
    """Rotary angles of any positions; on a CPU, where nobody learns, looked up among those worked out before."""

    def __init__(self, shape: LayerShape) -> None:
        self.dim, self.theta = shape.head_dim, shape.rope_theta
        self._known: dict[torch.dtype, tuple[Tensor, Tensor]] = {}  # of positions 0 .., `[positions, head_dim]`

    def at(self, positions: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
        """`(cos, sin)`, `[.., n, head_dim]`, in float32 or wider, then in the rows' dtype."""
        if torch.is_grad_enabled() or not positions.is_cpu:
            return self._made(positions, like.dtype)
        cos, sin = self.known(positions, like.dtype)
        return cos[positions], sin[positions]

    def known(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """`(cos, sin)` of positions 0 to the last of these at least, on the CPU, `[positions, head_dim]`."""
        table, last = self._known.get(dtype), int(positions.max())
        if table is None or last >= len(table[0]):
            longer = torch.arange(max(1024, 1 << last.bit_length()))
            table = self._known[dtype] = self._made(longer, dtype)
        return table

    def _made(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        half = torch.arange(0, self.dim, 2, device=positions.device, dtype=wide) / self.dim
        angles = positions[..., None].to(wide) * self.theta**-half
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def turned(rows: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """`[B, heads, n, head_dim]` turned by their positions."""
    cos, sin = (part.unsqueeze(-3) for part in rope)
    first, second = rows.chunk(2, -1)
    return rows * cos + torch.cat([-second, first], -1) * sin


def _attended(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """`[B, n, heads * head_dim]`. Rows that are all there is are causal as they stand: half the work of a mask."""
    if mask is None and keys.shape[2] == query.shape[2]:
        attended = nn.functional.scaled_dot_product_attention(query, keys, values, is_causal=True, enable_gqa=True)
        return attended.transpose(1, 2).flatten(2)
    return packed_attention(None, query, keys, values, mask)[0].flatten(2)


class Layer(nn.Module):
    """One layer. `forward` takes rows `[B, n, width]` and a mask `[B or 1, 1, n, kv]` (None: causal)."""

    def __init__(self, shape: LayerShape, attention_in: int | None = None) -> None:
        super().__init__()
        self.shape = shape
        inner = attention_in or shape.width  # EAGLE-3 reads two vectors side by side
        self.norm_attention = RMSNorm(shape.width, shape.eps)
        self.q = linear(inner, shape.heads * shape.head_dim)
        self.k = linear(inner, shape.kv_heads * shape.head_dim)
        self.v = linear(inner, shape.kv_heads * shape.head_dim)
        self.o = linear(shape.heads * shape.head_dim, shape.width)
        self.norm_mlp = RMSNorm(shape.width, shape.eps)
        self.gate, self.up = linear(shape.width, shape.ff), linear(shape.width, shape.ff)
        self.down = linear(shape.ff, shape.width)

    def forward(self, rows: Tensor, rope: tuple[Tensor, Tensor], index: int, keys: Keys, mask: Tensor | None) -> Tensor:
        """The rows `[B, n, width]` after this layer; its number is what `keys` files them under."""
        return self.after(rows, self.norm_attention(rows), rope, index, keys, mask)

    def after(
        self, rows: Tensor, read: Tensor, rope: tuple[Tensor, Tensor], index: int, keys: Keys, mask: Tensor | None
    ) -> Tensor:
        """As `forward`, with the attention's input `[B, n, attention_in]` handed in."""
        if isinstance(keys, RowCache) and (kernel := kernel_of(self, rows)) is not None:
            return keys.through(kernel, rows, read, rope, index, mask)
        all_k, all_v = self.filed(read, rope, index, keys)
        rows = rows + self.o(_attended(turned(self._split(self.q(read)), rope), all_k, all_v, mask))
        read = self.norm_mlp(rows)
        mixed: Tensor = rows + self.down(nn.functional.silu(self.gate(read)) * self.up(read))
        return mixed

    def filed(self, read: Tensor, rope: tuple[Tensor, Tensor], index: int, keys: Keys) -> tuple[Tensor, Tensor]:
        """File keys and values of rows `[B, n, attention_in]`; all that rows may see."""
        return keys(index, turned(self._split(self.k(read)), rope), self._split(self.v(read)))

    def _split(self, rows: Tensor) -> Tensor:
        return rows.view(*rows.shape[:2], -1, self.shape.head_dim).transpose(1, 2)

    @property
    def weights(self) -> LayerWeights:
        """As the compiled kernel takes them."""
        q, k, v, out = (projection.weight for projection in (self.q, self.k, self.v, self.o))
        gate, up, down = (projection.weight for projection in (self.gate, self.up, self.down))
        before, behind = self.norm_attention.weight, self.norm_mlp.weight
        return LayerWeights(before, q, k, v, out, behind, gate, up, down, self.shape.head_dim, self.shape.eps)


_KERNELS: "WeakKeyDictionary[Layer, tuple[KeptWeights, LayerKernel]]" = WeakKeyDictionary()


def compile_network(network: nn.Module) -> None:
    """Let a drafter on a CPU run by the compiled kernel, where there is one: its layers in one call each, its other
    products one by one; in bfloat16 with weights in four bits."""
    if not multiply_compiled(network):
        return
    inside = {id(part) for layer in network.modules() if isinstance(layer, Layer) for part in layer.modules()}
    for module in network.modules():
        if isinstance(module, Layer):
            weights = module.weights
            with suppress(ValueError, OSError):
                kernel = LayerKernel(weights, packed=weights.q.dtype == torch.bfloat16)
                _KERNELS[module] = KeptWeights(module), kernel
        elif isinstance(module, RMSNorm):
            module.by_kernel = module.weight.dtype in KERNELS and not len(module.weight) % 16
        elif type(module) is nn.Linear and id(module) not in inside:
            pack_linear(module)


def reads_four_bits(network: nn.Module) -> bool:
    """Whether layers of a drafter are read in four bits."""
    return any(
        module in _KERNELS and module.q.weight.dtype == torch.bfloat16
        for module in network.modules()
        if isinstance(module, Layer)
    )


def kernel_of(layer: Layer, rows: Tensor) -> LayerKernel | None:
    """The kernel of a layer, while its weights are those that it was made of and nobody learns through them."""
    kept = _KERNELS.get(layer)
    if kept is None or torch.is_grad_enabled() or len(rows) != 1 or not kept[0].same:
        return None
    return kept[1] if rows.dtype == layer.q.weight.dtype else None


def kernel_made(layer: Layer) -> LayerKernel | None:
    """The kernel of a layer as it was when it was compiled."""
    kept = _KERNELS.get(layer)
    return None if kept is None else kept[1]


class RowCache:
    """One pair of buffers a layer, `[1, heads, capacity, head_dim]`."""

    def __init__(self, n_layers: int) -> None:
        self.committed = 0  # rows that stay
        self.filled = 0  # and those of this round
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * n_layers

    def drop(self) -> None:
        """Forget the rows of this round."""
        self.filled = self.committed

    def commit(self) -> None:
        """All rows that are in stay."""
        self.committed = self.filled

    def keys(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write rows `[1, heads, n, head_dim]` behind the filled ones; all there are. The last layer moves `filled`."""
        end = self.filled + key.shape[2]
        buffers = self._room(layer, end, key)
        for buffer, rows in zip(buffers, (key, value), strict=True):
            buffer[:, :, self.filled : end] = rows
        if layer == len(self._buffers) - 1:
            self.filled = end
        return buffers[0][:, :, :end], buffers[1][:, :, :end]

    __call__ = keys  # it is a `Keys`

    def through(
        self,
        kernel: LayerKernel,
        rows: Tensor,
        read: Tensor,
        rope: tuple[Tensor, Tensor],
        layer: int,
        mask: Tensor | None,
    ) -> Tensor:
        """Rows `[1, n, width]` through a layer's kernel, which files their keys and values here; as `Layer.after`."""
        n, (heads, dim) = rows.shape[1], kernel.filed
        keys, values = self._room(layer, self.filled + n, rows.new_empty(1, heads, 0, dim))
        seen = None if mask is None else mask[0, 0].numpy()
        out = kernel(rows, read, rope, keys, values, self.filled, seen)
        if layer == len(self._buffers) - 1:
            self.filled += n
        return out

    def filing(self, n: int, heads: tuple[int, int], like: Tensor) -> KVSlots:
        """Room for n more rows in all layers: for so many heads, so wide. `filled` is moved by who fills it."""
        some = like.new_empty(1, heads[0], 0, heads[1])
        # All as large as the largest: one that grew while another did not, because it was interrupted, is caught up.
        end = max(self.filled + n, *(0 if buffer is None else buffer[0].shape[2] for buffer in self._buffers), 0)
        return KVSlots([self._room(layer, end, some) for layer in range(len(self._buffers))], self.filled)

    def _room(self, layer: int, end: int, like: Tensor) -> tuple[Tensor, Tensor]:
        buffers = self._buffers[layer]
        if buffers is None or buffers[0].shape[2] < end:
            size = max(256, 1 << (end - 1).bit_length())
            fresh = [like.new_empty(1, like.shape[1], size, like.shape[3]) for _ in range(2)]
            for new, old in zip(fresh, buffers or (), strict=False):
                new[:, :, : self.filled] = old[:, :, : self.filled]
            buffers = self._buffers[layer] = (fresh[0], fresh[1])
        return buffers
