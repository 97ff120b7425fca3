"""One backend for each model, chosen when it is loaded; nothing changes a model afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from specviz.commands import Start
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.backend import TorchBackend
from specviz.engine.model.compiled.passes import KernelBackend
from specviz.engine.model.exact.backend import ExactBackend
from specviz.engine.model.exact.plan import BatchWidths
from specviz.engine.model.pair import Pair, load_pair, with_threads
from specviz.engine.run.local import LocalRun
from specviz.methods import all_methods
from specviz.methods.common.missing import missing
from specviz.names import COMPILE
from support.models import build


def parts_of(adapter: ModelAdapter) -> Iterator[tuple[str, Any]]:
    """What a model and its backend are made of by name, and the modules and forwards of the library's model."""
    yield from vars(adapter).items()
    yield from ((f"backend.{name}", part) for name, part in vars(adapter.backend).items())
    for name, module in adapter.model.named_modules():
        yield f"model.{name}", (module, module.__dict__.get("forward"), dict(module._parameters), dict(module._modules))


def seen(pair: Pair) -> list[dict[str, Any]]:
    return [dict(parts_of(loaded.adapter)) for loaded in (pair.target, pair.draft) if loaded is not None]


@pytest.mark.parametrize("compiled", ["auto", "off"])
def test_no_run_changes_a_loaded_model(compiled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every method that the embedded pair can be run by: the same parts, the same objects, the same weights."""
    monkeypatch.setenv(COMPILE, compiled)
    pair = load_pair(threads=1)
    assert pair.draft is not None
    before = seen(pair)
    weights = [weight.clone() for weight in pair.target.adapter.model.parameters()]
    able = [method.name for method in all_methods().values() if not missing(method, pair)]
    assert len(able) > 8
    for name in able:
        start = Start(prompt="def add(a, b):", method=name, level="full", knobs={"max_new_tokens": 6})
        for _ in LocalRun(pair, start, lambda event: None).rounds():
            pass
    for then, now in zip(before, seen(pair), strict=True):
        assert then.keys() == now.keys()
        for name, part in then.items():
            assert now[name] is part or now[name] == part, name
    assert all(map(torch.equal, weights, pair.target.adapter.model.parameters()))


def test_the_backend_is_the_fastest_whose_rows_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel where there is one, else torch's layers, padded where that makes rows exact."""
    for compiled in ("auto", "off"):
        monkeypatch.setenv(COMPILE, compiled)
        target = load_pair(needs_draft=False, threads=1).target
        kind = ExactBackend if target.exact == "bitwise" else TorchBackend
        assert isinstance(target.adapter.backend, KernelBackend if target.no_kernel is None else kind)
        assert (target.no_kernel is not None) == (target.adapter.products == "torch")
        assert (target.exact == "bitwise") == (target.adapter.backend.widths is not None)


def test_other_threads_are_another_pair() -> None:
    """Its weights are the same ones, and lie where they lay."""
    pair = load_pair(needs_draft=False, threads=1)
    places = [weight.data_ptr() for weight in pair.target.adapter.model.parameters()]
    other = with_threads(pair)
    assert other.target.adapter is not pair.target.adapter
    assert other.target.adapter.model is pair.target.adapter.model
    assert [weight.data_ptr() for weight in pair.target.adapter.model.parameters()] == places
    assert (other.runtime.threads, other.target.exact) == (torch.get_num_threads(), pair.target.exact)


def test_another_backend_is_another_model_over_the_same_weights() -> None:
    adapter = ModelAdapter(build("llama"))
    padded = adapter.with_backend(adapter.backend.exact(BatchWidths(4)))
    assert (adapter.backend.widths, padded.backend.widths) == (None, BatchWidths(4))
    assert padded.backend.plain is adapter.backend
    assert padded.model is adapter.model
    assert adapter.new_cache(8).spare == 0 < padded.new_cache(8).spare
    assert isinstance(adapter.layers[0], nn.Module)
