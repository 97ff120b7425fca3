"""The default dtype: by device, by what the CPU can do, by how the weights are stored and how many there are."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine.model import dtype_speed
from specviz.engine.model.dtype_speed import DtypeRates
from specviz.engine.model.exact import known
from specviz.engine.model.files import dtypes, hub
from specviz.engine.model.files.dtypes import pick_dtype, stored
from specviz.engine.model.files.loading import load
from specviz.engine.model.pair import dtype_warning, load_pair
from support.models import build, save

CPU = torch.device("cpu")


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
    dtype: torch.dtype, enough: bool, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder of 16-bit weights that count as many, and a cache of its own for what is found out of them."""
    monkeypatch.setattr(dtypes, "SMALL_PARAMS", 1)
    monkeypatch.setattr(known.platformdirs, "user_cache_dir", lambda _: str(tmp_path / "cache"))
    return str(save(build("llama", seed=1, dtype=torch.bfloat16), tmp_path / "model"))


def rates(bfloat16: float, float32: float) -> DtypeRates:
    return DtypeRates(bfloat16, float32, time.time())


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [(rates(117, 62), "bfloat16"), (rates(36, 54), "float32"), (rates(100, 105), "bfloat16")],
    ids=["faster", "slower", "hardly slower"],
)
def test_by_what_this_machine_multiplies_faster(
    chosen: DtypeRates, wanted: str, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the names of its instructions; what is asked for stays, and is warned of where it loses."""
    monkeypatch.setattr(dtype_speed, "_measured", lambda _: chosen)
    pair = load_pair(half, needs_draft=False)
    assert pair.target.info.dtype == wanted
    assert pair.speed is not None
    assert not pair.speed.loses
    assert dtype_warning(pair) is None
    asked = load_pair(half, needs_draft=False, dtype="bfloat16")
    assert asked.target.info.dtype == "bfloat16"
    warned = dtype_warning(asked)
    assert (warned is not None) is (wanted == "float32")
    assert warned is None or warned == "--dtype bfloat16: products allow 36 tokens/s here, float32 54"


def test_measured_once_a_machine(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the same request would round alike one time and otherwise another."""
    first = load_pair(half, needs_draft=False).speed
    assert first is not None
    assert min(first.rates.bfloat16, first.rates.float32) > 0

    def again(_: object) -> DtypeRates:
        raise AssertionError("it was measured before")

    monkeypatch.setattr(dtype_speed, "_measured", again)
    for dtype in (None, "float32", "bfloat16"):
        pair = load_pair(half, needs_draft=False, dtype=dtype)
        assert pair.speed is not None
        assert pair.speed.rates == first.rates


def test_what_was_measured_long_ago_says_so(half: str, monkeypatch: pytest.MonkeyPatch) -> None:
    old = DtypeRates(117, 62, time.time() - 12.5 * 86400)
    monkeypatch.setattr(dtype_speed, "_measured", lambda _: old)
    pair = load_pair(half, needs_draft=False)
    assert pair.speed is not None
    assert pair.speed.words == "bfloat16: products allow 117 tokens/s here, float32 62 (measured 12 days ago)"


def test_no_choice_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of 32 bits would be rounded; small models are not faster."""
    monkeypatch.setattr(dtypes, "SMALL_PARAMS", 1)
    wide = load_pair(str(save(build("llama", seed=1), tmp_path)), needs_draft=False)
    assert (wide.target.info.dtype, wide.speed) == ("float32", None)


def test_a_hub_model_is_asked_for_its_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not in the cache yet; without an answer float32, in which nothing is lost."""
    answers: list[Any] = [Counter({"BF16": 30_000_000, "F32": 1000}), Counter({"F32": 30_000_000}), Counter()]
    monkeypatch.setattr(hub, "snapshot", lambda name: None)
    monkeypatch.setattr(hub, "stored", lambda name: answers.pop(0))
    picked = [pick_dtype(None, CPU, "owner/name") for _ in range(3)]
    assert picked == [torch.bfloat16, torch.float32, torch.float32]
