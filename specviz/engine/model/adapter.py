"""`ModelAdapter`: any layer range of a Hugging Face causal LM, over the library's own modules.

Parts are found by attribute and proved at start-up by a self-test against `model(ids)` (a chain and a small tree), so
an architecture we never saw either works or is refused with the name of its layer type. No copy of any model's code:
layers, norms, rotary tables, head and soft cap are the library's.
"""

import inspect
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch

from specviz.engine.model.backend import Backend, TorchBackend
from specviz.engine.model.cache import KVCache
from specviz.engine.model.exact.attention import sum_dtype
from specviz.engine.model.host import to_device
from specviz.engine.model.layers.attention import RopeTable, use_packed_attention
from specviz.engine.model.layers.hooked import is_hooked
from specviz.engine.model.layers.norms import fuse_norms
from specviz.errors import ModelError

Tensor = torch.Tensor

SUPPORTED_LAYERS = ("full_attention", "sliding_attention")


class Model(Protocol):
    """What `ForwardBatch` needs of a model; `ModelAdapter` is the real one, tests have a table.

    `hidden` is `[1, n, width]`; `visible` and `kv_positions` are numpy `[n, kv]` and `[kv]`, None for a plain line;
    `logits` returns `[n, V]`. `forward` takes rows through layers from `lo`, from 0, to the last of `stops`, and gives
    their states at each of these.
    """

    n_layers: int
    vocab: int
    context: int
    device: torch.device

    def new_cache(self, capacity: int) -> KVCache: ...
    def embed(self, tokens: list[int], positions: list[int]) -> Tensor: ...
    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any: ...
    def forward(self, hidden: Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]: ...
    def normed(self, hidden: Tensor) -> Tensor: ...
    def logits(self, hidden: Tensor) -> Tensor: ...


def _first(owner: Any, *names: str) -> Any:
    for name in names:
        if getattr(owner, name, None) is not None:
            return getattr(owner, name)
    return None


def decoder(model: Any) -> tuple[Any, Any]:
    """The library's module of a causal LM's decoder, and its list of layers; None for a list that it has not."""
    base = model.get_decoder() if hasattr(model, "get_decoder") else model.base_model
    if not hasattr(base, "layers") and not hasattr(base, "h"):
        base = model.base_model
    return base, _first(base, "layers", "h")


def _scale(config: Any, name: str) -> float | None:
    """A factor that a config names; None where there is none, or it is 1."""
    value = getattr(config, name, None)
    return None if value in (None, 1) else float(value)


class ModelAdapter:
    """A loaded causal LM: its parts and their facts. Layers count from 1 in events, from 0 here.

    `backend`: how rows go through its layers and head; another way is another adapter (`with_backend`).
    """

    def __init__(self, model: Any, name: str = "model", vocab: int | None = None) -> None:
        self.model = model.eval()
        self.name = name
        self.config = model.config.get_text_config()
        self.base, self.layers = decoder(model)
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
        self._looked_up = (
            type(self.embedding) is torch.nn.Embedding
            and not is_hooked(self.embedding)
            and self.embedding.weight.is_cpu
            and _first(self.base, "wpe") is None
            and _scale(self.config, "embedding_multiplier") is None
        )
        self.vocab = min(vocab or self.config.vocab_size, self.config.vocab_size)
        self.context = int(getattr(self.config, "max_position_embeddings", None) or 1 << 30)
        self.types = self._layer_types()
        self.window = getattr(self.config, "sliding_window", None)
        self.kv_heads: int = getattr(self.config, "num_key_value_heads", None) or self.config.num_attention_heads
        self.groups = self.config.num_attention_heads // self.kv_heads
        self.softcap = getattr(self.config, "final_logit_softcapping", None)
        self._multiplied, self._divided = _scale(self.config, "logit_scale"), _scale(self.config, "logits_scaling")
        wide = self.config.hidden_size // self.config.num_attention_heads
        self.head_dim: int = getattr(self.config, "head_dim", None) or wide
        self.inner: int = getattr(self.config, "intermediate_size", None) or 4 * self.config.hidden_size
        self._rope = self._rotary()
        words = inspect.signature(self.layers[0].forward).parameters
        self.cache_word = "layer_past" if "layer_past" in words else "past_key_values"
        weight = next(model.parameters())
        self.device, self.dtype = weight.device, weight.dtype
        self.sums = torch.empty(0, dtype=sum_dtype(self.dtype), device=self.device)
        use_packed_attention(model)
        fuse_norms(model)
        self.backend: Backend = TorchBackend(self)
        self.parts: dict[tuple[str, ...], Any] = {}  # what was read from files for this model, by kind and file

    def with_backend(self, backend: Backend) -> Self:
        """The same model with another backend."""
        twin = copy(self)
        twin.backend, twin.parts = backend, {}
        return twin

    def reads_cache_of(self, other: Any) -> bool:
        """Whether it is another model in fewer bits, and may read the keys and values that one has computed."""
        return False

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

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Those that compute; rows begin and end on the first."""
        return (self.device,)

    @property
    def products(self) -> str:
        """Which matmul is used: "compiled" (the project's C kernel) or "torch"."""
        return self.backend.products

    @property
    def static(self) -> bool:
        """Whether what a position adds to a row depends on it alone."""
        return all(table.static for table in self._rope.values())

    def storages(self) -> dict[int, int]:
        """The memory that its weights lie in: bytes by address, what several of them share once."""
        held = [weight.untyped_storage() for weight in (*self.model.parameters(), *self.model.buffers())]
        return {storage.data_ptr(): storage.nbytes() for storage in held}

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots."""
        return KVCache(self.n_layers, capacity, self.backend.spare)

    def embed(self, tokens: list[int], positions: list[int]) -> Tensor:
        """Input embeddings `[1, n, width]`, learned positions included."""
        if len(tokens) == 1 and self._looked_up and not torch.is_grad_enabled():
            return self.embedding.weight[tokens[0]][None, None]  # type: ignore[no-any-return]  # a view: no call at all
        ids = to_device([tokens], self.device)
        hidden = self.embedding(ids)
        scale = _scale(self.config, "embedding_multiplier")
        hidden = hidden if scale is None else hidden * scale
        table = _first(self.base, "wpe")
        if table is not None:
            hidden = hidden + table(to_device([positions], self.device))
        return hidden  # type: ignore[no-any-return]

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        """Prepare a forward of n rows. `visible`: bool numpy `[n, kv]` or None when every row sees everything."""
        return self.backend.inputs(hidden, positions, visible, kv_positions)

    def forward(self, hidden: Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]:
        """Rows through layers from `lo` to the last of `stops`, and their states at each of these, in rising order."""
        return self.backend.forward(hidden, inputs, cache, lo, stops)

    def position_tables(self, hidden: Tensor, positions: list[int]) -> tuple[Tensor, dict[str, Any]]:
        """Positions `[1, n]` and rotary tables."""
        where = to_device([positions], self.device)
        tables = {id(table): table.at(hidden, positions, where) for table in set(self._rope.values())}
        return where, {kind: tables[id(table)] for kind, table in self._rope.items()}

    def reached(self, kind: str, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        """What rows see in layers of a kind: `visible`, within the window of those that have one."""
        if kind != "sliding_attention" or not self.window or max(positions) < self.window:
            return visible
        near = np.asarray(positions)[:, None] - np.asarray(kv_positions)[None, :] < self.window
        return near if visible is None else visible & near

    def tiled(self, reached: Any) -> Tensor | None:
        """The mask of rows that see `reached`, bool numpy `[n, kv]`; None where they see everything."""
        if reached is None:
            return None
        mask = to_device(np.ascontiguousarray(reached), self.device)
        return mask.repeat(self.groups, 1)[None, None]

    def normed(self, hidden: Tensor) -> Tensor:
        """States behind the final norm: what the library calls the last hidden state."""
        out: Tensor = self.norm(hidden)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm, head, scale and soft cap of `[1, n, width]`; `[n, vocab]`, float32 or the model's float64."""
        return self.backend.logits(hidden)

    def logits_of(self, scores: Tensor) -> Tensor:
        """The same of the head's scores `[1, n, V]`."""
        out = self.shaped(scores[0, :, : self.vocab])
        return out if out.dtype == torch.float64 else out.float()

    @property
    def bare_head(self) -> bool:
        """Whether logits are the head's scores as they stand."""
        return self.softcap is None and self._multiplied is None and self._divided is None

    def shaped(self, scores: Tensor) -> Tensor:
        """Logits from the head's output `[.., V]`: scaled and soft-capped in families that do so."""
        if self._multiplied is not None:
            scores = scores * self._multiplied
        if self._divided is not None:
            scores = scores / self._divided
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap


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
