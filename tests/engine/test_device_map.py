"""A target that is spread over devices, or partly read from disk, decodes what one in memory does, whatever the method.

Two devices stand on tensors without numbers: what would meet on two devices raises there as it does on real ones.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from torch._subclasses.fake_tensor import FakeTensorMode

from specviz.cli.flags import checked_device
from specviz.cli.options import lacking
from specviz.commands import Start
from specviz.engine.model.cache import KVCache
from specviz.engine.model.compiled import library
from specviz.engine.model.compiled.build import NotCompiled
from specviz.engine.model.compiled.passes import kernel_backend
from specviz.engine.model.drafts.self_draft import self_draft
from specviz.engine.model.files.device_map import AUTO, MappedAdapter, device_map
from specviz.engine.model.files.loading import fingerprint
from specviz.engine.model.pair import Pair, load_pair
from specviz.engine.model.rows import ForwardBatch
from specviz.engine.run.local import LocalRun
from specviz.errors import ModelError, SpecvizError
from specviz.methods import all_methods
from specviz.names import COMPILE
from support.models import CONFIGS, VOCAB

LITTLE = 12_000_000  # bytes; the embedded target takes more
SECOND = "meta"  # stands for a second device


@pytest.fixture(scope="module", autouse=True)
def same_products() -> Iterator[None]:
    """Bits are compared where both sides multiply alike: a spread target never goes through the compiled kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILE, "off")
        library.functions.cache_clear()
        yield
    library.functions.cache_clear()


@pytest.fixture(scope="module")
def whole(same_products: None) -> Pair:
    return load_pair(threads=1)


@contextmanager
def free_memory(n_bytes: int) -> Iterator[None]:
    """A machine whose memory holds so many bytes of weights."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accelerate.utils.get_max_memory", lambda: {"cpu": math.ceil(n_bytes / 0.9)})
        yield


@pytest.fixture(scope="module")
def spread(same_products: None) -> Pair:
    with free_memory(LITTLE):
        pair = load_pair(device=AUTO, threads=1)
    assert isinstance(pair.target.adapter, MappedAdapter)
    assert 0 < pair.target.adapter.n_on_disk < pair.target.adapter.n_layers
    return pair


def decoded(pair: Pair, method: str, **knobs: Any) -> LocalRun:
    start = Start(prompt="def add(a, b):", method=method, knobs={"max_new_tokens": 6, "temperature": 0.8, **knobs})
    run = LocalRun(pair, start, sink=lambda event: None)
    for _ in run.rounds():
        pass
    return run


def test_a_target_read_from_disk_decodes_what_one_in_memory_does(whole: Pair, spread: Pair) -> None:
    assert spread.target.exact == whole.target.exact == "bitwise"
    able = {
        str(method.drafter).partition(":")[0]: name for name, method in all_methods().items() if name not in lacking()
    }
    assert len(able) > 8
    for method in able.values():  # one for each module of drafters: the others are settings of them
        tokens = decoded(spread, method).tokens
        assert len(tokens) > 1, method
        assert tokens == decoded(whole, method).tokens, method


def test_it_is_the_same_model_and_says_where_it_lies(whole: Pair, spread: Pair) -> None:
    assert spread.target.info == whole.target.info
    assert fingerprint(spread.target.adapter) == fingerprint(whole.target.adapter)
    header = decoded(spread, "ar", max_new_tokens=1).header()
    adapter = spread.target.adapter
    assert isinstance(adapter, MappedAdapter)
    assert f"disk: {adapter.n_on_disk} of {adapter.n_layers}" in header.env["layers"]
    assert header.env["products"] == "torch"
    assert "layers" not in decoded(whole, "ar", max_new_tokens=1).header().env


def test_the_compiled_kernel_is_never_given_layers_under_hooks(spread: Pair) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(COMPILE, "auto")
        assert isinstance(kernel_backend(spread.target.adapter), NotCompiled)
    assert spread.target.adapter.products == "torch"


def test_a_target_that_fits_is_loaded_as_any_other(whole: Pair) -> None:
    pair = load_pair(needs_draft=False, device="auto", threads=1)
    assert type(pair.target.adapter) is type(whole.target.adapter)


def test_a_draft_in_few_bits_is_packed_from_disk(whole: Pair, spread: Pair) -> None:
    wanted, got = (decoded(Pair(pair.target, self_draft(pair.target)), "draft") for pair in (whole, spread))
    assert got.tokens == wanted.tokens
    assert got.totals["n_rounds"] == wanted.totals["n_rounds"]


@pytest.mark.parametrize("arch", ["llama", "gemma3", "gpt2", "gpt_neox"])
def test_rows_meet_what_they_need_on_every_device(arch: str) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        adapter = _on_two_devices(build_plain(arch))
        assert [place.type for place in adapter.places] == ["cpu", SECOND, SECOND]
        cache = adapter.new_cache(32)
        rows = ForwardBatch(adapter, cache)
        rows.add_line([1, 2, 3, 4, 5])
        assert rows.take().shape == (5, VOCAB)
        cache.follow([1, 2, 3, 4, 5])
        rows = ForwardBatch(adapter, cache, taps=(2,))
        root = rows.add(6, -1)
        rows.add(7, root)
        rows.add(8, root)
        rows.climb(1)  # an early exit stops between two devices
        assert rows.take().device.type == "cpu"
        assert rows.states(2, [0]).device.type == "cpu"
        assert cache.follow([1, 2, 3, 4, 5, 6, 8]) == []
        assert [buffer.device.type for buffer in cache.widened(64).buffers] == ["cpu", SECOND]


def build_plain(arch: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(CONFIGS[arch]())


def _on_two_devices(model: Any) -> MappedAdapter:
    """All but the first layer on the second device, as hooks would have it."""
    base = model.get_decoder()
    layers = dict(base.named_children()).get("layers") or base.h
    for module in model.modules():
        _put(module, "cpu")
    for layer in list(layers)[1:]:
        for module in layer.modules():
            _put(module, SECOND)
    model.hf_device_map = {}
    return MappedAdapter(model, "it", VOCAB)


def _put(module: Any, device: str) -> None:
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is not None:
                tensors[name] = tensor.detach().to(device)
    add_hook_to_module(module, AlignDevicesHook(execution_device=device))


def test_a_cache_holds_each_layer_where_it_computes() -> None:
    places = (torch.device("cpu"), torch.device("cpu", 0), torch.device("cpu"))  # two names, so two buffers
    noise = torch.Generator().manual_seed(0)
    one, two = KVCache(3, 8), KVCache(3, 8, places=places)
    for cache in (one, two):
        noise.manual_seed(0)
        for token in range(5):
            cache.add(token, token - 1 if token < 3 else 1)
        for layer in range(3):
            keys, values = torch.randn(2, 1, 2, 5, 4, generator=noise)
            cache.update(keys, values, layer)
        assert cache.follow([0, 1, 4]) == []
    assert len(two.buffers) == 2
    assert one.slot_bytes == two.slot_bytes
    for mine, theirs in zip(one.widened(16)._layers, two.widened(16)._layers, strict=True):
        for some, others in zip(mine, theirs, strict=True):
            assert torch.equal(some[:, :, :3], others[:, :, :3])


def test_ends_that_do_not_fit_are_told_in_one_line() -> None:
    with free_memory(2_000_000), pytest.raises(ModelError, match="embedding and head take 3 MB") as raised:
        load_pair(device=AUTO, needs_draft=False)
    assert "\n" not in str(raised.value)


def test_limits_are_no_longer_taken() -> None:
    with pytest.raises(
        SpecvizError, match="--device auto:cpu=2GiB: limits are no longer taken; auto fills what is free"
    ):
        checked_device("auto:cpu=2GiB")
    assert checked_device("auto") == "auto"


def test_layers_fill_the_devices_in_turn_and_ends_stay_together() -> None:
    with torch.device("meta"):
        model = build_plain("llama")
    n_bytes = sum(weight.numel() for weight in model.parameters()) * 4
    places = device_map("--target it", model, {"cpu": int(n_bytes * 0.8)})
    layers = [places[f"model.layers.{index}"] for index in range(3)]
    assert layers == sorted(layers), "layers go to disk from the last"
    assert layers[-1] == "disk"
    assert {place for name, place in places.items() if ".layers." not in name} == {"cpu"}
    assert {"lm_head", "model.embed_tokens", "model.norm"} <= set(places)
    assert device_map("--target it", model, {"cpu": 2 * n_bytes}) == {}
