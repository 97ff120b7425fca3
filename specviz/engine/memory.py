"""Bytes of memory that models and a run need, computed before anything is allocated; what does not fit is refused in
one line.

Weights: the bytes of their storages, shared ones counted once. KV caches: slots times bytes a slot, exactly. Work: what
the widest pass of the prompt allocates, that is attention scores, masks, and the activations of one layer.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.rows import BLOCK
from specviz.errors import ModelError, SpecvizError
from specviz.text import byte_size

_CGROUP = Path("/sys/fs/cgroup")
_STORED = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes of a run. `weights` are held already; `caches` with so many `slots`, and `work` of the widest pass, are
    not."""

    weights: int
    caches: int
    slots: int
    work: int

    @property
    def needed(self) -> int:
        """Bytes that the run still has to allocate."""
        return self.caches + self.work


def plan_of(models: Sequence[ModelAdapter], capacity: int, n_prompt: int) -> MemoryPlan:
    """What models with a cache of `capacity` slots each hold when they decode behind a prompt of `n_prompt` tokens."""
    held: dict[int, int] = {}
    for model in models:
        held |= model.storages()
    caches = sum(_slot_bytes(model) * (capacity + model.new_cache(0).spare) for model in models)
    return MemoryPlan(sum(held.values()), caches, capacity, max(_work(model, n_prompt) for model in models))


def _slot_bytes(model: ModelAdapter) -> int:
    """Keys and values of a token, in all layers."""
    return int(2 * model.n_layers * model.kv_heads * model.head_dim * model.dtype.itemsize)


def _work(model: ModelAdapter, n_prompt: int) -> int:
    """The widest pass of a prompt: its attention or its activations, whichever is more, and its masks."""
    if model.products == "compiled":
        return _compiled_work(model, min(n_prompt, BLOCK), n_prompt)
    widths, exact = model.backend.widths, model.backend.widths is not None
    n = min(n_prompt, widths.most if widths is not None else BLOCK)
    heads = model.kv_heads * model.groups
    item = model.sums.element_size() if exact else model.dtype.itemsize
    scores = 2 * heads * n * n_prompt * item if exact or model.softcap else 0  # before and after the softmax
    fed = min(n_prompt, BLOCK)  # masks of all layer types exist at once, one for each group of heads
    masks = fed * n_prompt * (1 + model.groups * (model.sums.element_size() if exact else 1))
    rows = n * (model.config.hidden_size + 3 * model.inner) * model.dtype.itemsize
    return int(max(scores, rows) + masks)


_TILE = 1 << 18  # bytes that a thread lays out at once, at most


def _compiled_work(model: ModelAdapter, n: int, kv: int) -> int:
    """The same in the kernel, whose attention keeps the scores of a few rows: one layer's numbers, states that come and
    go, the rows that each thread lays out for a product, and who sees whom, thrice while it is looked through."""
    mixed, width = model.kv_heads * model.groups * model.head_dim, model.config.hidden_size
    wide = max(3 * model.inner, mixed + 2 * model.kv_heads * model.head_dim)
    item = model.dtype.itemsize
    laid = torch.get_num_threads() * min(n * max(width, mixed, model.inner) * item, _TILE)
    return int(n * (4 * max(width, mixed) + wide) * item + laid + 3 * n * kv)


def refuse_weights(option: str, stored: Mapping[str, int], dtype: torch.dtype, device: torch.device) -> None:
    """Raises ModelError for weights that do not fit. `stored`: how many, by the dtype that their files name."""
    n = sum(count for kind, count in stored.items() if kind in _STORED)
    needed, free = n * dtype.itemsize, free_bytes(device)
    if free is not None and needed > free:
        advice = "a smaller model" if dtype.itemsize <= 2 else "--dtype bfloat16, or a smaller model"
        word = str(dtype).removeprefix("torch.")
        raise ModelError(
            f"{option}: its weights take {byte_size(needed)} in {word}, and {byte_size(free)} are free: use {advice}"
        )


def refuse_run(plan: MemoryPlan, n_prompt: int, n_new: int, *devices: torch.device) -> None:
    """Raises SpecvizError for a prompt with so many new tokens that do not fit in what computes it."""
    rooms = [free_bytes(device) for device in devices]
    free = None if None in rooms else sum(filter(None, rooms))
    if free is not None and plan.needed > free:
        caches, passes = byte_size(plan.caches), byte_size(plan.work)
        raise SpecvizError(
            f"a prompt of {n_prompt:,} tokens and {n_new:,} new ones take {byte_size(plan.needed)} beside the models "
            f"(caches {caches}, passes {passes}), and {byte_size(free)} are free: shorten the prompt, or give a "
            "smaller --max-new-tokens"
        )


def free_bytes(device: torch.device) -> int | None:
    """Bytes that may still be allocated; None where the system does not report it."""
    if device.type == "cuda":
        own = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + own
    if device.type != "cpu":
        return None
    rooms = [int(psutil.virtual_memory().available)]
    with suppress(OSError, ValueError):  # a container's limit, where it has one
        limit = int((_CGROUP / "memory.max").read_text())
        rooms.append(limit - int((_CGROUP / "memory.current").read_text()))
    return max(0, min(rooms))
