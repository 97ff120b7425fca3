"""Kernels for weights on a four-bit grid: our own where it can be built here, torch's anywhere else.

Ours goes through whole layers too (`compiled`), and is meant for drafts: rows are taken in sixteen bits, with a step
for every group, and whole numbers are multiplied. Torch's widens weights to bfloat16.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from specviz.engine.model import huge_pages
from specviz.engine.model.compiled.library import functions
from specviz.engine.model.few_bits.grids import GROUP, WeightGrid

Tensor = torch.Tensor

TALL = 16  # kernels want whole blocks of outputs


@dataclass(frozen=True, slots=True)
class FourBitKernel:
    """`pack` gives what `multiply` is handed behind rows `[n, in]` in bfloat16; it gives `[n, out]`, blocks whole.

    `ours`: the first of what is packed is laid out for the compiled passes.
    """

    pack: Callable[[WeightGrid], tuple[Tensor, ...]]
    multiply: Callable[..., Tensor]
    ours: bool = False


def four_bit_kernel(device: torch.device) -> FourBitKernel:
    """The fastest one for a device."""
    if device.type != "cpu":
        return FourBitKernel(_pack_for_cuda, _multiply_on_cuda)
    try:
        return FourBitKernel(_pack_blocks, _multiply_blocks, ours=torch.bfloat16 in functions())
    except OSError:
        return FourBitKernel(_pack_for_cpu, _multiply_on_cpu)


def _pack_blocks(grid: WeightGrid) -> tuple[Tensor, ...]:
    """Bytes `[out / 16, in / 32, 320]`, as int4_of_type.h reads them."""
    blocks, groups = grid.levels.shape[0] // TALL, grid.levels.shape[1] // GROUP
    scales = torch.stack([grid.step, grid.middle], -1).bfloat16().view(torch.int32).view(blocks, TALL, groups)
    # Four levels at a time: a level fills half of its byte, so that words can be moved as their bytes would be.
    halves = grid.levels.view(torch.int32).view(blocks, TALL, groups, 4, 2)  # line of a block, half of a lane
    out = huge_pages.empty((blocks, groups, 5, TALL), torch.int32)
    out[:, :, 0] = scales.transpose(1, 2)
    out[:, :, 1:] = (halves[..., 0] | halves[..., 1] << 4).permute(0, 2, 3, 1)
    return (out.view(torch.uint8).view(blocks, groups, 5 * 4 * TALL),)


def _multiply_blocks(rows: Tensor, packed: Tensor) -> Tensor:
    kernel, threads = functions()[torch.bfloat16], torch.get_num_threads()
    rows = rows.contiguous()
    (n, n_in), n_out = rows.shape, TALL * len(packed)
    out = rows.new_empty(n, n_out)
    space = torch.empty(threads * kernel.quantized_bytes(n, n_in), dtype=torch.uint8)
    addresses = (tensor.data_ptr() for tensor in (rows, packed, out))
    kernel.matmul_int4(*addresses, n, n_in, n_out, False, space.data_ptr(), threads)
    return out


def _scales(grid: WeightGrid) -> Tensor:
    """`[in / 32, out, 2]` in bfloat16."""
    return torch.stack([grid.step, grid.middle], -1).transpose(0, 1).bfloat16().contiguous()


def _pack_for_cpu(grid: WeightGrid) -> tuple[Tensor, ...]:
    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(grid.levels.int(), 1), _scales(grid)


def _multiply_on_cpu(rows: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    out: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu.default(rows, packed, GROUP, scales)
    return out


def _pack_for_cuda(grid: WeightGrid) -> tuple[Tensor, ...]:
    levels = grid.levels
    pairs = levels[:, ::2] << 4 | levels[:, 1::2]
    tiles = next(tiles for tiles in (8, 4, 2) if levels.shape[1] % (16 * tiles) == 0)
    return torch.ops.aten._convert_weight_to_int4pack(pairs, tiles), _scales(grid)


def _multiply_on_cuda(rows: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    out: Tensor = torch.ops.aten._weight_int4pack_mm.default(rows, packed, GROUP, scales)
    return out
