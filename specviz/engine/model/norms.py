"""One call in place of seven for the library's RMS norms, where the numbers are the same to the last bit.

The library spells the norm out (convert, square, mean, add, root, multiply, convert, weight), which on small rows costs
more than the products around it. A norm is replaced only after its fused twin gave equal bits on probe rows, on the
device and in the dtype at hand; Gemma's `1 + weight`, lower precisions that round elsewhere and anything unknown keep
the library's code.
"""

from types import MethodType
from typing import Any

import torch

Tensor = torch.Tensor

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
