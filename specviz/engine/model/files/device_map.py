"""A target over the devices of one machine, or partly on its disk, by the library's own map and hooks (accelerate).

Embedding, last norm and head stay on the first device, so laws, exit heads and drafters find them where rows begin and
end. Layers fill the devices in turn, and are the library's own: a fused form would go past the hooks that bring them.
"""

import atexit
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch

from specviz.engine.model.adapter import ModelAdapter, decoder
from specviz.engine.model.backend import ForwardInputs, TorchBackend
from specviz.engine.model.cache import KVCache
from specviz.engine.model.files.dtypes import pick_dtype
from specviz.engine.model.files.loading import Loaded, embedded, load, locate, plain_model, plain_tokenizer, proved
from specviz.engine.model.files.quiet import one_line
from specviz.errors import ModelError
from specviz.text import byte_size

AUTO = "auto"
_FREE = 0.9  # share of the memory that is free which weights may take: caches and passes need the rest


class MappedAdapter(ModelAdapter):
    """An adapter of a model under hooks, which bring what rows need to where a layer computes.

    `places`: that device of every layer; its keys and values lie there. `n_on_disk`: layers that are read for every
    pass.
    """

    def __init__(self, model: Any, name: str = "model", vocab: int | None = None) -> None:
        super().__init__(model, name, vocab)
        self.places = tuple(_place(layer, self.device) for layer in self.layers)
        names = {id(module): name for name, module in model.named_modules()}
        self.n_on_disk = sum(model.hf_device_map.get(names[id(layer)]) == "disk" for layer in self.layers)
        self.backend = MappedBackend(self)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """Those that compute."""
        return tuple(dict.fromkeys((self.device, *self.places)))

    def storages(self) -> dict[int, int]:
        """The memory that its weights lie in; what is on disk takes none."""
        held = [*self.model.parameters(), *self.model.buffers()]
        memory = [tensor.untyped_storage() for tensor in held if tensor.device.type != "meta"]
        return {storage.data_ptr(): storage.nbytes() for storage in memory}

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache of that many slots, each layer's on its device."""
        spare = super().new_cache(0).spare
        return KVCache(self.n_layers, capacity, spare, self.places if len(set(self.places)) > 1 else ())


class MappedBackend(TorchBackend):
    """The library's own layers, each where its hooks let it compute."""

    adapter: MappedAdapter

    @property
    def note(self) -> str:  # type: ignore[override]
        """Where the layers lie, for a header."""
        adapter = self.adapter
        places = [str(place) for place in dict.fromkeys(adapter.places)]
        places += [f"disk: {adapter.n_on_disk} of {adapter.n_layers} read for every pass"] if adapter.n_on_disk else []
        return f"the library's own (spread over {', '.join(places)})"

    def through(self, hidden: torch.Tensor, inputs: ForwardInputs, cache: KVCache, lo: int, hi: int) -> torch.Tensor:
        """Rows through layers `lo..hi`, from device to device."""
        first = self.adapter.device
        for index in range(lo, hi):  # a layer that is left out in part has lost the hook that would move its rows
            hidden = super().through(hidden.to(_place(self.layers[index], first)), inputs, cache, index, index + 1)
        return hidden.to(first)


def load_mapped(source: str | None, dtype: str | None) -> Loaded:
    """A target over what is here, tested; on one device as any other where it fits there. Raises ModelError."""
    name = str(embedded("target")) if source is None else source
    option, where = f"--target {name}", locate(name, "--target")
    first, kind, library = library_map(option, where, dtype)
    if not library:
        return load(source, "target", str(first), dtype)
    with one_line(option):
        tokenizer = plain_tokenizer(where)
    warnings = logging.getLogger("accelerate.big_modeling")  # it warns of weights on disk, which the header records
    before = warnings.level
    warnings.setLevel(logging.ERROR)
    try:
        model = plain_model(name, "target", kind, where, library=library).requires_grad_(False).eval()
    finally:
        warnings.setLevel(before)
    return proved(model, name, "target", tokenizer, MappedAdapter)


def library_map(option: str, where: str, dtype: str | None) -> tuple[torch.device, torch.dtype, dict[str, Any]]:
    """Where rows begin and end, the dtype, and what `from_pretrained` must know to divide a model of it over the
    devices; nothing where the first holds all of it. Raises ModelError."""
    from accelerate.utils import get_max_memory
    from transformers import AutoConfig, AutoModelForCausalLM

    if Path(where).is_file():
        raise ModelError(
            f"{option}: a GGUF file cannot be spread over devices; give a folder that save_pretrained wrote"
        )
    with one_line(option):
        free = {device: int(_FREE * n) for device, n in get_max_memory().items()}
        first = _device(next(iter(free)))
        kind = pick_dtype(dtype, first, where)
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
        with torch.device("meta"):
            devices = device_map(option, AutoModelForCausalLM.from_config(config).to(kind), free)
    if not devices:
        return first, kind, {}
    folder = tempfile.mkdtemp(prefix="specviz-")  # what the library cannot read from the model's own files
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return first, kind, {"device_map": devices, "offload_folder": folder}


def device_map(option: str, model: Any, free: dict[int | str, int]) -> dict[str, int | str]:
    """The library's map, from names of modules to devices; empty where the first device holds all.

    `model`: it without weights (`meta`), in the dtype that it will have; `free`: bytes of each device, in the order
    they are filled. Raises ModelError where embedding and head do not fit on the first.
    """
    from accelerate import infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    layers = decoder(model)[1]
    if layers is None:
        raise ModelError(f"{option}: no decoder layers found in {type(model).__name__}; leave out --device {AUTO}")
    prefix = next(name for name, module in model.named_modules() if module is layers) + "."
    ends = _n_bytes(model) - _n_bytes(layers)
    whole = sorted({type(layer).__name__ for layer in layers})
    room = get_balanced_memory(layers, dict(free), no_split_module_classes=whole)
    first = next(iter(room))
    if room[first] < ends:
        raise ModelError(
            f"{option}: embedding and head take {byte_size(ends)}, and {byte_size(room[first])} may be taken on "
            f"{_device(first)}, where rows begin and end: free more of it, or take a smaller model"
        )
    room[first] -= ends
    inferred = infer_auto_device_map(layers, room, no_split_module_classes=whole, clean_result=False)
    places = {f"{prefix}{index}": inferred.get("", inferred.get(str(index))) for index in range(len(layers))}
    if set(places.values()) == {first}:
        return {}
    others = (name for name, _ in model.named_modules() if not name.startswith(prefix))
    return dict.fromkeys((name for name in others if not prefix.startswith(f"{name}.") and name), first) | places


def _place(layer: Any, first: torch.device) -> torch.device:
    """Where the hooks of a layer let it compute."""
    hooks = (module.__dict__.get("_hf_hook") for module in layer.modules())
    places = (hook.execution_device for hook in hooks if hook is not None and hook.execution_device is not None)
    return _device(next(places, first))


def _device(place: int | str | torch.device) -> torch.device:
    """A device as the library names it: a number is a GPU."""
    return torch.device("cuda", place) if isinstance(place, int) else torch.device(place)


def _n_bytes(module: Any) -> int:
    return sum(int(weight.nbytes) for weight in module.parameters())
