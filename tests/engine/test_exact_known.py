"""What the trial of exact rows found is kept on disk, for the very same model, machine, versions and source."""

from pathlib import Path

import pytest
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import Backend
from specviz.engine.model.exact import known, proof
from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.model.exact.proof import BITWISE, exact_here
from support.models import build


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(proof, "_TRIED", {})
    return tmp_path / "cache" / "specviz"


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[ModelAdapter]:
    """The models that were tried, with an answer at once."""
    adapters: list[ModelAdapter] = []

    def trial(adapter: ModelAdapter) -> tuple[Backend, str]:
        adapters.append(adapter)
        return adapter.backend.exact(BatchWidths(4, threads=1)), BITWISE

    monkeypatch.setattr(proof, "make_exact", trial)
    monkeypatch.setattr(proof, "rows_hold", lambda adapter: True)
    return adapters


def model(seed: int = 0, dtype: torch.dtype = torch.float32, width: int = 64) -> ModelAdapter:
    return ModelAdapter(build("llama", seed=seed, dtype=dtype, intermediate_size=width))


def again() -> None:
    """As a new process would."""
    proof._TRIED.clear()


def test_the_same_model_is_not_tried_again(tried: list[ModelAdapter]) -> None:
    assert exact_here(model())[1] == BITWISE
    again()
    backend, exact = exact_here(model(seed=3))
    assert (backend.widths, exact) == (BatchWidths(4, threads=1), BITWISE)
    assert len(tried) == 1


def test_anything_that_kernels_go_by_is_tried_anew(tried: list[ModelAdapter], monkeypatch: pytest.MonkeyPatch) -> None:
    exact_here(model())
    for n, other in enumerate((model(dtype=torch.bfloat16), model(width=128)), start=2):
        again()
        exact_here(other)
        assert len(tried) == n
    again()
    monkeypatch.setenv("MKL_CBWR", "another")
    exact_here(model())
    again()
    monkeypatch.setattr(known, "_source", lambda: "another")
    exact_here(model())
    assert len(tried) == 5


def test_that_rows_are_not_exact_is_tried_again(tried: list[ModelAdapter], monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been a passing want of memory."""
    trial = proof.make_exact
    monkeypatch.setattr(proof, "make_exact", lambda adapter: (adapter.backend, "up to rounding (why)"))
    assert exact_here(model())[1] == "up to rounding (why)"
    again()
    monkeypatch.setattr(proof, "make_exact", trial)
    assert exact_here(model())[1] == BITWISE
    assert len(tried) == 1


def test_what_was_found_is_confirmed_on_the_loaded_model(
    tried: list[ModelAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    exact_here(model())
    again()
    monkeypatch.setattr(proof, "rows_hold", lambda adapter: False)
    exact_here(model())
    assert len(tried) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"a": 3}', "\x00"])
def test_a_file_of_something_else_is_nothing(text: str, folder: Path, tried: list[ModelAdapter]) -> None:
    folder.mkdir(parents=True)
    (folder / "exact.json").write_text(text)
    assert exact_here(model())[1] == BITWISE
    assert len(tried) == 1
    again()
    exact_here(model())
    assert len(tried) == 1
