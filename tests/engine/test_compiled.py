"""Products from the kernel that is built here: each row the same whatever else is in the call, and near torch's.

A machine without a C compiler has no kernel: there every test holds what is said and done instead.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import platformdirs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled import library
from specviz.engine.model.compiled.linear import Compiled, as_before, compile_products
from specviz.engine.model.exact.proof import BITWISE, make_exact
from specviz.engine.model.layers.direct_layer import run_directly
from specviz.names import COMPILE
from support.models import build

DTYPES = (torch.float32, torch.bfloat16)


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(COMPILE, "auto")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    library.products.cache_clear()
    yield
    torch.set_num_threads(threads)
    library.products.cache_clear()


def _kernel(dtype: torch.dtype) -> Compiled | None:
    with suppress(OSError):
        return Compiled(library.products()[dtype])
    return None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@given(n=st.integers(1, 130), n_in=st.integers(1, 12), n_out=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_row_is_the_same_among_any_others_and_what_torch_says(
    dtype: torch.dtype, n: int, n_in: int, n_out: int, seed: int
) -> None:
    multiply = _kernel(dtype)
    if multiply is None:
        return
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, 32 * n_in, generator=noise).to(dtype)
    weight = torch.randn(n_out, 32 * n_in, generator=noise).to(dtype)
    bias = torch.randn(n_out, generator=noise).to(dtype)
    whole = multiply(rows, weight, bias)
    for first, last in ((0, 1), (n - 1, n), (n // 3, n)):
        assert torch.equal(multiply(rows[first:last], weight, bias), whole[first:last])
    exact = rows.double() @ weight.double().t() + bias.double()
    gap = (whole.double() - exact).abs().max()
    assert gap <= (1e-5 if dtype == torch.float32 else 2e-2) * exact.abs().max().clamp(min=1)


def test_numbers_that_are_none_stay_so() -> None:
    for dtype in DTYPES:
        multiply = _kernel(dtype)
        if multiply is not None:
            rows = torch.full((2, 32), float("nan"), dtype=dtype)
            assert multiply(rows, torch.ones(5, 32, dtype=dtype)).isnan().all()
            rows = torch.full((2, 32), float("inf"), dtype=dtype)
            assert multiply(rows, torch.ones(5, 32, dtype=dtype)).isposinf().all()


def _adapter(dtype: torch.dtype = torch.float32) -> ModelAdapter:
    adapter = ModelAdapter(
        build("llama", hidden_size=64, intermediate_size=128, head_dim=16).to(dtype).requires_grad_(False)
    )
    run_directly(adapter)
    return adapter


def test_a_model_is_exact_with_it_and_its_own_modules_are_left_as_they_are() -> None:
    adapter = _adapter()
    ids = torch.tensor([[5, 80, 33, 7]])
    before = adapter.model(ids).logits
    why = compile_products(adapter)
    assert torch.equal(adapter.model(ids).logits, before), "the library's own pass is what it is compared with"
    if why:
        assert adapter.compiled_head is None
        assert "compiler" in why
        return
    assert make_exact(adapter) == BITWISE
    hidden = adapter.embed([5, 80, 33, 7], [0, 1, 2, 3])
    logits = adapter.logits(hidden)
    as_before(adapter)
    assert adapter.compiled_head is None
    assert torch.allclose(adapter.logits(hidden), logits, atol=1e-4)


def test_without_a_compiler_torch_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    adapter = _adapter()
    assert adapter.direct
    assert compile_products(adapter) == "no C compiler here"
    assert adapter.compiled_head is None
    assert all(each.multiply is nn.functional.linear for layer in adapter.direct for each in layer.dense)


def test_a_compiler_that_fails_is_named_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/false")
    assert compile_products(_adapter()) == "/bin/false failed: no word"
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16], ids=str)
def test_other_numbers_are_torchs(dtype: torch.dtype) -> None:
    adapter = _adapter(dtype)
    assert compile_products(adapter) != ""
    assert adapter.compiled_head is None


def test_it_is_off_where_it_is_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COMPILE)
    assert compile_products(_adapter()) == "--compile off"
