"""The default dtype: by device, by what the CPU can do, by how the weights are stored and how many there are."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine.model.compiled.build import NoKernel
from specviz.engine.model.compiled.library import functions
from specviz.engine.model.files import dtypes, hub
from specviz.engine.model.files.dtypes import native_bfloat16, pick_dtype, stored
from specviz.engine.model.files.loading import load
from specviz.engine.model.pair import load_pair
from specviz.names import COMPILE
from support.models import build, save

CPU = torch.device("cpu")


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that multiplies bfloat16."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": True}, raising=False)


@pytest.mark.parametrize(
    ("dtype", "enough", "wanted"),
    [
        (torch.bfloat16, True, "bfloat16"),
        (torch.float16, True, "bfloat16"),
        (torch.float32, True, "float32"),  # it would be rounded
        (torch.bfloat16, False, "float32"),  # calls cost more than products
    ],
)
def test_by_the_weights(
    dtype: torch.dtype, enough: bool, wanted: str, native: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded in the end, and what it says of itself."""
    folder = save(build("llama", seed=1, dtype=dtype), tmp_path)
    n_params = stored(folder).total()
    monkeypatch.setattr(dtypes, "SMALL_PARAMS", n_params + (0 if enough else 1))
    loaded = load(folder, "target", "cpu", None)
    assert (str(loaded.adapter.dtype), loaded.info.dtype) == (f"torch.{wanted}", wanted)
    assert loaded.info.n_params == n_params
    assert load(folder, "target", "cpu", "float64").info.dtype == "float64", "what is asked for comes first"


def test_by_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another device has bfloat16 whatever the weights are; no weights, no half."""
    folder = save(build("llama", seed=1, dtype=torch.bfloat16), tmp_path)
    monkeypatch.setattr(dtypes, "SMALL_PARAMS", 1)
    assert pick_dtype(None, CPU, folder) == torch.bfloat16
    assert pick_dtype(None, CPU) == torch.float32
    assert pick_dtype(None, torch.device("cuda"), folder) == torch.bfloat16


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """The kernel's library, which a process asks for once."""
    functions.cache_clear()
    yield
    functions.cache_clear()


@pytest.mark.usefixtures("asked_anew")
@pytest.mark.parametrize("kernel", [False, True], ids=["torch", "kernel"])
@pytest.mark.parametrize("has", [{"avx512_bf16": False}, {"neon": True}, {"bf16": True, "neon": True}], ids=str)
def test_by_the_processor(has: dict[str, bool], kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither products of its own nor the kernel: widened when it is loaded; what is asked for stays."""
    monkeypatch.setenv(COMPILE, "auto" if kernel else "off")
    if kernel:
        try:
            functions()
        except NoKernel as error:
            pytest.skip(f"no kernel on this machine: {error}")
    wide = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 32}  # as the kernel takes it
    folder = str(save(build("llama", seed=1, dtype=torch.bfloat16, **wide), tmp_path))
    monkeypatch.setattr(dtypes, "SMALL_PARAMS", 1)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has, raising=False)
    assert native_bfloat16() is has.get("bf16", False)
    wanted = "bfloat16" if kernel or native_bfloat16() else "float32"
    assert load_pair(folder, needs_draft=False).target.info.dtype == wanted
    assert load_pair(folder, needs_draft=False, dtype="bfloat16").target.info.dtype == "bfloat16"


def test_older_torch_is_asked_its_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions without the table of capabilities."""
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    for answer in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda answer=answer: answer)
        assert native_bfloat16() is answer


def test_a_hub_model_is_asked_for_its_headers(native: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not in the cache yet; without an answer float32, in which nothing is lost."""
    answers: list[Any] = [Counter({"BF16": 30_000_000, "F32": 1000}), Counter({"F32": 30_000_000}), Counter()]
    monkeypatch.setattr(hub, "snapshot", lambda name: None)
    monkeypatch.setattr(hub, "stored", lambda name: answers.pop(0))
    found = [pick_dtype(None, CPU, "owner/name") for _ in range(3)]
    assert found == [torch.bfloat16, torch.float32, torch.float32]
