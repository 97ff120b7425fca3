"""How fast this machine multiplies a model's rows in float32 and in bfloat16: what plain decoding waits for.

Measured when a model of those shapes is first loaded here, by whatever multiplies (the kernel, or torch), and kept on
disk: rounding depends on the dtype, so the same request takes the same one every time.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import torch

from specviz.engine.model.adapter import ModelAdapter
from specviz.engine.model.compiled.products import linear
from specviz.engine.model.exact.known import Kept, key_of

DTYPES = (torch.bfloat16, torch.float32)
APART = 1.1  # times as fast, for one to be chosen or advised in place of the other
_ENOUGH = 32_000_000  # weights that are timed, where there are so many: more bytes than caches hold
_TURNS = 3


class DtypeRates(msgspec.Struct, frozen=True):
    """Tokens a second that products of one row allow, by dtype. `wall`: when, seconds since 1970."""

    bfloat16: float
    float32: float
    wall: float


@dataclass(frozen=True, slots=True)
class DtypeSpeed:
    """The rates for a model, and the dtype it is loaded in."""

    rates: DtypeRates
    dtype: str

    @property
    def other(self) -> str:
        return "float32" if self.dtype == "bfloat16" else "bfloat16"

    @property
    def loses(self) -> bool:
        """Whether the other dtype is clearly faster here."""
        return bool(getattr(self.rates, self.other) > APART * getattr(self.rates, self.dtype))

    @property
    def words(self) -> str:
        """One line: `bfloat16: products allow 117 tokens/s here, float32 62`."""
        own, other = (getattr(self.rates, name) for name in (self.dtype, self.other))
        days = int((time.time() - self.rates.wall) / 86400)
        age = f" (measured {days} day{'' if days == 1 else 's'} ago)" if days > 0 else ""
        return f"{self.dtype}: products allow {own:.0f} tokens/s here, {self.other} {other:.0f}{age}"


_KEPT = Kept("dtypes.json", DtypeRates)


def dtype_speed(adapter: ModelAdapter) -> DtypeSpeed | None:
    """What is known of a model on the CPU in one of the two dtypes, measured where nothing is; else None."""
    if adapter.device.type != "cpu" or len(adapter.devices) > 1 or adapter.dtype not in DTYPES:
        return None
    shapes = tuple(tuple(weight.shape) for weight in adapter.layers[0].parameters())
    key = key_of(adapter.device, ("dtypes", shapes, tuple(adapter.head.weight.shape), adapter.backend.products))
    rates = _KEPT.find(key)
    if rates is None:
        rates = _measured(adapter)
        _KEPT.keep(key, rates)
    return DtypeSpeed(rates, str(adapter.dtype).removeprefix("torch."))


@torch.inference_mode()
def _measured(adapter: ModelAdapter) -> DtypeRates:
    """By the fastest of a few turns, in which the dtypes take turns, and in proportion to all that a token reads."""
    weights = list(_matrices(adapter))
    layer = sum(int(weight.numel()) for weight in adapter.layers[0].parameters() if weight.ndim == 2)
    share = sum(int(weight.numel()) for weight in weights) / (layer * adapter.n_layers + adapter.head.weight.numel())
    least = dict.fromkeys(DTYPES, float("inf"))
    held = {dtype: [weight.to(dtype) for weight in weights] for dtype in DTYPES}
    rows = {dtype: [torch.ones(1, weight.shape[1], dtype=dtype) for weight in weights] for dtype in DTYPES}
    for _ in range(_TURNS):
        for dtype in DTYPES:
            began = time.perf_counter()
            for row, weight in zip(rows[dtype], held[dtype], strict=True):
                linear(row, weight)
            least[dtype] = min(least[dtype], time.perf_counter() - began)
    return DtypeRates(share / least[torch.bfloat16], share / least[torch.float32], time.time())


def _matrices(adapter: ModelAdapter) -> Iterator[torch.Tensor]:
    """Matrices of the layers from the first on, until there are enough."""
    n_weights = 0
    for layer in adapter.layers:
        for weight in layer.parameters():
            if weight.ndim == 2 and n_weights < _ENOUGH:
                n_weights += int(weight.numel())
                yield weight.detach()
