"""What the leading process tells the others before a pass: whole numbers, sent in one broadcast.

A message is a list of orders. Orders about caches wait until the next pass and travel with it, so a pass costs one
broadcast of numbers and one of the rows that enter it. The masks of the rows travel as bits.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

Tensor = torch.Tensor

FRAME = 1024  # numbers in the first broadcast; a longer message sends the rest in a second
STOP, MAKE, WIDEN, DROP, GATHER, PASS = range(6)


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows through some layers. `layers`: of each its place in the model, and what of it is silent (`Silent`).

    `start`: slots that are filled of each of them; `cache`: its number. `masks`: bool `[n, kv]` of every layer type in
    the order of their names, None where every row sees everything.
    """

    cache: int
    layers: tuple[tuple[int, int], ...]
    start: tuple[int, ...]
    positions: tuple[int, ...]
    masks: tuple[Any, ...]

    def numbers(self) -> list[int]:
        """It as an order."""
        out = [PASS, self.cache, len(self.layers), len(self.positions), len(self.masks)]
        for (place, silent), start in zip(self.layers, self.start, strict=True):
            out += [place, silent, start]
        out += self.positions
        for mask in self.masks:
            out += [0] if mask is None else [mask.shape[1], *_words(mask)]
        return out


def _words(mask: Any) -> list[int]:
    """The bits of a mask `[n, kv]` as whole numbers of 32 bits."""
    bits = np.packbits(np.ascontiguousarray(mask).ravel())
    return np.pad(bits, (0, -len(bits) % 4)).view(np.uint32).tolist()  # type: ignore[no-any-return]


@dataclass(slots=True)
class MessageReader:
    """Takes a message apart, from its beginning."""

    numbers: list[int]
    at: int = field(default=0)

    def take(self) -> int:
        """The next number."""
        self.at += 1
        return self.numbers[self.at - 1]

    def some(self, n: int) -> list[int]:
        """The next n."""
        self.at += n
        return self.numbers[self.at - n : self.at]

    @property
    def ended(self) -> bool:
        return self.at == len(self.numbers)

    def rows(self) -> Pass:
        """The pass whose order comes next, its name taken already."""
        cache, n_layers, n, n_masks = self.some(4)
        each = [self.some(3) for _ in range(n_layers)]
        positions = tuple(self.some(n))
        masks = tuple(self._mask(n) for _ in range(n_masks))
        layers = tuple((place, silent) for place, silent, _ in each)
        return Pass(cache, layers, tuple(start for *_, start in each), positions, masks)

    def _mask(self, n: int) -> Any:
        kv = self.take()
        if not kv:
            return None
        words = np.array(self.some(-(-n * kv // 32)), dtype=np.uint32)
        return np.unpackbits(words.view(np.uint8), count=n * kv).astype(np.bool_).reshape(n, kv)


def send(numbers: list[int], device: torch.device) -> None:
    """Tell all other processes."""
    frame = [len(numbers), *numbers[: FRAME - 1]]
    _broadcast(torch.tensor(frame + [0] * (FRAME - len(frame)), device=device))
    if len(numbers) >= FRAME:
        _broadcast(torch.tensor(numbers[FRAME - 1 :], device=device))


def receive(device: torch.device) -> list[int]:
    """What the leading process tells. Waits for it."""
    frame = torch.empty(FRAME, dtype=torch.int64, device=device)
    _broadcast(frame)
    count, *numbers = frame.tolist()
    if count < FRAME:
        return numbers[:count]
    rest = torch.empty(count - FRAME + 1, dtype=torch.int64, device=device)
    _broadcast(rest)
    return [*numbers, *rest.tolist()]


def share(rows: Tensor) -> Tensor:
    """Rows `[1, n, width]` of the leading process, in every process."""
    rows = rows.contiguous()
    _broadcast(rows)
    return rows


def _broadcast(values: Tensor) -> None:
    torch.distributed.broadcast(values, 0)
