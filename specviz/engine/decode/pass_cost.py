"""What a loaded model's pass must read and compute, and what this machine reaches: the two sides of a roofline.

Work is counted from the model itself: every weight of its layers and head once, whatever they are stored in, and the
keys and values that a cached position adds. Rates are those of short probes, the best of several tries, over memory far
larger than any cache. They are kept on disk by machine, threads and dtype; probing again keeps the better of old and
new, since another program can only slow a probe down.
"""

import json
import time
from collections.abc import Callable

import msgspec
import torch

from specviz.engine.machine_facts import chip, facts, keep_fact
from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.few_bits.quantised import QuantisedAdapter
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
    n_head = output.numel()
    held = model.sums.dtype if model.widths is not None else model.dtype  # of keys and values
    n_kept = 2 * model.n_layers * (int(model.config.num_attention_heads) // model.groups) * model.head_dim  # a position
    layer_bytes, head_bytes = n_layers * output.element_size(), n_head * output.element_size()
    if isinstance(model, QuantisedAdapter):
        head_bytes = sum(buffer.nbytes for buffer in model.head.buffers())
        layer_bytes = model.n_bytes - head_bytes
    heads = int(model.config.num_attention_heads)
    return PassWork(
        layer_bytes=layer_bytes,
        head_bytes=head_bytes,
        cache_bytes=n_kept * held.itemsize,
        layer_flops=2 * n_layers,
        head_flops=2 * n_head,
        cache_flops=4 * model.n_layers * heads * model.head_dim,
        bits=8 * (layer_bytes + head_bytes) / max(1, n_layers + n_head),
    )


def machine_rates(device: torch.device, dtype: torch.dtype, again: bool = False) -> MachineRates:
    """What this machine reaches in that dtype, with torch's threads as they are; probed the first time, or `again`."""
    key = json.dumps([chip(device), str(dtype)])
    before = facts("machine", MachineRates).get(key)
    if before is not None and not again:
        return before
    found = _probe(device, dtype)
    if before is not None:
        better = {name: max(getattr(before, name), getattr(found, name)) for name in ("read_gbs", "copy_gbs", "gflops")}
        found = msgspec.structs.replace(found, **better)
    keep_fact("machine", key, found)
    return found


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
