"""What a loaded model's pass must read and compute, and what this machine reaches: the two sides of a roofline.

Work is counted from the model itself: every weight of its layers and head once, whatever they are stored in, and the
keys and values that a cached position adds. Rates are those of short probes, the best of several tries, over memory far
larger than any cache. They are kept on disk by machine, threads and dtype; probing again keeps the better of old and
new, since another program can only slow a probe down.
"""

import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.quantised import QuantisedAdapter
from specviz.events import MachineRates, PassWork

MIB, SIDE, TRIES = 256, 1024, 5
_SPARSE = ("num_local_experts", "num_experts", "n_routed_experts")  # a pass reads the experts that were chosen


def work_of(model: ModelAdapter) -> PassWork | None:
    """What one pass reads and each of its rows computes; None where that depends on the text (mixtures of experts)."""
    config = model.config.to_dict()
    if any((config.get(name) or 0) > 1 for name in _SPARSE):
        return None
    # Of a quantised twin this is the model it was made from: the same matrices, stored in fewer bits.
    full = model.model
    output, table = full.get_output_embeddings().weight, full.get_input_embeddings().weight
    ends = {id(each): each.numel() for each in (output, table)}
    n_layers = sum(weight.numel() for weight in full.parameters()) - sum(ends.values())
    n_head, size = output.numel(), torch.empty(0, dtype=model.dtype).element_size()
    layer_bytes, head_bytes = n_layers * output.element_size(), n_head * output.element_size()
    if isinstance(model, QuantisedAdapter):
        head_bytes = sum(buffer.nbytes for buffer in model.head.buffers())
        layer_bytes = model.n_bytes - head_bytes
    heads = int(model.config.num_attention_heads)
    return PassWork(
        layer_bytes=layer_bytes,
        head_bytes=head_bytes,
        cache_bytes=2
        * model.n_layers
        * (heads // model.groups)
        * model.head_dim
        * (model.sums.element_size() if model.widths else size),
        layer_flops=2 * n_layers,
        head_flops=2 * n_head,
        cache_flops=4 * model.n_layers * heads * model.head_dim,
        bits=8 * (layer_bytes + head_bytes) / max(1, n_layers + n_head),
    )


def machine_rates(device: torch.device, dtype: torch.dtype, again: bool = False) -> MachineRates:
    """What this machine reaches in that dtype with torch's threads as they are; probed at the first call, or `again`.

    A folder that cannot be written is no error: the next process probes for itself.
    """
    place, key = _folder() / "machine.json", _key(device, dtype)
    known: dict[str, MachineRates] = {}
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(place.read_bytes(), type=dict[str, MachineRates])
    before = known.get(key)
    if before is not None and not again:
        return before
    found = _probe(device, dtype)
    if before is not None:
        better = {name: max(getattr(before, name), getattr(found, name)) for name in ("read_gbs", "copy_gbs", "gflops")}
        found = msgspec.structs.replace(found, **better)
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode({**known, key: found}))
        new.replace(place)
    return found


def _folder() -> Path:
    return Path(platformdirs.user_cache_dir("specviz"))


def _key(device: torch.device, dtype: torch.dtype) -> str:
    """What the rates depend on, without a name of the machine."""
    if device.type == "cuda":
        chip = torch.cuda.get_device_name(device)
    else:
        chip = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {os.cpu_count()}"
    return json.dumps([chip, str(dtype), torch.get_num_threads(), torch.__version__])


@torch.inference_mode()
def _probe(device: torch.device, dtype: torch.dtype) -> MachineRates:
    numbers = torch.ones(MIB * 2**18, device=device)
    half = numbers.numel() // 2
    square = torch.ones(SIDE, SIDE, device=device, dtype=dtype)
    read, copy, matmul = (
        _best(act, device)
        for act in (
            lambda: numbers.sum(),
            lambda: numbers[:half].copy_(numbers[half:]),
            lambda: square @ square,
        )
    )
    return MachineRates(
        read_gbs=MIB * 2**20 / read / 1e9,
        copy_gbs=MIB * 2**20 / copy / 1e9,  # half of it read, half written
        gflops=2 * SIDE**3 / matmul / 1e9,
        threads=torch.get_num_threads(),
    )


def _best(act: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest try; the first, which warms up, does not count."""
    found = []
    for _ in range(TRIES + 1):
        began = time.perf_counter()
        act()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append(time.perf_counter() - began)
    return min(found[1:])
