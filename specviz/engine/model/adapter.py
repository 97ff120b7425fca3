"""`ModelAdapter`: any layer range of a Hugging Face causal LM, over the library's own modules.

Parts are found by attribute and proved at start-up by a self-test against `model(ids)` (a chain and a small tree), so
an architecture we never saw either works or is refused with the name of its layer type. No copy of any model's code:
layers, norms, rotary tables, head and soft cap are the library's (engine.md 1.4).

One call in place of seven for the library's RMS norms, where the numbers are the same to the last bit.

The library spells the norm out (convert, square, mean, add, root, multiply, convert, weight), which on small rows costs
more than the products around it. A norm is replaced only after its fused twin gave equal bits on probe rows, on the
device and in the dtype at hand; Gemma's `1 + weight`, lower precisions that round elsewhere and anything unknown keep
the library's code.
"""

import inspect
from dataclasses import dataclass
from types import MethodType
from typing import Any, Protocol

import numpy as np
import torch

from specviz.engine.model.attention import RopeTable, use_packed_attention
from specviz.engine.model.cache import KVCache
from specviz.errors import ModelError

Tensor = torch.Tensor

SUPPORTED_LAYERS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class ForwardInputs:
    """What a forward of some rows needs in every layer: positions, masks and rotary tables, each by layer type."""

    positions: Tensor  # [1, n]
    masks: dict[str, Tensor | None]  # bool [1, 1, G * n, kv], True = visible; None = everything
    rope: dict[str, Any]  # empty for learned positions


class Model(Protocol):
    """What `Rows` needs of a model; `ModelAdapter` is the real one, tests have a table.

    `hidden` is `[1, n, width]`; `visible` and `kv_positions` are numpy `[n, kv]` and `[kv]`, None for a plain line;
    `logits` returns `[n, V]`. `lo..hi` are layers, from 0.
    """

    n_layers: int
    vocab: int
    context: int
    device: torch.device

    def new_cache(self, capacity: int) -> KVCache: ...
    def embed(self, tokens: list[int], positions: list[int]) -> Tensor: ...
    def block(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any: ...
    def run(self, hidden: Tensor, block: Any, cache: KVCache, lo: int, hi: int) -> Tensor: ...
    def normed(self, hidden: Tensor) -> Tensor: ...
    def logits(self, hidden: Tensor) -> Tensor: ...


def _first(owner: Any, *names: str) -> Any:
    for name in names:
        if getattr(owner, name, None) is not None:
            return getattr(owner, name)
    return None


class ModelAdapter:
    """A loaded causal LM. `hidden` is `[1, n, width]`; layers count from 1 in events, `lo..hi` from 0 here."""

    def __init__(self, model: Any, name: str = "model", vocab: int | None = None) -> None:
        self.model = model.eval()
        self.name = name
        self.config = model.config.get_text_config()
        self.base = model.get_decoder() if hasattr(model, "get_decoder") else model.base_model
        if not hasattr(self.base, "layers") and not hasattr(self.base, "h"):
            self.base = model.base_model
        self.layers = _first(self.base, "layers", "h")
        self.norm = _first(self.base, "norm", "final_layer_norm", "ln_f")
        if self.layers is None or self.norm is None:
            raise ModelError(
                f"{name}: no decoder layers found in {type(model).__name__}; known: Llama-like, GPT-2, GPT-NeoX"
            )
        self.layers = tuple(self.layers)  # a module list looks every index up by name
        self.n_layers = len(self.layers)
        if not self.n_layers:
            raise ModelError(f"{name}: it has no layers; config.json must name at least 1 (num_hidden_layers)")
        self.head = model.get_output_embeddings()
        self.embedding = model.get_input_embeddings()
        self.vocab = min(vocab or self.config.vocab_size, self.config.vocab_size)
        self.context = int(getattr(self.config, "max_position_embeddings", None) or 1 << 30)
        self.types = self._layer_types()
        self.window = getattr(self.config, "sliding_window", None)
        self.groups = self.config.num_attention_heads // (
            getattr(self.config, "num_key_value_heads", None) or self.config.num_attention_heads
        )
        self.softcap = getattr(self.config, "final_logit_softcapping", None)
        self._rope = self._rotary()
        self._cache_word = (
            "layer_past" if "layer_past" in inspect.signature(self.layers[0].forward).parameters else None
        )
        weight = next(model.parameters())
        self.device, self.dtype = weight.device, weight.dtype
        use_packed_attention(model)
        fuse_norms(model)

    def _layer_types(self) -> list[str]:
        types = getattr(self.config, "layer_types", None)
        if types is None:
            window = getattr(self.config, "sliding_window", None)
            types = ["sliding_attention" if window else "full_attention"] * self.n_layers
        unknown = sorted(set(types) - set(SUPPORTED_LAYERS))
        if unknown:
            raise ModelError(
                f"{self.name}: layer type '{unknown[0]}' cannot be rolled back here; "
                f"supported: {', '.join(SUPPORTED_LAYERS)}"
            )
        return list(types)

    def _rotary(self) -> dict[str, RopeTable]:
        """A table for every layer type; none for learned positions."""
        rope = _first(self.base, "rotary_emb")
        if rope is None:
            return {}
        if "layer_type" in inspect.signature(rope.forward).parameters:
            return {kind: RopeTable(rope, kind) for kind in set(self.types)}
        return dict.fromkeys(self.types, RopeTable(rope))

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots."""
        return KVCache(self.n_layers, capacity)

    def embed(self, tokens: list[int], positions: list[int]) -> Tensor:
        """Input embeddings `[1, n, width]`, learned positions included."""
        ids = torch.tensor([tokens], device=self.device)
        hidden = self.embedding(ids)
        table = _first(self.base, "wpe")
        if table is not None:
            hidden = hidden + table(torch.tensor([positions], device=self.device))
        return hidden  # type: ignore[no-any-return]

    def block(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> ForwardInputs:
        """Prepare a forward of n rows. `visible`: bool numpy `[n, kv]` or None when every row sees everything."""
        where = torch.tensor([positions], device=self.device)
        masks = {kind: self._mask(kind, positions, visible, kv_positions) for kind in set(self.types)}
        found = {id(table): table.at(hidden, positions, where) for table in set(self._rope.values())}
        return ForwardInputs(where, masks, {kind: found[id(table)] for kind, table in self._rope.items()})

    def _mask(self, kind: str, positions: list[int], visible: Any, kv_positions: Any) -> Tensor | None:
        reached = visible
        if kind == "sliding_attention" and self.window and max(positions) >= self.window:
            near = np.asarray(positions)[:, None] - np.asarray(kv_positions)[None, :] < self.window
            reached = near if reached is None else reached & near
        if reached is None:
            return None
        mask = torch.from_numpy(np.ascontiguousarray(reached)).to(self.device)
        return mask.repeat(self.groups, 1)[None, None]

    def run(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        """Rows through layers `lo..hi`, writing their keys and values to the cache."""
        kw: dict[str, Any] = {"position_ids": block.positions, "use_cache": True}
        kw[self._cache_word or "past_key_values"] = cache
        for index in range(lo, hi):
            kind = self.types[index]
            if block.rope:
                kw["position_embeddings"] = block.rope[kind]
            out = self.layers[index](hidden, attention_mask=block.masks[kind], **kw)
            hidden = out[0] if isinstance(out, tuple) else out
        return hidden

    def normed(self, hidden: Tensor) -> Tensor:
        """States behind the final norm: what the library calls the last hidden state."""
        out: Tensor = self.norm(hidden)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm, head and soft cap of `[1, n, width]`; `[n, vocab]`, float32 or the model's float64."""
        out: Tensor = self.head(self.norm(hidden))[0, :, : self.vocab]
        if self.softcap is not None:
            out = torch.tanh(out / self.softcap) * self.softcap
        return out if out.dtype == torch.float64 else out.float()


_HEIGHTS = (1, 2, 5, 33)  # rows


@torch.inference_mode()
def fuse_norms(model: Any) -> int:
    """Replace every RMS norm that has an equal fused twin; returns how many."""
    found = [module for module in model.modules() if type(module).__name__.endswith("RMSNorm") and _equal(module)]
    for module in found:
        module.forward = MethodType(_fused, module)  # bound, so that a deep copy of the model is bound to its own
    return len(found)


def _fused(norm: Any, hidden_states: Tensor) -> Tensor:
    weight = norm.weight
    return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, norm.variance_epsilon)


def _equal(norm: Any) -> bool:
    weight, eps = getattr(norm, "weight", None), getattr(norm, "variance_epsilon", None)
    if weight is None or weight.dim() != 1 or not isinstance(eps, float):
        return False
    noise = torch.Generator().manual_seed(0)
    samples = [torch.randn(1, n, len(weight), generator=noise).to(weight.device, weight.dtype) for n in _HEIGHTS]
    return all(torch.equal(norm(sample), _fused(norm, sample)) for sample in samples)


@dataclass(frozen=True, slots=True)
class FactoryModels:
    """What a drafter factory may use. `capacity`: slots a cache needs for a whole query."""

    target: Model
    draft: Model | None
    capacity: int

    @property
    def devices(self) -> tuple[torch.device, torch.device]:
        """Where target and draft model compute; without a draft model the target's twice."""
        return self.target.device, (self.draft or self.target).device

    @property
    def cuda_devices(self) -> tuple[torch.device, ...]:
        """Those a clock must wait for."""
        return tuple(dict.fromkeys(device for device in self.devices if device.type == "cuda"))
