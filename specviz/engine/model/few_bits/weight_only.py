"""Linear layers whose weights are kept in four bits, on our own kernel or torch's weight-only one.

Rows come and go in bfloat16, weights are widened inside the kernel; nothing of their size is ever made in a wider type.
torchao (0.18) packs for torch's kernels, but on a CPU only under `prototype`, and it takes no grid that is given; so
they are called directly. On CUDA they are torch's too, and were never measured there.
"""

import torch
from torch import nn

from specviz.engine.model.few_bits.four_bit_kernels import TALL, four_bit_kernel
from specviz.engine.model.few_bits.grids import GROUP, WeightGrid, four_bits
from specviz.errors import ModelError

Tensor = torch.Tensor

DTYPE = torch.bfloat16  # of rows and results: the kernels' other types are slow reference code
_PROBE, _PROVED = 3, 256  # rows with which a packed weight is proved, and the outputs that are compared


class Int4Linear(nn.Module):
    """`y = x W' + b` with W on a four-bit grid."""

    bits = 4
    packed: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.n_out, self.n_in = weight.shape
        grid = four_bits(_whole(weight))
        self.n_own, self.n_groups = grid.n_own, grid.n_groups
        kernel = four_bit_kernel(weight.device)
        self.is_ours, self._multiply = kernel.ours, kernel.multiply
        for name, held in zip(("packed", "scales"), kernel.pack(grid), strict=False):
            self.register_buffer(name, held, persistent=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach().to(DTYPE), requires_grad=False)
        self._prove(grid)

    def _prove(self, grid: WeightGrid) -> None:
        """A wrong packing gives wrong drafts and no error: a few rows against the grid itself."""
        top = WeightGrid(grid.levels[:_PROVED], grid.step[:_PROVED], grid.middle[:_PROVED], 0).weight()
        _refuse_gap(self, top[: self.n_out, : self.n_in])

    def forward(self, hidden: Tensor) -> Tensor:
        """`[.., in]` to `[.., out]`, bfloat16."""
        rows = hidden.reshape(-1, self.n_in)
        out = self._multiply(_filled(rows), *self.buffers())
        out = (out if self.n_out == out.shape[1] else out[:, : self.n_out]).reshape(*hidden.shape[:-1], self.n_out)
        return out if self.bias is None else out + self.bias


def _whole(weight: Tensor) -> Tensor:
    """The matrix filled up to whole groups and whole blocks of outputs: the kernels read beyond other sizes.

    New columns repeat the last weight, which leaves the grid of their group as it is; they meet zeros. New rows are
    zeros, and cut off.
    """
    wide, tall = -weight.shape[1] % GROUP, -weight.shape[0] % TALL
    if wide:
        weight = torch.cat([weight, weight[:, -1:].expand(-1, wide)], 1)
    return torch.cat([weight, weight.new_zeros(tall, weight.shape[1])]) if tall else weight


def _filled(rows: Tensor) -> Tensor:
    """Rows `[n, in]` with zeros to whole groups."""
    spare = -rows.shape[1] % GROUP
    return nn.functional.pad(rows, (0, spare)) if spare else rows


@torch.inference_mode()
def _refuse_gap(linear: Int4Linear, matrix: Tensor) -> None:
    """Raises ModelError unless the first outputs of a few rows are those of the matrix `[some, in]`."""
    noise = torch.randn(_PROBE, linear.n_in, generator=torch.Generator().manual_seed(0)).to(matrix.device, DTYPE)
    wanted = noise.float() @ matrix.t()
    if linear.bias is not None:
        wanted += linear.bias[: len(matrix)]
    gap = float((linear(noise)[:, : len(matrix)].float() - wanted).abs().max() / wanted.std().clamp(min=1e-6))
    if not gap < 0.1:
        raise ModelError(f"int4 weights are multiplied wrongly here (by {gap:.2g}): name another --draft")
