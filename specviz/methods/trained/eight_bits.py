"""Matrices kept in eight bits a weight: whole numbers from -127 to 127, and a scale a row beside them.

Half the bytes on disk. Read, they are weights of sixteen bits like all others; no part is computed in eight.
"""

from collections.abc import Mapping

import torch

from specviz.errors import ModelError

SCALE = ".row_scale"  # behind the name of the matrix that it belongs to
_MOST = 127


def packed(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices `[rows, columns]` of floating point as int8 and bfloat16 scales `[rows]`; all others as they are."""
    out: dict[str, torch.Tensor] = {}
    for name, each in tensors.items():
        if each.dim() != 2 or not each.is_floating_point():
            out[name] = each
            continue
        wide = each.float()
        scale = (wide.abs().amax(1) / _MOST).clamp(min=torch.finfo(torch.float32).tiny).to(torch.bfloat16)
        out[name] = (wide / scale.float()[:, None]).round().clamp(-_MOST, _MOST).to(torch.int8)
        out[name + SCALE] = scale
    return out


def unpacked(tensors: Mapping[str, torch.Tensor], where: str) -> dict[str, torch.Tensor]:
    """The inverse, matrices in bfloat16. `where`: what a ModelError for scales that fit nothing begins with."""
    out = {name: each for name, each in tensors.items() if not name.endswith(SCALE)}
    for name in tensors.keys() - out.keys():
        of, scale = name.removesuffix(SCALE), tensors[name]
        whole = out.get(of)
        if whole is None or whole.dtype != torch.int8 or whole.dim() != 2 or scale.shape != whole.shape[:1]:
            found = "nothing" if whole is None else f"{list(whole.shape)} of {str(whole.dtype).removeprefix('torch.')}"
            raise ModelError(f"{where}: tensor {name!r} is {list(scale.shape)} for {of!r}, which is {found}")
        out[of] = (whole.float() * scale.float()[:, None]).to(torch.bfloat16)
    return out
