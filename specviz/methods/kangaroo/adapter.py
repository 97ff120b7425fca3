"""Kangaroo's adapter: what turns the states after a shallow layer into a draft model.

A norm, one multi-head attention with a residual, a norm; no feed-forward; then the target's own head. With 4 d^2
weights it reads all the states of the text, where an exit head reads one. Attention, norms and rotary table are the
library's Llama modules whatever the target is; angles and their scaling are the target's where it has any.

`AdapterModel` is the adapter behind the engine's model interface: one layer with a cache of its own, whose input are
the target's states in place of token embeddings. A row depends only on the tokens up to it, so `follow` keeps whatever
spells the text, accepted drafts included. When every draft was kept, the last of them went through the target but not
through the adapter: the next round feeds two rows, which is what `follow` says is missing.

A folder holds `adapter.safetensors` and a `config.json` naming the target's fingerprint, layer and shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRMSNorm, LlamaRotaryEmbedding

from specviz.engine.model.adapter import Model, ModelAdapter
from specviz.engine.model.cache import KVCache
from specviz.engine.model.layers.attention import NAME, RopeTable
from specviz.engine.model.rows import BLOCK, ForwardBatch, Tensor
from specviz.methods import Part
from specviz.methods.early_exit.heads import FinalHead
from specviz.methods.trained.part_kind import PartKind, in_bfloat16, misshapen, width_of

_SCALED = ("default", "linear", "llama3", "yarn")  # kinds of angles that fit heads of another width


@dataclass(frozen=True, slots=True)
class AdapterShape:
    """What an adapter is built from. `rope`: the library's rotary parameters; `context`: positions of the target."""

    width: int
    n_heads: int
    eps: float
    context: int
    rope: dict[str, Any]

    @classmethod
    def of(cls, target: ModelAdapter) -> "AdapterShape":
        """The adapter that fits a target: heads about as wide as the target's own."""
        width = int(target.head.weight.shape[1])
        wanted = round(width / (getattr(target.config, "head_dim", None) or width // target.config.num_attention_heads))
        n_heads = next(n for n in range(max(1, wanted), 0, -1) if width % n == 0 and width // n % 2 == 0)
        eps = float(getattr(target.config, "rms_norm_eps", None) or 1e-6)
        return cls(width, n_heads, eps, min(target.context, 1 << 17), _rope(target.config))

    @property
    def config(self) -> LlamaConfig:
        if self.width // self.n_heads % 2:  # halves of a head are turned against one another
            raise ValueError(f"{self.n_heads} heads of {self.width} numbers are of an odd width")
        config = LlamaConfig(
            hidden_size=self.width,
            num_attention_heads=self.n_heads,
            num_key_value_heads=self.n_heads,
            head_dim=self.width // self.n_heads,
            num_hidden_layers=1,
            rms_norm_eps=self.eps,
            max_position_embeddings=self.context,
            rope_parameters=dict(self.rope),
        )
        config._attn_implementation = NAME
        return config


def _rope(config: Any) -> dict[str, Any]:
    """Rotary parameters like the target's; those of its global layers where it has several, plain ones without."""
    parameters = getattr(config, "rope_parameters", None) or {}
    parameters = parameters.get("full_attention", parameters)
    theta = float(parameters.get("rope_theta", 10_000.0))
    if parameters.get("rope_type") not in _SCALED:
        return {"rope_type": "default", "rope_theta": theta}
    return {name: value for name, value in parameters.items() if name != "partial_rotary_factor"}


class Adapter(nn.Module):
    """The weights. Begins as the logit lens: the attention's output is zero, the last norm is the target's."""

    kind = "adapter"

    def __init__(self, shape: AdapterShape, like: torch.dtype = torch.float32, device: Any = "cpu") -> None:
        super().__init__()
        config = shape.config
        cuda = [device] if torch.device(device).type == "cuda" else []
        # The library draws first weights from the global generator.
        with torch.random.fork_rng(devices=cuda), torch.device(device):
            self.input_norm = LlamaRMSNorm(shape.width, shape.eps)
            self.attention = LlamaAttention(config, 0)
            self.norm = LlamaRMSNorm(shape.width, shape.eps)
        self.to(like)

    @torch.no_grad()
    def begin(self, final_norm: Any, seed: int) -> "Adapter":
        """First weights for a training: the norm's gain from `final_norm` where it has one of the same shape `[d]`."""
        noise = torch.Generator().manual_seed(seed)
        attention = self.attention
        for part in (attention.q_proj, attention.k_proj, attention.v_proj):
            drawn = torch.randn(part.weight.shape, generator=noise) * part.weight.shape[1] ** -0.5
            part.weight.copy_(drawn)
        attention.o_proj.weight.zero_()
        gain = getattr(final_norm, "weight", None)
        if gain is not None and gain.shape == self.norm.weight.shape:
            self.norm.weight.copy_(gain)
        return self

    def forward(
        self, states: Tensor, rope: tuple[Tensor, Tensor], mask: Tensor | None = None, cache: Any = None
    ) -> Tensor:
        """States `[B, n, d]` to states `[B, n, d]`, in front of the last norm."""
        out, _ = self.attention(
            self.input_norm(states), position_embeddings=rope, attention_mask=mask, past_key_values=cache
        )
        return states + out  # type: ignore[no-any-return]

    @property
    def n_params(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


class AdapterModel:
    """An adapter for layer `layer` of a target, as a model of one layer."""

    n_layers = 1

    def __init__(self, target: ModelAdapter, adapter: Adapter, shape: AdapterShape, layer: int) -> None:
        self.adapter, self.layer = adapter, layer
        self.vocab, self.context, self.device = target.vocab, target.context, target.device
        self.final = FinalHead(target)
        self._rope = rope_table(shape, target.device)

    def new_cache(self, capacity: int) -> KVCache:
        return KVCache(1, capacity)

    def embed(self, tokens: list[int], positions: list[int]) -> Tensor:
        """Refused with NotImplementedError: its rows begin as states `[n, width]` of the target (`StateRows.hand`)."""
        raise NotImplementedError("an adapter reads states of the target, not tokens")

    def inputs(self, hidden: Tensor, positions: list[int], visible: Any, kv_positions: Any) -> Any:
        """Rotary tables `[1, n, head_dim]` and mask `[1, 1, n, kv]` (None: causal) of rows `[1, n, d]`."""
        where = torch.tensor([positions], device=hidden.device)
        mask = None
        if visible is not None:
            mask = torch.from_numpy(np.ascontiguousarray(visible)).to(hidden.device)[None, None]
        return self._rope.at(hidden, positions, where), mask

    def forward(self, hidden: Tensor, inputs: Any, cache: KVCache, lo: int, stops: Sequence[int]) -> list[Tensor]:
        """Rows `[1, n, d]` through the adapter, its one layer, which writes their keys and values to its cache."""
        rope, mask = inputs
        return [self.adapter(hidden, rope, mask, cache)]

    def normed(self, hidden: Tensor) -> Tensor:
        """States `[1, n, d]` behind the adapter's last norm."""
        return self.adapter.norm(hidden)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        """`[n, V]` of `[1, n, d]`: its last norm, the target's head. Float32, or the model's float64."""
        out = self.final.scores(self.normed(hidden)[0])
        return out if out.dtype == torch.float64 else out.float()

    @property
    def weights_read(self) -> int:
        """Weights that one draft reads besides the target's layers."""
        return self.adapter.n_params + self.final.weight.numel()


def rope_table(shape: AdapterShape, device: Any) -> RopeTable:
    return RopeTable(LlamaRotaryEmbedding(shape.config).to(device))


class StateRows(ForwardBatch):
    """Rows that begin as states of another model, handed over with their tokens."""

    def __init__(self, model: Model, cache: KVCache) -> None:
        super().__init__(model, cache)
        self._handed: list[Tensor] = []

    def hand(self, tokens: Sequence[int], states: Tensor) -> None:
        """Rows for `tokens` one after another at the end, with their states `[n, width]`."""
        for token in tokens:
            self.add(token, len(self) - 1)
        self._handed.append(states)

    def _embed(self) -> None:
        self._arrive(0, torch.cat(self._handed)[None], len(self))
        self._handed.clear()


class Reader:
    """Reads one text through an adapter. `model`: the adapter as a model of one layer, over states."""

    def __init__(self, model: Model, capacity: int) -> None:
        self.model = model
        self.cache = model.new_cache(capacity)
        self.rows: StateRows | None = None
        self._states: list[Tensor] = []  # `[n, width]` of committed positions from `_first` on, in order
        self._first = 0
        self._text: list[int] = []  # what was committed when the round began
        self.spelled = 0  # slots of the cache that spell the text

    @property
    def known(self) -> int:
        """Committed positions whose states were learnt."""
        return self._first + sum(len(states) for states in self._states)

    def learn(self, states: Tensor, tokens: Sequence[int] = ()) -> None:
        """States `[n, width]` of the next committed positions; `tokens`: what the round committed."""
        if len(states):
            self._states.append(states)
        self.spelled = self.cache.holds([*self._text, *tokens][:-1])

    def begin(self, tokens: Sequence[int], root: Tensor) -> Tensor:
        """Logits `[1, V]` after the committed `tokens`; `root`: the state `[1, width]` of the last of them."""
        self._text = list(tokens)
        missing = self.cache.follow(tokens[:-1])
        assert self.known == len(tokens) - 1, f"states of {self.known} positions for a text of {len(tokens)}"
        states = self._taken(root)
        while len(missing) > BLOCK:
            rows = StateRows(self.model, self.cache)
            rows.hand(missing[:BLOCK], states[:BLOCK])
            rows.climb(1)
            states = states[BLOCK:]
            missing = self.cache.follow(tokens[:-1])
        self.rows = StateRows(self.model, self.cache)
        self.rows.hand([*missing, tokens[-1]], torch.cat([states, root]))
        return self.rows.take(1)

    def _taken(self, like: Tensor) -> Tensor:
        """States `[n, width]` of the committed positions that the cache lacks; those before them are forgotten."""
        lacking = torch.cat([like[:0], *self._states])[self.cache.length - self._first :]
        self._states, self._first = [lacking], self.cache.length
        return lacking

    def feed(self, token: int, state: Tensor) -> Tensor:
        """Logits `[1, V]` after one more drafted token; `state`: the target's `[1, width]` of it."""
        assert self.rows is not None
        self.rows.hand([token], state)
        return self.rows.take(1)


_TRAIN = "specviz train kangaroo"


@dataclass(frozen=True, slots=True)
class AdapterConfig:
    """`config.json` of an adapter. `target`: its fingerprint; `layer`: the adapter reads the states behind it."""

    target: str
    target_name: str
    n_layers: int
    layer: int
    shape: AdapterShape

    def write(self, folder: Path) -> None:
        KIND.save(folder, self)


def _unfit(config: AdapterConfig, target: ModelAdapter) -> str | None:
    width = width_of(target)
    if 1 <= config.layer < target.n_layers and config.shape.width == width:
        return None
    return (
        f"config.json names layer {config.layer} of width {config.shape.width}, the target has "
        f"layers 1 to {target.n_layers - 1} below its last, of width {width}"
    )


KIND = PartKind(
    part=Part("weights of an adapter", _TRAIN, "kangaroo", knob="adapter"),
    format="specviz-kangaroo-adapter",
    config=AdapterConfig,
    weights="adapter.safetensors",
    hint=f"give one that {_TRAIN} wrote, or lens",
    advice=f"train one for it with {_TRAIN}",
    fits=_unfit,
    by_weights=True,
)


def save(folder: Path, config: AdapterConfig, adapter: Adapter) -> None:
    KIND.save(folder, config, in_bfloat16(adapter.state_dict()))


def load(folder: Path, target: ModelAdapter) -> AdapterModel:
    """The adapter in a folder, read once per target. Raises ModelError in one line for one that holds none, or none of
    this target."""
    return KIND.once(folder, target, lambda: _read(folder, target))


def _read(folder: Path, target: ModelAdapter) -> AdapterModel:
    config, tensors = KIND.opened(folder, target)
    try:
        adapter = Adapter(config.shape, target.dtype, target.device)
        adapter.load_state_dict(tensors)
        model = AdapterModel(target, adapter.requires_grad_(False), config.shape, config.layer)
        _prove(model, target)
        return model
    except Exception as error:  # a shape that does not fit trips the library anywhere
        raise misshapen(folder, KIND.option, error) from error


@torch.inference_mode()
def _prove(model: AdapterModel, target: ModelAdapter) -> None:
    """Let it read two rows. Raises ValueError where its logits are not finite, as bad angles or norms make them."""
    rows = StateRows(model, model.new_cache(2))
    rows.hand([0, 0], torch.ones(2, target.head.weight.shape[1], dtype=target.dtype, device=target.device))
    if not bool(rows.take(2).isfinite().all()):
        raise ValueError("what it says are no finite numbers; its shape cannot be right")


def pick(target: object, wanted: str | None) -> AdapterModel | None:
    """The adapter to use: a folder's, or None for the one shipped with the target if there is one.

    `lens`, and a target that is no model of the library's, have none. Raises ModelError in one line for a folder.
    """
    if wanted == "lens" or not isinstance(target, ModelAdapter):
        return None
    if wanted is not None:
        return load(Path(wanted), target)
    own = (folder for folder in KIND.shipped_for(target) if KIND.document(folder).get("format") == KIND.format)
    folder = next(own, None)
    return None if folder is None else load(folder, target)
