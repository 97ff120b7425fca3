"""`ModelAdapter`: any layer range of a Hugging Face causal LM, over the library's own modules.

Parts are found by attribute and proved at start-up by a self-test against `model(ids)` (a chain and a small tree), so
an architecture we never saw either works or is refused with the name of its layer type. No copy of any model's code:
layers, norms, rotary tables, head and soft cap are the library's.
"""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch

from specviz.engine.model.cache import KVCache
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.exact.attention import sum_dtype
from specviz.engine.model.exact.plan import SPARE, PassWidths, RowPlan, order_of, together
from specviz.engine.model.host import sent
from specviz.engine.model.layers.attention import RopeTable, use_packed_attention
from specviz.engine.model.layers.hooked import is_hooked
from specviz.engine.model.layers.norms import fuse_norms
from specviz.errors import ModelError

Tensor = torch.Tensor

SUPPORTED_LAYERS = ("full_attention", "sliding_attention")


@dataclass(frozen=True, slots=True)
class ForwardInputs:
    """What a forward of some rows needs in every layer: positions, masks and rotary tables, each by layer type."""

    positions: Tensor  # [1, n]
    masks: dict[str, Tensor | RowPlan | None]  # bool [1, 1, G * n, kv], True = visible; None = everything
    rope: dict[str, Any]  # empty for learned positions
    padding: int = 0  # rows to be added, for exact passes
    reach: int | None = None  # slots that they read
    rest: "ForwardInputs | None" = None  # of the rows behind, where these are as many as go through together
    paths: Any = None  # what passes of another way are told in place of masks
    plain: "Callable[[], ForwardInputs] | None" = None  # the same for layers one by one, made where it is asked for


class Model(Protocol):
    """What `ForwardBatch` needs of a model; `ModelAdapter` is the real one, tests have a table.

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
    def run_to(self, hidden: Tensor, block: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]: ...
    def normed(self, hidden: Tensor) -> Tensor: ...
    def logits(self, hidden: Tensor) -> Tensor: ...


class Passes(Protocol):
    """Another way through the layers of a model and its head (`compiled`, `graphs`).

    `head`: None for the adapter's own. `spare`: slots of a cache beyond its capacity. `part`: the same without some
    sublayers; None where those layers are to be run one by one. `run_to`: through layers from `lo` to the last of
    `stops`, and the states at each of these. `logits`: of rows `[1, n, width]`, None where the adapter's own modules
    are to be used.
    """

    head: Any
    spare: int

    def paths(self, positions: list[int], visible: Any, kv_positions: Any) -> Any: ...
    def run(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor: ...
    def run_to(
        self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]: ...
    def logits(self, hidden: Tensor) -> Tensor | None: ...
    def part(self, attention: Collection[int], mlp: Collection[int]) -> "Passes | None": ...


def one_by_one(model: Any, hidden: Tensor, block: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]:
    """What `run_to` gives, by a `run` from each stop to the next."""
    out: list[Tensor] = []
    for stop in stops:
        hidden = model.run(hidden, block, cache, lo, stop)
        lo = stop
        out.append(hidden)
    return out


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
    """A loaded causal LM. `hidden` is `[1, n, width]`; layers count from 1 in events, `lo..hi` from 0 here.

    `mapped`: hooks of the library's bring rows and weights together; layers must be called as they are.
    `twin_of`: the model that this one is in fewer bits, where it reads that one's keys and values.
    """

    mapped = False
    twin_of: "ModelAdapter | None" = None
    layers_told = ""  # what a header says of its layers, where they are not run as usual

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
        self.direct: tuple[Any, ...] | None = None  # the layers in a form with fewer calls (`direct_layer`)
        self.n_layers = len(self.layers)
        if not self.n_layers:
            raise ModelError(f"{name}: it has no layers; config.json must name at least 1 (num_hidden_layers)")
        self.head = model.get_output_embeddings()
        self.compiled: Passes | None = None
        self.uncompiled: NotCompiled | None = None  # why there is no kernel for its passes
        self.threads: int | None = None  # of torch, that its rows were tried with; None: those that the process has
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
        self._cache_word = (
            "layer_past" if "layer_past" in inspect.signature(self.layers[0].forward).parameters else None
        )
        weight = next(model.parameters())
        self.device, self.dtype = weight.device, weight.dtype
        self.widths: PassWidths | None = None  # of passes whose rows are exact; None: rows may round as they stand
        self.sums = torch.empty(0, dtype=sum_dtype(self.dtype), device=self.device)
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

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Those that compute; rows begin and end on the first."""
        return (self.device,)

    @property
    def products(self) -> str:
        """What multiplies: our own kernel, or torch."""
        return "torch" if self.compiled is None or self.compiled.head is None else "compiled"

    @property
    def static(self) -> bool:
        """Whether what a position adds to a row depends on it alone."""
        return all(table.static for table in self._rope.values())

    def storages(self) -> dict[int, int]:
        """The memory that its weights lie in: bytes by address, what several of them share once."""
        held = [each.untyped_storage() for each in (*self.model.parameters(), *self.model.buffers())]
        return {storage.data_ptr(): storage.nbytes() for storage in held}

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots."""
        spare = 0 if self.widths is None else SPARE
        return KVCache(self.n_layers, capacity, spare if self.compiled is None else self.compiled.spare)

    def embed(self, tokens: list[int], positions: list[int]) -> Tensor:
        """Input embeddings `[1, n, width]`, learned positions included."""
        if len(tokens) == 1 and self._looked_up and not torch.is_grad_enabled():
            return self.embedding.weight[tokens[0]][None, None]  # type: ignore[no-any-return]  # a view: no call at all
        ids = sent([tokens], self.device)
        hidden = self.embedding(ids)
        scale = _scale(self.config, "embedding_multiplier")
        hidden = hidden if scale is None else hidden * scale
        table = _first(self.base, "wpe")
        if table is not None:
            hidden = hidden + table(sent([positions], self.device))
        return hidden  # type: ignore[no-any-return]

    def block(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> ForwardInputs:
        """Prepare a forward of n rows. `visible`: bool numpy `[n, kv]` or None when every row sees everything."""
        if self.compiled is not None:
            where, rope = self._places(hidden, positions)
            paths = self.compiled.paths(positions, visible, kv_positions)
            plain = partial(self._rows_block, hidden, positions, visible, kv_positions)
            return ForwardInputs(where, {}, rope, paths=paths, plain=plain)
        return self._rows_block(hidden, positions, visible, kv_positions)

    def _rows_block(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> ForwardInputs:
        """As `block`, for layers one by one."""
        if self.widths is not None:
            return self._exact_block(self.widths, hidden, positions, visible, kv_positions)
        masks: dict[str, Tensor | RowPlan | None] = {
            kind: self._mask(kind, positions, visible, kv_positions) for kind in set(self.types)
        }
        return self.inputs(hidden, positions, masks)

    def inputs(self, hidden: Tensor, positions: list[int], masks: dict[str, Tensor | RowPlan | None]) -> ForwardInputs:
        """What a forward of rows needs, their masks known."""
        where, rope = self._places(hidden, positions)
        return ForwardInputs(where, masks, rope)

    def _exact_block(
        self, widths: PassWidths, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any
    ) -> ForwardInputs:
        """Rows in passes of as many as are exact together; those behind see the slots of those before."""
        if visible is None:
            visible = np.ones((len(positions), len(kv_positions)), dtype=np.bool_)
        n, rest = together(visible, positions, kv_positions, widths), None
        if n < len(positions):
            rest = self._exact_block(widths, hidden, positions[n:], visible[n:], kv_positions)
            end = len(kv_positions) - len(positions) + n
            positions, visible, kv_positions = positions[:n], visible[:n, :end], kv_positions[:end]
        padding = widths.padding(n)
        filled = [*positions, *range(positions[-1] + 1, positions[-1] + 1 + padding)]
        order = order_of(visible, positions, kv_positions, padding, self.groups, widths, self.sums)
        masks: dict[str, Tensor | RowPlan | None] = {
            kind: order.seeing(self._reached(kind, positions, visible, kv_positions)) for kind in set(self.types)
        }
        where, rope = self._places(hidden, filled)
        return ForwardInputs(where, masks, rope, padding, order.wide, rest)

    def _places(self, hidden: Tensor, positions: list[int]) -> tuple[Tensor, dict[str, Any]]:
        """Positions `[1, n]` and rotary tables."""
        where = sent([positions], self.device)
        found = {id(table): table.at(hidden, positions, where) for table in set(self._rope.values())}
        return where, {kind: found[id(table)] for kind, table in self._rope.items()}

    def _reached(self, kind: str, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        """What rows see in layers of a kind: `visible`, within the window of those that have one."""
        if kind != "sliding_attention" or not self.window or max(positions) < self.window:
            return visible
        near = np.asarray(positions)[:, None] - np.asarray(kv_positions)[None, :] < self.window
        return near if visible is None else visible & near

    def _mask(self, kind: str, positions: list[int], visible: Any, kv_positions: Any) -> Tensor | None:
        return self.tiled(self._reached(kind, positions, visible, kv_positions))

    def tiled(self, reached: Any) -> Tensor | None:
        """The mask of rows that see `reached`, bool numpy `[n, kv]`; None where they see everything."""
        if reached is None:
            return None
        mask = sent(np.ascontiguousarray(reached), self.device)
        return mask.repeat(self.groups, 1)[None, None]

    def run(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        """Rows through layers `lo..hi`, writing their keys and values to the cache."""
        if block.paths is not None and self.compiled is not None:
            return self.compiled.run(hidden, block, cache, lo, hi)
        if block.plain is not None:
            block = block.plain()
        if block.reach is None:
            return self._layers(hidden, block, cache, lo, hi)
        out: list[Tensor] = []
        step: ForwardInputs | None = block
        while step is not None:
            n = step.positions.shape[1] - step.padding
            rows, hidden = hidden[:, :n], hidden[:, n:]
            out.append(self._padded(rows, step, cache, lo, hi)[:, :n])
            step = step.rest
        return out[0] if len(out) == 1 else torch.cat(out, 1)

    def run_to(
        self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, stops: Sequence[int]
    ) -> list[Tensor]:
        """Rows through layers from `lo` to the last of `stops`, and their states at each of these, in rising order."""
        if block.paths is not None and self.compiled is not None:
            return self.compiled.run_to(hidden, block, cache, lo, stops)
        return one_by_one(self, hidden, block, cache, lo, stops)

    def _padded(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        cache.padding, cache.reach = block.padding, block.reach
        try:
            return self._layers(_filled(hidden, block.padding), block, cache, lo, hi)
        finally:
            cache.padding, cache.reach = 0, None

    def _layers(self, hidden: Tensor, block: ForwardInputs, cache: KVCache, lo: int, hi: int) -> Tensor:
        kw: dict[str, Any] = {"position_ids": block.positions, "use_cache": True}
        kw[self._cache_word or "past_key_values"] = cache
        layers = self.direct or self.layers
        for index in range(lo, hi):
            kind = self.types[index]
            if block.rope:
                kw["position_embeddings"] = block.rope[kind]
            out = layers[index](hidden, attention_mask=block.masks[kind], **kw)
            hidden = out[0] if isinstance(out, tuple) else out
        return hidden

    def normed(self, hidden: Tensor) -> Tensor:
        """States behind the final norm: what the library calls the last hidden state."""
        out: Tensor = self.norm(hidden)
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm, head, scale and soft cap of `[1, n, width]`; `[n, vocab]`, float32 or the model's float64."""
        found = None if self.compiled is None else self.compiled.logits(hidden)
        if found is not None:
            return found
        out = self.shaped(self._scores(hidden)[0, :, : self.vocab])
        return out if out.dtype == torch.float64 else out.float()

    @property
    def bare_head(self) -> bool:
        """Whether logits are the head's scores as they stand."""
        return self.softcap is None and self._multiplied is None and self._divided is None

    def shaped(self, scores: Tensor) -> Tensor:
        """Logits of the head's scores `[.., V]`: scaled and soft-capped, in families that do it."""
        if self._multiplied is not None:
            scores = scores * self._multiplied
        if self._divided is not None:
            scores = scores / self._divided
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap

    def _scores(self, hidden: Tensor) -> Tensor:
        if self.compiled is not None and self.compiled.head is not None:
            return self.compiled.head(self.norm(hidden))  # type: ignore[no-any-return]
        if self.widths is None:
            return self.head(self.norm(hidden))  # type: ignore[no-any-return]
        n, most = hidden.shape[1], self.widths.most
        if n > most:
            return torch.cat([self._scores(hidden[:, k : k + most]) for k in range(0, n, most)], 1)
        return self.head(self.norm(_filled(hidden, self.widths.padding(n))))[:, :n]  # type: ignore[no-any-return]


def _filled(hidden: Tensor, padding: int) -> Tensor:
    """Rows `[1, n, width]` with rows of zeros behind."""
    return torch.nn.functional.pad(hidden, (0, 0, 0, padding)) if padding else hidden


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
