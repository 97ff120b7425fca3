"""Programs of the kernel: each thing they do against torch, on any number of rows and threads."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from specviz.engine.model.compiled import library
from specviz.engine.model.compiled.layer import LayerKernel, LayerWeights, row_paths
from specviz.engine.model.compiled.products import matrix_of
from specviz.engine.model.compiled.products import normed as normed_by_kernel
from specviz.engine.model.compiled.program import GraphBuilder, KVSlots, RowChoice, RowPositions
from specviz.engine.model.few_bits.grids import four_bits
from specviz.names import COMPILE

Tensor = torch.Tensor
DTYPES = (torch.float32, torch.bfloat16)
CLOSE = {torch.float32: 1e-6, torch.bfloat16: 0.01}
EIGHT_BITS = 0.02  # what rows in eight bits may lose of a product, relative


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(COMPILE, "auto")
    library.functions.cache_clear()
    try:
        library.functions()
    except OSError:
        pytest.skip("no C compiler here")
    yield
    library.functions.cache_clear()


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def gap(ours: Tensor, wanted: Tensor) -> float:
    return float((ours.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 5, 9])
def test_every_row_comes_from_where_it_is_said(dtype: torch.dtype, n: int) -> None:
    """Into one table side by side: the same row, that of a group, all again and again, the one before; then sums."""
    call = GraphBuilder(dtype)
    one, few, two, out = call.table(16), call.table(16, 2), call.always(noise(2, 16, seed=3)), call.table(80, 2)
    tail, sums = call.table(80, 0, 2), call.table(16, 2)
    call.copy(one, out, RowChoice.REPEAT, 2)
    same, before = (few, RowChoice.SAME), (few, RowChoice.PREVIOUS)
    for k, (table, rows) in enumerate([same, (two, RowChoice.CYCLE), before, same], 1):
        call.copy(table, out, rows, 2, 16 * k)
    call.copy(out, tail, RowChoice.LAST)
    call.copy(few, sums)
    call.add(two, sums, RowChoice.CYCLE)
    a, b = noise(n, 16, seed=1, dtype=dtype), noise(2 * n, 16, seed=2, dtype=dtype)
    outputs = [torch.full((rows, wide), 7.0, dtype=dtype) for rows, wide in ((2 * n, 80), (2, 80), (2 * n, 16))]
    call.build().run(n, {one: a, few: b, out: outputs[0], tail: outputs[1], sums: outputs[2]})
    fixed = noise(2, 16, seed=3).to(dtype)
    shifted = b.view(n, 2, 16)[:, [0, 0]].reshape(2 * n, 16)
    wanted = torch.cat([a.repeat_interleave(2, 0), b, fixed.repeat(n, 1), shifted, b], 1)
    assert torch.equal(outputs[0], wanted)
    assert torch.equal(outputs[1], wanted[-2:])
    assert torch.equal(outputs[2], b + fixed.repeat(n, 1))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_are_those_of_torch(dtype: torch.dtype, threads: int) -> None:
    """A norm in the middle of wider rows, a product, `silu`, and floats of it; weights in four bits where packed."""
    gain, weight = noise(32, seed=4, dtype=dtype), noise(48, 64, seed=5, dtype=dtype)
    packed = dtype == torch.bfloat16
    matrix = matrix_of(weight, packed)
    call = GraphBuilder(dtype)
    x, wide, multiplied, out = call.table(32), call.table(64), call.table(48), call.table(48)
    call.copy(x, wide)
    call.norm(x, wide, gain, 1e-6, 32)
    call.product(wide, multiplied, matrix)
    call.silu(multiplied)
    call.widen(multiplied, out)
    rows, ours = noise(7, 32, seed=6, dtype=dtype), torch.empty(7, 48)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        call.build().run(7, {x: rows, out: ours})
    finally:
        torch.set_num_threads(before)
    read = torch.cat([rows, nn.functional.rms_norm(rows, (32,), gain, 1e-6)], 1)
    known = four_bits(weight).weight() if packed else weight
    product = nn.functional.linear(read.float(), known.float())
    assert 0 < gap(ours, nn.functional.silu(product)) < (EIGHT_BITS if packed else CLOSE[dtype])


def weights(dtype: torch.dtype, reads: int = 64) -> LayerWeights:
    matrices = [
        noise(*shape, seed=20 + k, dtype=dtype) * 0.2
        for k, shape in enumerate([(128, reads), (64, reads), (64, reads), (64, 128), (96, 64), (96, 64), (64, 96)])
    ]
    q, k, v, out, gate, up, down = matrices
    before, behind = noise(64, seed=30, dtype=dtype), noise(64, seed=31, dtype=dtype)
    return LayerWeights(before, q, k, v, out, behind, gate, up, down, 32, 1e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("apart", [False, True], ids=["its own norm", "rows of another table"])
def test_a_layer_is_the_kernels_own(dtype: torch.dtype, apart: bool) -> None:
    """Bit for bit, of the rows that are wanted behind it; keys and values of all are filed."""
    n, past, wanted_rows, reads = 6, 3, 2, 128 if apart else 64
    kernel = LayerKernel(weights(dtype, reads), packed=dtype == torch.bfloat16)
    call = GraphBuilder(dtype)
    x, out = call.table(64, 2), call.table(64, 0, wanted_rows)
    read = call.table(reads, 2) if apart else None
    call.layer(x, kernel, 0, out, read)
    call.copy(x, out, RowChoice.LAST)
    rows, other = noise(n, 64, seed=7, dtype=dtype), noise(n, reads, seed=8, dtype=dtype)
    mask = torch.ones(n, past + n, dtype=torch.bool).tril(past)
    mask[4, past + 1] = mask[5, 0] = False
    positions = torch.tensor([3, 4, 5, 6, 5, 9])
    angles = noise(16, 32, seed=9, dtype=dtype), noise(16, 32, seed=10, dtype=dtype)
    pairs = [[noise(1, 2, 16, 32, seed=11, dtype=dtype), noise(1, 2, 16, 32, seed=12, dtype=dtype)] for _ in range(2)]
    normed = normed_by_kernel(rows, weights(dtype).before, 1e-6)
    angle = (angles[0][positions][None], angles[1][positions][None])
    wanted = kernel(rows[None], (other if apart else normed)[None], angle, *pairs[0], past, mask.numpy())[0]
    ours, mine = torch.empty(wanted_rows, 64, dtype=dtype), rows.clone()
    tables = {x: mine, out: ours} | ({} if read is None else {read: other})
    paths = row_paths(n, past, mask.numpy())
    call.build().run(
        n // 2, tables, KVSlots([(pairs[1][0], pairs[1][1])], past), RowPositions(positions, angles, paths)
    )
    assert torch.equal(ours, wanted[-wanted_rows:])
    for one, two in zip(*pairs, strict=True):
        assert torch.equal(one, two)


def test_what_the_kernel_does_not_know_is_refused() -> None:
    call = GraphBuilder(torch.float32)
    with pytest.raises(ValueError, match="no multiple"):
        call.table(15)
    one, two = call.table(32), call.table(64)
    with pytest.raises(ValueError, match="another size"):
        call.product(one, two, matrix_of(noise(32, 32), False))
    with pytest.raises(ValueError, match="gain"):
        call.norm(one, two, noise(64), 1e-6)
    with pytest.raises(ValueError, match="gain"):
        call.norm(one, two, noise(32, dtype=torch.bfloat16), 1e-6)
    with pytest.raises(ValueError, match="another width"):
        call.layer(one, LayerKernel(weights(torch.float32), packed=False), 0, one)
    with pytest.raises(ValueError, match="no kernel"):
        GraphBuilder(torch.float64)
    with pytest.raises(ValueError, match="other numbers"):
        call.product(one, call.table(32), matrix_of(noise(32, 32, dtype=torch.bfloat16), False))
    with pytest.raises(ValueError, match="main memory"):
        matrix_of(torch.empty(32, 32, device="meta"), False)
    with pytest.raises(ValueError, match="gain"):
        call.norm(one, two, torch.empty(32, device="meta"), 1e-6)
    for wide in (lambda: call.copy(two, one), lambda: call.copy(one, two, column=48), lambda: call.add(two, one)):
        with pytest.raises(ValueError, match="wider"):
            wide()
    with pytest.raises(ValueError, match="wider"):
        call.norm(one, two, noise(32), 1e-6, 33)
    with pytest.raises(ValueError, match="more rows"):
        call.copy(one, call.table(32, 0, 2), RowChoice.LAST)
    for _ in range(28):
        call.table(16)
    with pytest.raises(ValueError, match="too many"):
        call.table(16)


@pytest.mark.parametrize(
    "odd",
    [
        noise(3, 64)[:, ::2],
        noise(32, 3).T,
        noise(3, 16),
        noise(2, 32),
        noise(3, 32, dtype=torch.bfloat16),
        torch.empty(3, 32, device="meta"),
    ],
    ids=["strided", "turned", "narrow", "short", "other numbers", "elsewhere"],
)
def test_tables_that_are_not_what_was_sketched_are_refused(odd: Tensor) -> None:
    """C would read, or write, beyond them."""
    call = GraphBuilder(torch.float32)
    one, two = call.table(32), call.table(32)
    call.copy(one, two)
    program, good = call.build(), noise(3, 32)
    for tables in ({one: odd, two: good}, {one: good, two: odd}):
        with pytest.raises(ValueError, match="not what was sketched"):
            program.run(3, tables)
    program.run(0, {one: noise(0, 32), two: noise(0, 32)})


def test_without_a_compiler_there_is_no_sketch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, COMPILE, "off")
    library.functions.cache_clear()
    with pytest.raises(OSError, match="off"):
        GraphBuilder(torch.float32)


def test_paths_of_rows_that_see_all_before_them() -> None:
    paths = row_paths(3, 5, None)
    assert paths.prefix.tolist() == [6, 7, 8]
    assert paths.n_extra.tolist() == [0, 0, 0]
    whole = np.ones((3, 8), np.bool_)
    assert row_paths(3, 5, whole).prefix.tolist() == [8, 8, 8]
