"""What a trace and a folder of trained parts call a model by: a digest of its weights, quick to take."""

import hashlib
from weakref import WeakKeyDictionary

import torch

from specviz.engine.model.adapter import ModelAdapter

_SAMPLE = 256  # entries of every parameter that the fingerprint looks at
_SMALLEST = 2.0**-14  # below it float16 loses digits, so the fingerprint takes such entries as zero
_fingerprints: "WeakKeyDictionary[ModelAdapter, str]" = WeakKeyDictionary()


@torch.inference_mode()
def fingerprint(adapter: ModelAdapter) -> str:
    """Tells models apart, and one model not from itself in another dtype: names, shapes, some entries of all weights.

    Entries are rounded to bfloat16, so a checkpoint has the same fingerprint loaded in float32, float64 or bfloat16.
    """
    if adapter not in _fingerprints:
        digest = hashlib.sha256()
        for name, parameter in sorted(adapter.model.named_parameters()):
            flat = parameter.detach().flatten()
            some = flat[:: max(1, len(flat) // _SAMPLE)].float().cpu()
            some = torch.where(some.abs() < _SMALLEST, 0.0, some).bfloat16().view(torch.int16)
            digest.update(f"{name}{tuple(parameter.shape)}".encode())
            digest.update(some.numpy().tobytes())
        _fingerprints[adapter] = digest.hexdigest()[:32]
    return _fingerprints[adapter]
