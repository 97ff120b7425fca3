"""MTP layers as published models bring them, out of the target's own files: `specviz.mtp_layers` knows their names.

The layer is of the target's kind, so it is the library's own module, whatever attention and experts that has. What
stands around it is the same in all families: it reads [norm(E[x]) ; norm(h)], or the two the other way round, h is the
target's last state behind its final norm, and on drafted tokens its own output behind its last norm: engines that took
it before that norm lost acceptance from the second token on. A head that is saved with the layer is used; else it is
the target's. Where there are several layers the first serves all depths.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from specviz import model_folder
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.products import linear as product
from specviz.errors import ModelError
from specviz.methods.mtp.network import MtpConfig, MtpNetwork, Trained
from specviz.methods.trained.layers import Keys, LayerShape, Tensor, linear
from specviz.methods.trained.part_kind import refuse_odd, width_of
from specviz.methods.trained.parts import OPTION, differing
from specviz.methods.trained.programs import NetworkPrograms
from specviz.methods.trained.vocabulary import Vocabulary
from specviz.mtp_layers import OwnMtp, own_mtp

_EXPERT = re.compile(r"^(.*experts)\.(\d{1,5})\.(gate|up|down)_proj\.weight$")
_BY_LAYER = ("layer_types", "mlp_layer_types")  # fields of a config that name every layer


@dataclass(frozen=True, slots=True)
class NativeMtpConfig(MtpConfig):
    """Of layers that were not trained here. `layout`: the family whose names they bear; `n_layers`: how many there
    are."""

    layout: str = ""
    n_layers: int = 1

    @property
    def origin(self) -> str:
        """Where the layer comes from."""
        first = f", the first of {self.n_layers}" if self.n_layers > 1 else ""
        return f"the target's own{first}, in the layout of {self.layout}"


class NativeMtpNetwork(MtpNetwork):
    """Around a decoder layer of the library's. `norms`: of token, state and output; `rotary`: the target's."""

    def __init__(self, layer: nn.Module, norms: list[nn.Module], width: int, state_first: bool, rotary: Any) -> None:
        nn.Module.__init__(self)
        self.norm_token, self.norm_condition, self.norm_out = norms  # type: ignore[assignment]
        self.fuse = linear(2 * width, width)
        self.layer = layer  # type: ignore[assignment]
        self.state_first = state_first
        self._rotary = (rotary,)  # no module of this one
        self._headless()

    def begin(self, condition: Tensor, embedded: Tensor) -> Tensor:
        """Rows `[B, n, 1, width]` of h and embeddings, both `[B, n, width]`."""
        parts = [self.norm_token(embedded), self.norm_condition(condition)]
        joined: Tensor = self.fuse(torch.cat(parts[::-1] if self.state_first else parts, -1))
        return joined[..., None, :]

    def forward(self, rows: Tensor, positions: Tensor, keys: Keys, mask: Tensor | None) -> Tensor:
        """The layer's output behind its norm, `[B, n, 1, width]`: what is said of it, and the next row's h."""
        rows = rows[..., 0, :]
        (rotary,) = self._rotary
        out = self.layer(
            rows,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=_Filed(keys),
            use_cache=True,
            position_embeddings=rotary(rows, positions),
        )
        normed: Tensor = self.norm_out(out[0] if isinstance(out, tuple) else out)
        return normed[..., None, :]

    def norm_and_head(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """The states, which are normed, and draft logits `[.., V]` of them."""
        return states, product(states, self.head)

    def programs(self) -> NetworkPrograms:
        """None: the library's layer is run as it is."""
        raise ValueError("a layer of the library's")


class _Filed:
    """What the library's layer takes for a cache. Values may be narrower than keys, or wider (DeepSeek's latents)."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """File rows `[1, heads, n, head_dim]`; all that they may see."""
        widths = key.shape[3], value.shape[3]
        wide = (nn.functional.pad(rows, (0, max(widths) - rows.shape[3])) for rows in (key, value))
        keys, values = self._keys(0, *wide)
        return keys[..., : widths[0]], values[..., : widths[1]]


def read_native(folder: Path, document: Mapping[str, Any], adapter: ModelAdapter) -> Trained:
    """The first MTP layer in a folder's weight files. Raises ModelError in one line."""
    where = f"{OPTION} {folder}"
    files = {tensor.name: path for path in model_folder.weight_files(folder) for tensor in model_folder.tensors(path)}
    own = own_mtp(files)
    assert own is not None, "a folder without MTP layers"
    if document.get("quantization_config") is not None:
        raise ModelError(f"{where}: its MTP layers are quantised, which is not read: give them in 16 or 32 bits")
    tensors = _renamed(_loaded(where, files, own), own)
    head, embedding = tensors.pop("head", None), tensors.pop("embedding", None)
    refuse_odd(folder, OPTION, tensors)
    network = _built(where, own, adapter)
    wrong = differing(network, tensors := _stacked(network, tensors))
    if wrong is not None:
        raise ModelError(f"{where}: its MTP layer is not of {adapter.name}: {wrong}")
    _refuse_other(where, "embedding", embedding, adapter.embedding.weight, adapter)
    held = adapter.layers[-1].state_dict()  # the library keeps some in more bits, as a router's bias
    kept = {name: held.get(name.removeprefix("layer.")) for name in tensors}
    placed = {
        name: tensor.to(adapter.device, adapter.dtype if (like := kept[name]) is None else like.dtype)
        for name, tensor in tensors.items()
    }
    network.load_state_dict(placed, assign=True)
    vocabulary = Vocabulary(adapter.vocab)
    network.join(adapter, vocabulary)
    if head is not None:
        if head.shape[1:] != adapter.head.weight.shape[1:] or len(head) < adapter.vocab:
            theirs = list(adapter.head.weight.shape)
            raise ModelError(f"{where}: its MTP layer's head is {list(head.shape)}, the target's {theirs}")
        network.head = vocabulary.head(head.to(adapter.device, adapter.dtype))
    network.requires_grad_(False).eval()
    return Trained(_config(own, adapter), network, vocabulary)


def _loaded(where: str, files: Mapping[str, Path], own: OwnMtp) -> dict[str, Tensor]:
    """The layer's tensors by the rest of their names; no others are read."""
    out: dict[str, Tensor] = {}
    wanted = [name for name in files if own.holds(name)]
    for path in sorted({files[name] for name in wanted}):
        try:
            with safe_open(path, "pt") as file:
                out |= {n.removeprefix(own.prefix): file.get_tensor(n) for n in wanted if files[n] == path}
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{where}: {path.name} cannot be read: {' '.join(str(error).split())[:200]}") from None
    return out


def _renamed(tensors: Mapping[str, Tensor], own: OwnMtp) -> dict[str, Tensor]:
    """Under our names; what is none of the parts around it is the layer's."""
    layout = own.layout
    ours = {
        f"{layout.token}.weight": "norm_token.weight",
        f"{layout.state}.weight": "norm_condition.weight",
        f"{layout.join}.weight": "fuse.weight",
        f"{layout.out}.weight": "norm_out.weight",
        f"{layout.head}.weight": "head",
        f"{layout.embedding}.weight": "embedding",
    }
    return {ours.get(name) or f"layer.{name.removeprefix(layout.layer)}": tensor for name, tensor in tensors.items()}


def _stacked(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Experts one by one in the file, side by side in the library's module; others as they are."""
    wanted, out = network.state_dict(), {}
    experts: dict[str, dict[str, dict[int, Tensor]]] = {}
    for name, tensor in tensors.items():
        match = _EXPERT.match(name)
        if match is None or name in wanted:
            out[name] = tensor
        else:
            experts.setdefault(match[1], {}).setdefault(match[3], {})[int(match[2])] = tensor
    for group, kinds in experts.items():
        gate, up, down = (
            [some[k] for k in sorted(some)] for some in (kinds.get(n, {}) for n in ("gate", "up", "down"))
        )
        if gate and len(gate) == len(up) == len(down):
            both = [torch.cat(pair) for pair in zip(gate, up, strict=True)]
            out |= {f"{group}.gate_up_proj": torch.stack(both), f"{group}.down_proj": torch.stack(down)}
    return out


def _built(where: str, own: OwnMtp, adapter: ModelAdapter) -> NativeMtpNetwork:
    """The network on `meta`. Raises ModelError where the library's layer cannot be made alone."""
    config = deepcopy(adapter.config)
    fields = config.to_dict()
    for name in _BY_LAYER:
        kinds = fields.get(name)
        if isinstance(kinds, list):
            setattr(config, name, [*kinds, "full_attention" if name == _BY_LAYER[0] else kinds[-1]])
    kind, width = type(adapter.layers[-1]), width_of(adapter)
    rotary = dict(adapter.base.named_children()).get("rotary_emb")
    try:
        with torch.device("meta"):
            layer = kind(config, adapter.n_layers)
            norm, eps = type(layer.input_layernorm), config.rms_norm_eps
            network = NativeMtpNetwork(
                layer, [norm(width, eps=eps) for _ in range(3)], width, own.layout.state_first, rotary
            )
    except (AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise ModelError(f"{where}: a layer of type {kind.__name__} cannot be made alone: {error}") from None
    kept = {name for name, _ in network.named_buffers() if name != "head"} - {*network.state_dict()}
    if kept or rotary is None:
        raise ModelError(f"{where}: MTP layers of type {kind.__name__} are not supported")
    return network


def _refuse_other(where: str, what: str, own: Tensor | None, theirs: Tensor, adapter: ModelAdapter) -> None:
    """A copy of the target's that is none would be read wrongly."""
    if own is not None and (own.shape != theirs.shape or not torch.allclose(own.to(theirs), theirs, atol=1e-2)):
        raise ModelError(f"{where}: brings an {what} that is not the target {adapter.name}'s; it was made for another")


def _config(own: OwnMtp, adapter: ModelAdapter) -> NativeMtpConfig:
    heads = adapter.kv_heads * adapter.groups
    layer = LayerShape(width_of(adapter), heads, adapter.kv_heads, adapter.head_dim, adapter.inner)
    more = {"layout": own.layout.family, "n_layers": own.n_layers, "trained_steps": 1}
    return NativeMtpConfig.describing(adapter, "", (adapter.n_layers,), adapter.vocab, layer, **more)
