"""`QuantisedAdapter`: a four-bit copy of a model, which itself stays unchanged.

Embedding, norm weights, rotary tables and tokenizer are shared with the model; the weights of its layers and its head
(`sharp_head`) are packed. Layers of the Llama kind run as one function (`direct_layer`), others as a copy of the
library's module with its linear layers replaced. It uses caches like any draft model, and computes in bfloat16 whatever
the model's dtype is: the kernels need it.
"""

import copy
import hashlib
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import TorchBackend
from specviz.engine.model.drafts.corrected import CorrectedLinear, Correction
from specviz.engine.model.few_bits.sharp_head import RescoredInt4Head
from specviz.engine.model.few_bits.weight_only import DTYPE, Int4Linear
from specviz.engine.model.layers.direct_layer import DirectLayer, has_direct_form
from specviz.engine.model.layers.hooked import present, unhooked
from specviz.engine.model.layers.norms import fuse_norms
from specviz.errors import ModelError

Tensor = torch.Tensor


class _Corrected(nn.Module):
    """A packed product and what is added to it."""

    def __init__(self, packed: nn.Module, correction: nn.Module) -> None:
        super().__init__()
        self.packed, self.correction = packed, correction

    def forward(self, rows: Tensor) -> Tensor:
        out: Tensor = self.packed(rows) + self.correction(rows)
        return out


class QuantisedAdapter(ModelAdapter):
    """An adapter of the same model over weights of four bits. `packed`: the linear layers of its layers.

    Raises ModelError for a target whose layers are not made of linear layers, and for a device without kernels.
    """

    def __init__(self, target: ModelAdapter) -> None:
        if target.device.type not in ("cpu", "cuda"):
            raise ModelError(f"--draft self:int4: no kernels for device '{target.device.type}'; use cpu or cuda")
        if len(target.devices) > 1:
            raise ModelError(
                "--draft self:int4 is made of the target's weights, "
                "and those lie on several devices: name a draft model"
            )
        if not isinstance(target.head, nn.Linear):
            raise ModelError(f"--draft self:int4: a head of type {type(target.head).__name__} cannot be packed")
        self.__dict__.update(target.__dict__)  # the same modules and settings; what differs follows
        self.name, self.dtype = f"{target.name}:int4", DTYPE
        self.packed: list[Int4Linear] = []
        self._rope = self._rotary()  # tables of its own: they are made in the dtype of the rows
        with torch.inference_mode():
            self.layers = tuple(self._layer(target, index) for index in range(target.n_layers))
            self._refuse_few(target)
            self.norm = self._twin(target.norm)
            fuse_norms(self.norm)
            weight, bias = target.head.weight.detach(), target.head.bias
            self.head = RescoredInt4Head(weight, None if bias is None else bias.detach())
        self.backend = TorchBackend(self)  # drafts may round as they like

    def embed(self, tokens: list[int], positions: list[int]) -> Tensor:
        """Rows of the target's own table, in bfloat16."""
        return super().embed(tokens, positions).to(DTYPE)

    def reads_cache_of(self, other: Any) -> bool:
        """Keys and values of the same model, in more bits."""
        return isinstance(other, ModelAdapter) and other.model is self.model

    @property
    def own_grid(self) -> float:
        """Share of the groups that stood on a four-bit grid in the target already, 0..1."""
        return sum(linear.n_own for linear in self.packed) / max(1, sum(linear.n_groups for linear in self.packed))

    @property
    def n_bytes(self) -> int:
        """Memory of the packed weights, beside what is the target's."""
        return sum(buffer.nbytes for linear in (*self.packed, self.head) for buffer in linear.buffers())

    def storages(self) -> dict[int, int]:
        """The target's, and the packed weights."""
        packed = (buffer.untyped_storage() for linear in (*self.packed, self.head) for buffer in linear.buffers())
        return super().storages() | {storage.data_ptr(): storage.nbytes() for storage in packed}

    def digest(self, target: str) -> str:
        """A fingerprint of its own, told by the target's."""
        return hashlib.sha256(f"{target} int4".encode()).hexdigest()[:32]

    def _linear(self, weight: Tensor, bias: Tensor | None) -> Int4Linear:
        linear = Int4Linear(weight.detach(), bias)
        self.packed.append(linear)
        return linear

    def _layer(self, target: ModelAdapter, index: int) -> Any:
        direct = has_direct_form(target, index)
        with present(target.layers[index]) as layer:
            return DirectLayer(layer, self._linear, DTYPE) if direct else self._twin(layer)

    def _twin(self, module: nn.Module) -> Any:
        """The module with packed linear layers in it and all else in bfloat16; what needs no change is shared."""
        if isinstance(module, nn.Linear):
            packed = self._linear(module.weight, module.bias)
            if not isinstance(module, CorrectedLinear):
                return packed
            factors = (module.correction.down, module.correction.up)
            return _Corrected(packed, Correction(*(factor.detach().to(DTYPE) for factor in factors)))
        if isinstance(module, Conv1D):  # GPT-2 keeps its weights the other way round
            return self._linear(module.weight.t(), module.bias)
        twin = unhooked(copy.copy(module))  # a fused norm's is bound to the norm it was made for
        twin._modules = {name: child and self._twin(child) for name, child in module._modules.items()}
        twin._parameters = {
            name: weight if weight is None else nn.Parameter(weight.detach().to(DTYPE), requires_grad=False)
            for name, weight in module._parameters.items()
        }
        return twin

    def _refuse_few(self, target: ModelAdapter) -> None:
        """Mixtures of experts keep most weights in one tensor that no linear layer holds: nothing would be smaller."""
        layer = target.layers[0]
        whole = sum(int(weight.numel()) for layer in target.layers for weight in layer.parameters())
        held = sum(linear.n_in * linear.n_out for linear in self.packed)
        if 2 * held < whole:
            raise ModelError(
                f"--draft self:int4: {type(layer).__name__} holds most weights outside of linear layers "
                f"({whole - held:,} of {whole:,}), which cannot be packed; name a draft model"
            )
