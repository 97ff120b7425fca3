"""One call in place of seven for the library's RMS norms (four in 16 bits), where all bits of the numbers are the same.

The library spells the norm out (convert, square, mean, add, root, multiply, convert, weight), which on small rows costs
more than the products around it. A norm is replaced only after its fused twin gave equal bits on probe rows, on the
device and in the dtype at hand; Gemma's `1 + weight`, lower precisions that round elsewhere and anything unknown keep
the library's code.
"""

from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from specviz.engine.model.layers.hooked import is_hooked

Tensor = torch.Tensor

_HEIGHTS = (1, 2, 5, 33)  # rows


@torch.inference_mode()
def fuse_norms(model: Any) -> int:
    """Replace every RMS norm that has an equal fused twin; returns how many. One under a hook keeps it."""
    n = 0
    for module in model.modules():
        if not type(module).__name__.endswith("RMSNorm") or is_hooked(module):
            continue
        twin = next((twin for twin in (_fused, _fused_in_float) if _equal(module, twin)), None)
        if twin is not None:
            module.forward = MethodType(twin, module)  # bound, so that a deep copy of the model is bound to its own
            n += 1
    return n


def _fused(norm: Any, hidden_states: Tensor) -> Tensor:
    weight = norm.weight
    return torch.nn.functional.rms_norm(hidden_states, weight.shape, weight, norm.variance_epsilon)


def _fused_in_float(norm: Any, hidden_states: Tensor) -> Tensor:
    """Rounded before the weight is multiplied, as the library does it in 16 bits."""
    weight = norm.weight
    rows = torch.nn.functional.rms_norm(hidden_states.float(), weight.shape, None, norm.variance_epsilon)
    out: Tensor = weight * rows.to(hidden_states.dtype)
    return out


def _equal(norm: Any, twin: Callable[[Any, Tensor], Tensor]) -> bool:
    weight, eps = getattr(norm, "weight", None), getattr(norm, "variance_epsilon", None)
    if weight is None or weight.dim() != 1 or not isinstance(eps, float):
        return False
    noise = torch.Generator().manual_seed(0)
    samples = [torch.randn(1, n, len(weight), generator=noise).to(weight.device, weight.dtype) for n in _HEIGHTS]
    return all(torch.equal(norm(sample), twin(norm, sample)) for sample in samples)
