"""Grids of weights: those that stand in the weights already are found again, all others get the nearest levels."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specviz.engine.model.compiled import build, library
from specviz.engine.model.few_bits import grid_kernel as grid_kernels
from specviz.engine.model.few_bits import grids
from specviz.engine.model.few_bits.four_bit_kernels import four_bit_kernel
from specviz.engine.model.few_bits.grid_kernel import grid_kernel
from specviz.engine.model.few_bits.grids import GROUP, TOP, four_bits
from specviz.engine.model.few_bits.weight_only import Int4Linear
from specviz.errors import ModelError
from specviz.names import COMPILE


@pytest.fixture(params=["auto", "off"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Our kernel, where a compiler is at hand, and torch's."""
    monkeypatch.setenv(COMPILE, request.param)
    library.functions.cache_clear()
    yield
    library.functions.cache_clear()


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    """Seeded normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def whole(shape: tuple[int, ...], low: int, high: int, seed: int = 0) -> torch.Tensor:
    """Seeded whole numbers, both ends among them in every group."""
    out = torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(seed))
    out[..., 3], out[..., 20] = low, high
    return out


def blocks(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights `[24, 4, 32]` as a four-bit format dequantises them, and the step of every group `[24, 4]`."""
    step = (noise(24, 4, seed=1).abs() * 0.02 + 0.002).half().float()
    if kind == "Q4_0":  # levels -8..7; a group reaches to one side only as far as it happens to
        return step[..., None] * whole((24, 4, GROUP), -8, 4), step
    low = (-7.5 * step * (1 + 0.2 * noise(24, 4, seed=2))).half().float()
    return low[..., None] + step[..., None] * whole((24, 4, GROUP), 0, TOP), step


@pytest.mark.parametrize("stored", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
def test_a_grid_in_the_weights_is_found_again(kind: str, stored: torch.dtype) -> None:
    """Every group, also when weights were rounded since: they come out within the rounding of step and middle."""
    weights, step = blocks(kind)
    grid = four_bits(weights.flatten(1).to(stored))
    assert grid.n_own == grid.n_groups == 96
    if kind == "Q4_1":  # all levels are in use, so there is one grid only
        assert torch.allclose(grid.step, step, rtol=2**-7)
    apart = (grid.weight().view(weights.shape) - weights).abs().amax(-1)
    largest = weights.abs().amax(-1)
    # A middle and eight steps are rounded to 8 bits; so was the largest weight.
    assert bool((apart <= 2**-8 * largest + 16 * 2**-8 * step).all())
    assert float(apart.max() / step.max()) < 0.25, "half a step would be as bad as a grid of one's own"


def test_other_weights_are_on_no_grid() -> None:
    """Noise, one weight moved by a fourth of a step, and groups so flat that rounding hides every step."""
    assert four_bits(noise(32, 64)).n_own == 0
    weights, step = blocks("Q4_1")
    weights[:, 1, 7] += step[:, 1] / 4
    assert four_bits(weights.flatten(1)).n_own == 72
    flat = (1 + noise(24, 4, GROUP) * 0.01).flatten(1).bfloat16()  # equally spaced, but by bfloat16 itself
    assert four_bits(flat).n_own == 0


def test_levels_of_a_group_on_no_grid_are_the_nearest() -> None:
    """From the smallest to the largest weight; nothing is further off than half a step and the rounding of the ends."""
    weights = noise(32, 64)
    grid = four_bits(weights)
    step = grid.step.repeat_interleave(GROUP, 1)
    assert grid.levels.min() == 0
    assert grid.levels.max() == TOP
    assert bool(((grid.weight() - weights).abs() <= step * (0.5 + 16 * 2**-8)).all())


def test_groups_of_equal_weights_and_of_zeros() -> None:
    """No step at all: the middle says it."""
    weights = torch.cat([torch.full((16, GROUP), 0.375), torch.zeros(16, GROUP)], 1)
    grid = four_bits(weights)
    assert torch.equal(grid.weight(), weights)


def mixtures() -> dict[str, torch.Tensor]:
    """Weights `[.., 512]` of every kind that a grid can meet."""
    on, other = blocks("Q4_1")[0].flatten(1).repeat(40, 4), noise(960, 512, seed=5) * 0.05
    few = torch.stack([whole((960, 512), 0, n, seed=n) * 0.01 - 0.03 for n in range(1, TOP + 1)]).flatten(0, 1)
    return {
        "on": on,
        "in part": torch.where(noise(960, 16, seed=6).repeat_interleave(GROUP, 1) > 0, on, other),
        "on none": other,
        "few steps": few,
        "one sided": blocks("Q4_0")[0].flatten(1).repeat(1, 4),
        "flat": 1 + other,
        "one value": torch.full((32, 512), -0.375),
        "zeros": torch.zeros(16, 512),
        "tiny": other * 1e-38,
        "huge": on * 1e30,
    }


@pytest.mark.skipif(grid_kernel(noise(1, GROUP)) is None, reason="no C compiler here")
@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", mixtures())
def test_the_kernel_finds_torchs_grids_to_the_last_bit(
    kind: str, stored: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the weights are; with more groups than are taken at once, too."""
    weight = mixtures()[kind].to(stored)
    grid = four_bits(weight)
    used = []
    monkeypatch.setattr(grids, "_own_by_kernel", lambda *_: used.append(1))
    monkeypatch.setenv(COMPILE, "off")
    wanted = four_bits(weight)
    assert not used, "the other way was taken"
    assert grid.n_own == wanted.n_own
    for name in ("levels", "step", "middle"):
        assert torch.equal(getattr(grid, name), getattr(wanted, name)), name
    assert (kind in ("on", "one sided", "one value", "zeros")) <= (grid.n_own > 0), "the control: a grid is there"


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler-here"])
def test_without_a_compiler_grids_are_torchs(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that fails, or none at all; nothing is said but that it is tried."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: "/bin/false" if compiler == "false" else None)
    grid_kernels._kernels.cache_clear()
    build._announce.cache_clear()
    try:
        assert grid_kernel(noise(16, GROUP)) is None
        assert four_bits(noise(16, GROUP)).n_groups == 16
    finally:
        grid_kernels._kernels.cache_clear()
    announced = "specviz: building the kernel, some seconds, once …\n" if compiler == "false" else ""
    assert capfd.readouterr() == ("", announced)


@pytest.mark.skipif(grid_kernel(noise(1, GROUP)) is None, reason="no C compiler here")
def test_a_library_that_was_cut_short_on_disk_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And folders that cannot be written leave the work to torch."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path))
    grid_kernels._kernels.cache_clear()
    assert grid_kernel(noise(1, GROUP)) is not None
    (held,) = (tmp_path / "compiled").glob("grids-*.so")
    short = tmp_path / "again" / "compiled" / held.name  # the one that is loaded stays whole
    short.parent.mkdir(parents=True)
    short.write_bytes(held.read_bytes()[:100])
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "again"))
    grid_kernels._kernels.cache_clear()
    assert grid_kernel(noise(1, GROUP)) is not None
    assert short.stat().st_size > 100
    (tmp_path / "a file").write_text("")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / "a file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "a file"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    grid_kernels._kernels.cache_clear()
    try:
        assert grid_kernel(noise(1, GROUP)) is None
    finally:
        grid_kernels._kernels.cache_clear()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("shape", [(16, 32), (33, 48), (7, 96), (260, 20)])
def test_products_are_those_of_the_grid(shape: tuple[int, int]) -> None:
    """Shapes that are no whole blocks too, with a bias, for one row and for some on two axes."""
    weight, bias = noise(*shape), noise(shape[0], seed=3)
    linear = Int4Linear(weight, bias)
    for rows in (noise(1, shape[1]), noise(2, 3, shape[1])):
        product = linear(rows.bfloat16()).float()
        assert product.shape == (*rows.shape[:-1], shape[0])
        wanted = rows @ weight.t() + bias
        assert float((product - wanted).std() / wanted.std()) < 0.15


@pytest.mark.usefixtures("kernel")
def test_a_wrong_kernel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start-up proof sees a packing that a kernel would change."""
    right = four_bit_kernel(torch.device("cpu"))
    wrong = replace(right, pack=lambda grid: right.pack(replace(grid, levels=grid.levels.flip(1))))
    monkeypatch.setattr("specviz.engine.model.few_bits.weight_only.four_bit_kernel", lambda device: wrong)
    with pytest.raises(ModelError, match="int4 weights are multiplied wrongly"):
        Int4Linear(noise(16, 32))


@pytest.mark.usefixtures("kernel")
def test_a_product_in_four_bits_is_that_of_its_grid_and_of_a_row_alone() -> None:
    """Up to what rows lose in bfloat16, or in eight bits a group; a row does not see others beside it."""
    weight = noise(48, 96) * 3 + 1
    linear, grid = Int4Linear(weight), four_bits(weight)
    for n in (1, 2, 3, 4, 5, 9):
        rows = noise(n, 96, seed=n).bfloat16()
        rows[0, :GROUP] *= 100  # a group of its own step
        product, wanted = linear(rows), rows.float() @ grid.weight().t()
        lost = rows.float().view(n, -1, GROUP).abs().amax(2).repeat_interleave(GROUP, 1) @ grid.weight().abs().t()
        assert bool(((product - wanted).abs() <= lost / 254 + wanted.abs() / 128).all())
        if linear.is_ours:
            assert torch.equal(torch.cat([linear(row[None]) for row in rows]), product)
