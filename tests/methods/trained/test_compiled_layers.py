"""Layers of drafters in the compiled kernel: near their own numbers, and out of use once their weights are others."""

import os
from collections.abc import Iterator
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from specviz.engine.model.compiled import library
from specviz.engine.model.few_bits.grids import four_bits
from specviz.methods.trained.layers import (
    Layer,
    LayerShape,
    RMSNorm,
    Rope,
    RowCache,
    compile_network,
    fill_normal,
    kernel_of,
    linear,
    reads_four_bits,
)
from specviz.names import COMPILE

SHAPE = LayerShape(width=64, heads=4, kv_heads=2, head_dim=32, ff=96)
NEAR = {torch.float32: 1e-5, torch.bfloat16: 0.02}  # of what is said, relative


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(COMPILE, "auto")
    library.functions.cache_clear()
    yield
    library.functions.cache_clear()


class Network(nn.Module):
    """A layer that reads more than its stream, a norm and a product."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.norm, self.head = Layer(SHAPE, 128), RMSNorm(64, 1e-6), linear(64, 80)
        fill_normal(self, torch.Generator().manual_seed(0), std=0.15)
        self.to(dtype).requires_grad_(False)

    def forward(self, steps: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]) -> torch.Tensor:
        """What is said of rows that come in steps: a stream `[1, n, 64]`, what is read, and a mask."""
        cache, rope, out = RowCache(1), Rope(SHAPE), []
        for stream, read, mask in steps:
            positions = torch.arange(cache.filled, cache.filled + stream.shape[1])[None]
            out.append(self.head(self.norm(self.layer.after(stream, read, rope.at(positions, stream), 0, cache, mask))))
        return torch.cat(out, 1)


def _steps(dtype: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
    """A line of seven rows, one more, then two branches behind the line, each with a row of its own."""
    noise = torch.Generator().manual_seed(1)
    inputs = [torch.randn(2, n, 128, generator=noise).to(dtype) for n in (7, 1, 2, 2)]
    branches = np.zeros((2, 10), np.bool_)
    branches[:, :8] = branches[0, 8] = branches[1, 9] = True
    leaves = np.zeros((2, 12), np.bool_)
    leaves[:, :8] = leaves[0, [8, 10]] = leaves[1, [9, 11]] = True
    masks = [None, None, *(torch.from_numpy(rows)[None, None] for rows in (branches, leaves))]
    return [(rows[:1, :, :64], rows[1:], mask) for rows, mask in zip(inputs, masks, strict=True)]


@pytest.mark.parametrize("dtype", list(NEAR), ids=str)
def test_what_a_compiled_network_says_is_near_what_it_said(dtype: torch.dtype) -> None:
    """In bfloat16, of the same with the weights that four bits can hold."""
    network, plain, steps = Network(dtype), Network(dtype), _steps(dtype)
    if dtype == torch.bfloat16:
        for weight in plain.parameters():
            if weight.dim() == 2:
                weight.copy_(four_bits(weight).weight())
    with torch.inference_mode():
        wanted = plain(steps)
        compile_network(network)
        if kernel_of(network.layer, steps[0][0]) is None:
            assert not _has_kernel()
            return
        compiled = network(steps)
    gap = float((compiled - wanted).float().norm() / wanted.float().norm())
    assert 0 < gap < NEAR[dtype]


@pytest.mark.parametrize("dtype", list(NEAR), ids=str)
def test_a_row_says_the_same_however_rows_come(dtype: torch.dtype) -> None:
    network = Network(dtype)
    compile_network(network)
    line, one, *_ = _steps(dtype)
    with torch.inference_mode():
        apart = network([line, one])
        both = network([(torch.cat([line[0], one[0]], 1), torch.cat([line[1], one[1]], 1), None)])
    assert _has_kernel() is False or torch.equal(apart, both)


def test_weights_that_were_written_to_are_used_as_they_are() -> None:
    """Training goes on with the modules of a drafter that was loaded, and is then measured."""
    dtype = torch.bfloat16
    network, steps = Network(dtype), _steps(dtype)
    compile_network(network)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(0.5)
        assert kernel_of(network.layer, steps[0][0]) is None
        compiled, fresh = network(steps), Network(dtype)
        for mine, theirs in zip(fresh.parameters(), network.parameters(), strict=True):
            mine.copy_(theirs)
        wanted = fresh(steps)
    assert float((compiled - wanted).float().norm() / wanted.float().norm()) < 0.02, (
        "the packed weights were still used"
    )


def test_who_learns_through_a_network_and_who_copies_it_meets_its_own_weights() -> None:
    network, steps = Network(torch.bfloat16), _steps(torch.bfloat16)
    compile_network(network)
    copied = deepcopy(network)
    with torch.no_grad():
        assert kernel_of(copied.layer, steps[0][0]) is None
    assert kernel_of(network.layer, steps[0][0]) is None, "with gradients"
    network.requires_grad_(True)
    network([steps[0]]).float().sum().backward()
    for module in (network.layer.q, network.layer.down, network.norm, network.head):
        assert module.weight.grad is not None


def _has_kernel() -> bool:
    try:
        return torch.float32 in library.functions() and os.environ[COMPILE] != "off"
    except OSError:
        return False


@pytest.mark.parametrize("dtype", list(NEAR), ids=str)
def test_four_bits_are_told(dtype: torch.dtype) -> None:
    network = Network(dtype)
    assert not reads_four_bits(network)
    compile_network(network)
    assert reads_four_bits(network) == (_has_kernel() and dtype == torch.bfloat16)


@pytest.mark.parametrize("dtype", NEAR)
def test_a_product_of_any_width_is_its_own(dtype: torch.dtype) -> None:
    """Rows that are no multiple of what the kernel takes at once; weights that are written to, or replaced, count."""
    rng = torch.Generator().manual_seed(4)
    network = nn.Sequential(linear(47, 20)).to(dtype).requires_grad_(False)
    rows = torch.randn(3, 47, generator=rng).to(dtype)
    with torch.inference_mode():
        for change in ("none", "written to", "replaced"):
            weight = torch.randn(20, 47, generator=rng).to(dtype)
            if change == "replaced":
                network[0].weight = nn.Parameter(weight, requires_grad=False)
            else:
                network[0].weight.data.copy_(weight) if change == "none" else network[0].weight.copy_(weight)
            if change == "none":
                compile_network(network)
                assert ("forward" in vars(network[0])) == _has_kernel(), "which of the two is tried"
            want = nn.functional.linear(rows.double(), weight.double())
            torch.testing.assert_close(network(rows).double(), want, rtol=NEAR[dtype], atol=NEAR[dtype] * 10)
