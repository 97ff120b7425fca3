"""Weights on grids: four bits in groups of 32, or eight bits with one step per output channel.

A group of a four-bit grid is `middle + step * (level - 8)`, levels 0..15, which is what torch's kernels read. A target
that was loaded from a four-bit file (GGUF's Q4_0, Q4_1, Q4_K; GPTQ, AWQ) has such groups already: every group takes at
most 16 equally spaced values. They are found again from the weights alone, so no file is asked and the draft model is
the target up to rounding. A group that is on no such grid gets one from its smallest to its largest weight.
"""

from dataclasses import dataclass

import torch

from specviz.engine.model.few_bits.grid_kernel import GridKernel, grid_kernel

Tensor = torch.Tensor

GROUP = 32  # weights that share a step, along a row
TOP = 15  # the highest level of four bits
MIDDLE = 8  # the level whose value a grid names
_ROUNDING = 2.0**-8  # of a number kept in bfloat16, relative: half of its last digit
_FLAT = 4 * 2 * _ROUNDING  # of its largest weight: a step below it is hidden by rounding
_MOST = 1 << 22  # weights that are widened at once
_LOOKED_AT = 256  # groups of a matrix that tell whether it is worth looking at all of them


@dataclass(frozen=True, slots=True)
class WeightGrid:
    """A weight matrix in four bits. `n_own`: groups that stood on a grid before, so nothing was rounded away."""

    levels: Tensor  # uint8 [out, in], 0..15
    step: Tensor  # [out, in / 32], in bfloat16's numbers
    middle: Tensor  # [out, in / 32], the value of level 8
    n_own: int

    @property
    def n_groups(self) -> int:
        return self.step.numel()

    def weight(self) -> Tensor:
        """The dequantised matrix, float32 `[out, in]`."""
        places = (self.levels.int() - MIDDLE).view(*self.step.shape, GROUP)
        groups = places * self.step[..., None] + self.middle[..., None]
        return groups.view(self.levels.shape)


@torch.inference_mode()
def four_bits(weight: Tensor) -> WeightGrid:
    """The grid of a matrix `[out, in]` whose rows are whole groups.

    Steps and middles are rounded to bfloat16 first, as the kernels keep them; levels are then the nearest.
    """
    assert weight.shape[1] % GROUP == 0, f"rows of {weight.shape[1]} weights are no groups of {GROUP}"
    parts = [_four_bits(part) for part in torch.split(weight, _at_once(weight))]
    return WeightGrid(
        torch.cat([part.levels for part in parts]),
        torch.cat([part.step for part in parts]),
        torch.cat([part.middle for part in parts]),
        sum(part.n_own for part in parts),
    )


def _at_once(weight: Tensor) -> int:
    """Rows that are widened together, so that a large head needs no second of itself in float32."""
    return max(1, _MOST // weight.shape[1])


def _four_bits(weight: Tensor) -> WeightGrid:
    kernel = grid_kernel(weight)
    if kernel is None:
        groups = weight.float().reshape(-1, GROUP)
        low, high = groups.aminmax(dim=1)
        own = _own_grids(groups, low, high)
    else:
        groups = weight.reshape(-1, GROUP)
        low, high, own = _own_by_kernel(kernel, groups)
    step, bottom = (high - low) / TOP, low
    if own is not None:
        rows, own_step, own_bottom = own
        step, bottom = step.index_copy(0, rows, own_step), bottom.index_copy(0, rows, own_bottom)
    step, middle = step.bfloat16().float(), (bottom + MIDDLE * step).bfloat16().float()
    if kernel is None:
        safe = torch.where(step > 0, step, 1.0)  # a group of equal weights: all at the middle
        near = ((groups - middle[:, None]) / safe[:, None]).round_().add_(MIDDLE).clamp_(0, TOP)
        levels = near.to(torch.uint8)
    else:
        levels = kernel.levels(groups, step, middle)
    shape = (weight.shape[0], weight.shape[1] // GROUP)
    n_own = 0 if own is None else len(own[0])
    return WeightGrid(levels.view(weight.shape), step.view(shape), middle.view(shape), n_own)


Own = tuple[Tensor, Tensor, Tensor] | None  # numbers of groups, their steps and lowest values


def _some(groups: Tensor) -> Tensor:
    """Numbers of the groups that tell for all whether any is on a grid."""
    return torch.arange(0, len(groups), max(1, len(groups) // _LOOKED_AT), device=groups.device)


def _own_by_kernel(kernel: GridKernel, groups: Tensor) -> tuple[Tensor, Tensor, Own]:
    """The ends of groups `[g, 32]`, and what `_own_grids` says of them."""
    limits = 1.01 * _ROUNDING, _FLAT
    any_is = bool(kernel.lines(groups[_some(groups)], TOP, *limits).n_steps.any())
    lines = kernel.lines(groups, TOP if any_is else 0, *limits)
    rows = lines.n_steps.nonzero()[:, 0]
    if not len(rows):
        return lines.low, lines.high, None
    step = (lines.high - lines.low)[rows] / lines.n_steps[rows]
    step, bottom = _line(step, lines.spread[rows], lines.pull[rows], lines.mean[rows], lines.centre[rows])
    return lines.low, lines.high, (rows, step, bottom)


def _line(step: Tensor, spread: Tensor, pull: Tensor, mean: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Step and lowest value of the line through all 32 weights, which is surer than the one through its two ends, each
    of which was rounded. `step`: of that one, for groups of one value."""
    slope = pull / torch.where(spread > 0, spread, 1.0)
    slope = torch.where(spread > 0, slope, step)
    return slope, mean - slope * centre


def _own_grids(groups: Tensor, low: Tensor, high: Tensor) -> Own:
    """Groups `[g, 32]` that are equally spaced already. None: none are.

    A group need not use all levels (Q4_0 reaches 7 steps to one side), so 15 steps are tried, then 14, and so on.
    """
    some = _some(groups)
    if not any(bool(_fits(groups[some], low[some], high[some], n)[0].any()) for n in range(TOP, 0, -1)):
        return None
    left = torch.arange(len(groups), device=groups.device)
    on_grid: list[tuple[Tensor, Tensor, Tensor]] = []
    for n_steps in range(TOP, 0, -1):
        fits, step, bottom = _fits(groups[left], low[left], high[left], n_steps)
        on_grid.append((left[fits], step[fits], bottom[fits]))
        left = left[~fits]
        if not len(left):
            break
    rows, steps, bottoms = (torch.cat(column) for column in zip(*on_grid, strict=True))
    return (rows, steps, bottoms) if len(rows) else None


def _fits(groups: Tensor, low: Tensor, high: Tensor, n_steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whether groups lie on `n_steps` steps between their ends, up to bfloat16's rounding; best step and lowest value.

    Rounding moves a weight by half of its last digit and the ends likewise. Where that is a fourth of a step or more,
    any group would fit: such a one is said to lie on no grid.
    """
    step = (high - low) / n_steps
    places = ((groups - low[:, None]) / torch.where(step > 0, step, 1.0)[:, None]).round_()
    apart = (groups - (low[:, None] + places * step[:, None])).abs_()
    ends = torch.maximum(low.abs(), high.abs())
    allowed = (groups.abs() + ends[:, None]) * (1.01 * _ROUNDING)
    fits = (apart <= allowed).all(1) & ((_FLAT * ends < step) | (step == 0))
    centre = places.mean(1, keepdim=True)
    spread = (places - centre).square().sum(1)
    pull = ((places - centre) * groups).sum(1)
    return fits, *_line(step, spread, pull, groups.mean(1), centre[:, 0])
